"""How good the answers along a flight were: how many, how near, how honest, and why there were none."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

NEAR_M = (25, 50, 100, 300)
WRONG_M = (100, 300)
COVERED = (50, 90, 95)


@dataclass(frozen=True, eq=False)
class FlightAnswers:
    """What was answered to all frames of a flight, and where the drone was; NaN where there is none or nobody knows."""

    name: str
    modality: str
    positions: str  # where the truth comes from: truth, gnss, or empty
    stamps_ns: NDArray[np.int64]  # (n,)
    truth: NDArray[np.float64]  # (n, 2) easting and northing
    given: NDArray[np.float64]  # (n, 2)
    covariances: NDArray[np.float64]  # (n, 2, 2)
    reasons: tuple[str, ...]  # (n,) of silence; empty where a position was given
    refused: dict[str, int] = field(default_factory=dict)  # images that could not be used, by reason
    epsg: int = 0  # of the metres, where it is known

    @property
    def published(self) -> NDArray[np.bool_]:
        """(n,) which frames got a position."""
        return np.asarray(np.isfinite(self.given).all(axis=1))

    @property
    def known(self) -> NDArray[np.bool_]:
        """(n,) of which frames the true position is known."""
        return np.asarray(np.isfinite(self.truth).all(axis=1))

    @property
    def errors_m(self) -> NDArray[np.float64]:
        """(n,) distance from the truth; NaN where one of both is missing."""
        return np.hypot(*(self.given - self.truth).T)

    @property
    def squared(self) -> NDArray[np.float64]:
        """(n,) squared errors in units of the stated covariance (NEES): 2 on average if it is honest."""
        apart = np.nan_to_num(self.given - self.truth)
        stated = np.where(np.isfinite(self.covariances), self.covariances, np.eye(2))
        values = np.einsum("ni,ni->n", apart, np.linalg.solve(stated, apart[..., None])[..., 0])
        return np.where(np.isfinite(self.errors_m), values, np.nan)


@dataclass(frozen=True)
class FlightScore:
    """Figures of one flight or of several together. Shares are 0 to 1; NaN where there was nothing to measure."""

    frames: int
    published: int
    first_fix_frame: float  # number of the first frame with a position, from 1; the median of several flights
    recall: dict[str, float]  # metres → share of all frames whose truth is known
    published_recall: dict[str, float]  # metres → share of those with a position
    wrong_100m: float  # share of those with a position that are further off
    wrong_300m: float
    coverage: dict[str, float]  # per cent → share of the truths within the stated region
    nees: float
    median_m: float
    availability: float  # share of frames with a position, from the first one on
    silences: dict[str, int]  # reason → frames

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what is not known is null."""
        return _without_nan(asdict(self))


def score(flights: Sequence[FlightAnswers]) -> FlightScore:
    """Judge the answers of flights, all frames alike."""
    known = np.concatenate([flight.known for flight in flights])
    given = np.concatenate([flight.published for flight in flights])
    errors = np.concatenate([flight.errors_m for flight in flights])[given & known]
    squared = np.concatenate([flight.squared for flight in flights])[given & known]
    firsts = [int(np.argmax(flight.published)) for flight in flights if flight.published.any()]
    after = [flight.published[np.argmax(flight.published) :] for flight in flights if flight.published.any()]
    silences = Counter(reason for flight in flights for reason in flight.reasons if reason)
    within = {metres: float((errors <= metres).sum()) for metres in NEAR_M}
    return FlightScore(
        frames=len(given),
        published=int(given.sum()),
        first_fix_frame=float(np.median(firsts)) + 1.0 if firsts else math.nan,
        recall={str(metres): _share(count, int(known.sum())) for metres, count in within.items()},
        published_recall={str(metres): _share(count, errors.size) for metres, count in within.items()},
        wrong_100m=_share(float((errors > WRONG_M[0]).sum()), errors.size),
        wrong_300m=_share(float((errors > WRONG_M[1]).sum()), errors.size),
        coverage={str(share): _covered(squared, share) for share in COVERED},
        nees=float(squared.mean()) if squared.size else math.nan,
        median_m=float(np.median(errors)) if errors.size else math.nan,
        availability=float(np.concatenate(after).mean()) if after else math.nan,
        silences=dict(silences.most_common()),
    )


def covered(flight: FlightAnswers, percents: Sequence[float]) -> list[float]:
    """Share of the truths within each of these stated regions."""
    squared = flight.squared[np.isfinite(flight.squared)]
    return [_covered(squared, percent) for percent in percents]


def region(percent: float) -> float:
    """Squared distance, in units of the covariance, that holds so many per cent of a Gaussian in the plane."""
    return -2.0 * math.log(1.0 - percent / 100.0)


def _covered(squared: NDArray[np.float64], percent: float) -> float:
    return _share(float((squared <= region(percent)).sum()), squared.size)


def _share(count: float, of: int) -> float:
    return count / of if of else math.nan


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(entry) for key, entry in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value
