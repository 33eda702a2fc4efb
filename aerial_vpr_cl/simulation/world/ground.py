"""What a camera looks at: the ground in one appearance, read in square windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.geo.projection import Projection
from aerial_vpr_cl.simulation.world.appearance import Appearance


@dataclass(frozen=True)
class Window:
    """A north-up piece of the ground; pixel (0, 0) has its outer corner at (west, north)."""

    image: NDArray[np.uint8]
    west: float
    north: float
    resolution_m: float


class GroundImage(Protocol):
    """The ground on one day. Positions are easting and northing in metres of `projection`."""

    @property
    def projection(self) -> Projection: ...

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """West, south, east, north."""
        ...

    @property
    def resolution_m(self) -> float: ...

    def window(self, centre: NDArray[np.float64], side_m: float) -> Window:
        """The square of `side_m` around a point, at full resolution."""
        ...


class World(Protocol):
    """A place that can be flown over on any day with any sensor."""

    def ground(self, appearance: Appearance, modality: str) -> GroundImage:
        """The ground as one sensor sees it on one day."""
        ...


@dataclass(frozen=True)
class ArrayGround:
    """Ground held in memory."""

    image: NDArray[np.uint8]
    west: float
    north: float
    resolution_m: float
    projection: Projection

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """West, south, east, north in metres."""
        height, width = self.image.shape[:2]
        return self.west, self.north - height * self.resolution_m, self.west + width * self.resolution_m, self.north

    def window(self, centre: NDArray[np.float64], side_m: float) -> Window:
        """The part of the square that lies on the ground; a view, not a copy."""
        height, width = self.image.shape[:2]
        column, row = (centre[0] - self.west) / self.resolution_m, (self.north - centre[1]) / self.resolution_m
        reach = side_m / self.resolution_m / 2.0
        top, bottom = np.clip([np.floor(row - reach), np.ceil(row + reach)], 0, height).astype(int)
        left, right = np.clip([np.floor(column - reach), np.ceil(column + reach)], 0, width).astype(int)
        return Window(
            self.image[top:bottom, left:right],
            self.west + float(left) * self.resolution_m,
            self.north - float(top) * self.resolution_m,
            self.resolution_m,
        )
