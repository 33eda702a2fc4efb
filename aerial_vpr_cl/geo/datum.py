"""The frame `map` of ROS (REP 103, 105): metres from a datum near the map's middle, x to true east, y to true north.

The map's grid is easting and northing in millions of metres, which viewers that count in single precision cannot show,
and its north is that of a projection: up to 3° from the compass's in a UTM zone. `map` is shifted to the datum and
turned by what the two norths differ there. Its metres stay the grid's, within 0.1 % of those on the ground.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.geo.projection import Projection

ROUND_M = 100.0
"""A datum is a number that people can read out."""


@dataclass(frozen=True)
class Datum:
    """Where `map` begins in the grid, and how it is turned."""

    easting_m: float
    northing_m: float
    north_deg: float  # bearing of true north, clockwise from the grid's

    @classmethod
    def at(cls, point: ArrayLike, projection: Projection) -> Datum:
        """A datum at (easting, northing)."""
        easting, northing = (float(value) for value in np.asarray(point, np.float64))
        return cls(easting, northing, projection.north_deg((easting, northing)))

    def to_map(self, points: ArrayLike) -> NDArray[np.float64]:
        """(..., 2) easting and northing to x and y of `map`."""
        return (np.asarray(points, np.float64) - (self.easting_m, self.northing_m)) @ self._turn.T

    def to_grid(self, points: ArrayLike) -> NDArray[np.float64]:
        """(..., 2) x and y of `map` to easting and northing."""
        return np.asarray(points, np.float64) @ self._turn + (self.easting_m, self.northing_m)

    def covariance_to_map(self, covariance: ArrayLike) -> NDArray[np.float64]:
        """(2, 2) along the grid's axes to the axes of `map`."""
        return self._turn @ np.asarray(covariance, np.float64) @ self._turn.T

    def covariance_to_grid(self, covariance: ArrayLike) -> NDArray[np.float64]:
        """(2, 2) along the axes of `map` to the grid's axes."""
        return self._turn.T @ np.asarray(covariance, np.float64) @ self._turn

    @property
    def grid_yaw_rad(self) -> float:
        """Counter-clockwise angle from the x axis of `map` to the grid's."""
        return math.radians(self.north_deg)

    @property
    def _turn(self) -> NDArray[np.float64]:
        cos, sin = math.cos(self.grid_yaw_rad), math.sin(self.grid_yaw_rad)
        return np.array([[cos, -sin], [sin, cos]])


THE_GRID = Datum(0.0, 0.0, 0.0)
"""Of a frame that is the grid itself."""


def rounded_middle(grid: Grid) -> tuple[float, float]:
    """Easting and northing of the datum of a grid: whole hundreds of metres next to its middle."""
    easting, northing = np.round(grid.middle / ROUND_M) * ROUND_M
    return float(easting), float(northing)
