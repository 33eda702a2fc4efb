"""The semantic layers of a procedural world: what stands where, before any light, season or sensor."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.simulation.world.parcels import Points

FLAT_ROOF = 255
"""Value of `roof_aspect` where a roof does not slope."""


class Ground(IntEnum):
    """What the ground is, buildings and trees left away."""

    MEADOW = 0
    FIELD = 1
    FOREST = 2
    WATER = 3
    ROAD = 4
    TRACK = 5
    YARD = 6
    PAVED = 7
    RAIL = 8


class Use(IntEnum):
    """What a district is used for; decides its parcels and buildings."""

    FARMLAND = 0
    WOODLAND = 1
    TOWN = 2
    SUBURB = 3
    INDUSTRY = 4


@dataclass(frozen=True)
class Building:
    """One roof; `spare` ones do not stand at the map's date and are what later change may build."""

    outline: Points  # (4, 2)
    height_m: float
    gabled: bool
    material: int
    spare: bool


@dataclass(frozen=True)
class Layers:
    """Rasters (H, W), row 0 in the north, and tables by parcel id and by building id."""

    ground: NDArray[np.uint8]  # Ground
    parcel: NDArray[np.int32]  # id of the field, block or stand
    second_half: NDArray[np.bool_]  # the part of a parcel that becomes its own field when change divides it
    building: NDArray[np.int32]  # 0: none
    roof_aspect: NDArray[np.uint8]  # azimuth of the slope in 1/128 half turns, or FLAT_ROOF
    tree_m: NDArray[np.float32]  # height of trees, 0 where none stand
    parcel_use: NDArray[np.uint8]  # (P,) Use
    parcel_furrow_deg: NDArray[np.float32]  # (P,)
    building_height_m: NDArray[np.float32]  # (B + 1,), entry 0 unused
    building_material: NDArray[np.uint8]  # (B + 1,)
    building_spare: NDArray[np.bool_]  # (B + 1,)


class Canvas:
    """Draws polygons and lines given in metres into rasters of the world."""

    def __init__(self, width_m: float, height_m: float, resolution_m: float) -> None:
        self.resolution_m = resolution_m
        self.height_m = height_m
        self.shape = (round(height_m / resolution_m), round(width_m / resolution_m))

    def fill(self, raster: NDArray, polygon: Points, value: float) -> None:
        """Fill a polygon."""
        cv2.fillPoly(raster, [self._pixels(polygon)], (value,), shift=4)

    def line(self, raster: NDArray, points: Points, width_m: float, value: float) -> None:
        """Draw a polyline of a given width; at least one pixel."""
        thickness = max(1, round(width_m / self.resolution_m))
        cv2.polylines(raster, [self._pixels(points)], False, (value,), thickness, shift=4)

    def disc(self, raster: NDArray, centre: Points, radius_m: float, value: float) -> None:
        """Fill a circle."""
        x, y = self._pixels(centre[None])[0]
        cv2.circle(raster, (int(x), int(y)), round(16 * radius_m / self.resolution_m), (value,), -1, shift=4)

    def window(self, polygon: Points) -> tuple[slice, slice]:
        """Rows and columns of the raster around a polygon, inside the world."""
        rows = (self.height_m - polygon[:, 1]) / self.resolution_m
        columns = polygon[:, 0] / self.resolution_m
        low = np.floor([rows.min(), columns.min()]).astype(int).clip(0, self.shape)
        high = np.ceil([rows.max() + 1, columns.max() + 1]).astype(int).clip(0, self.shape)
        return slice(int(low[0]), int(high[0])), slice(int(low[1]), int(high[1]))

    def covers(self, polygon: Points, taken: NDArray[np.uint8]) -> bool:
        """Whether a polygon lies in the world and touches no taken pixel."""
        rows, columns = self.window(polygon)
        part = taken[rows, columns]
        if min(part.shape) < 2:
            return False
        mask = np.zeros(part.shape, np.uint8)
        pixels = self._pixels(polygon) - 16 * np.array([columns.start, rows.start], np.int32)
        cv2.fillPoly(mask, [pixels], (1,), shift=4)
        return not bool((mask & part).any())

    def _pixels(self, points: Points) -> NDArray[np.int32]:
        """Metres to pixel centres with four fractional bits."""
        x = points[:, 0] / self.resolution_m - 0.5
        y = (self.height_m - points[:, 1]) / self.resolution_m - 0.5
        return np.round(16.0 * np.stack([x, y], axis=1)).astype(np.int32)
