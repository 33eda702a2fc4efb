"""Flights and results as the page shows them: plain values, whoever measured them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Moment:
    """One frame of a flight; positions in the map's metres, NaN or None where they are not known."""

    stamp_ns: int
    state: str = ""
    reason: str = ""  # of a silence; empty for an answer
    position: NDArray[np.float64] | None = None  # (2,)
    covariance: NDArray[np.float64] | None = None  # (2, 2)
    truth: NDArray[np.float64] | None = None
    gnss: NDArray[np.float64] | None = None
    z: float = math.nan
    confidence: float = math.nan
    latency_ms: float = math.nan


@dataclass(frozen=True, eq=False)
class Pictures:
    """What one frame looked like: JPEG bytes, empty where there is none."""

    index: int  # of the moment
    frame: bytes = b""
    view: bytes = b""
    map: bytes = b""
    peak: bytes = b""  # how well the view fitted where it was laid
    searched_m: float = math.nan  # across what the peak's picture shows


@dataclass(frozen=True, eq=False)
class FlightRun:
    """A flight as the page shows it."""

    name: str
    moments: Sequence[Moment]
    pictures: Sequence[Pictures] = ()
    summary: str = ""
    figures: Mapping[str, str] = field(default_factory=dict)  # column → text
    coverage: Mapping[str, float] = field(default_factory=dict)  # stated share in percent → share that held
    silences: Mapping[str, int] = field(default_factory=dict)
    score: Mapping[str, Any] = field(default_factory=dict)  # the same figures as numbers
    kept: Sequence[int] = ()  # moments whose frames the store remembers


@dataclass(frozen=True, eq=False)
class Result:
    """What was measured elsewhere, to stand beside the flights: figures and errors without a track."""

    name: str
    figures: Mapping[str, str] = field(default_factory=dict)
    errors_m: Sequence[float] = ()
    frames: int = 0  # of which so many errors are known
    missions: Sequence[str] = ()  # of the matrix
    matrix: Sequence[Sequence[float]] = ()  # recall on every mission (column) after each was learnt (row), from none


@dataclass(frozen=True, eq=False)
class Ground:
    """The map under the flights: RGB, and west, south, east, north in metres."""

    image: NDArray[np.uint8]
    bounds: tuple[float, float, float, float]


def known(point: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """A position, or None for one that is NaN."""
    return point if np.isfinite(point).all() else None
