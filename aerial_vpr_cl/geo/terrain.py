"""How high the ground lies: what turns an altitude into a height above ground."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MODEL_SIGMA_M = 5.0
"""Error of the elevation models that cover the Earth, with what grows and stands on the ground."""


class Near(NamedTuple):
    """Where the drone is thought to be: easting and northing, and how far from there it may be."""

    position: NDArray[np.float64]
    radius_m: float


@dataclass(frozen=True, eq=False)
class Terrain:
    """Elevations in square pixels, row by row from the north-west corner; NaN where they are not known."""

    west: float
    north: float
    step_m: float
    elevation_m: NDArray[np.float32]  # (h, w)

    def under(self, near: Near | None = None) -> tuple[float, float] | None:
        """Mean elevation and its sigma around a place, or of the whole map; none where nothing is known."""
        if near is None:
            return self._everywhere
        east, north = (float(value) for value in near.position)
        if not (math.isfinite(east) and math.isfinite(north) and math.isfinite(near.radius_m)):
            return self._everywhere
        reach = max(near.radius_m, self.step_m)
        rows = _span((self.north - north - reach) / self.step_m, (self.north - north + reach) / self.step_m)
        columns = _span((east - self.west - reach) / self.step_m, (east - self.west + reach) / self.step_m)
        return _mean_and_sigma(self.elevation_m[rows, columns])

    @cached_property
    def _everywhere(self) -> tuple[float, float] | None:
        return _mean_and_sigma(self.elevation_m)


def _span(first: float, last: float) -> slice:
    """Pixels from one place to another; none of them lie before the border."""
    return slice(max(0, math.floor(first)), max(0, math.ceil(last)))


def _mean_and_sigma(elevations: NDArray[np.float32]) -> tuple[float, float] | None:
    known = elevations[np.isfinite(elevations)].astype(np.float64)
    return (float(known.mean()), math.hypot(float(known.std()), MODEL_SIGMA_M)) if known.size else None
