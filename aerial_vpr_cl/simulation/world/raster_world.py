"""Any georeferenced raster as the ground to fly over: a date of real imagery, or one of its bands as infrared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.geo.projection import Projection
from aerial_vpr_cl.satellite.raster import SatelliteMap
from aerial_vpr_cl.simulation.world.appearance import Appearance
from aerial_vpr_cl.simulation.world.ground import Window


class RasterWorld:
    """A raster looks as it was taken: season, light and change are those of its date, the sensor is its bands."""

    def __init__(self, path: str | Path, *, bands: Sequence[int] | None = None, epsg: int | None = None) -> None:
        self._map = SatelliteMap.open(path, bands=bands, epsg=epsg)

    @property
    def projection(self) -> Projection:
        """Projection of the metres in which flights are planned."""
        return self._map.projection

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """West, south, east, north in metres."""
        return self._map.bounds

    @property
    def resolution_m(self) -> float:
        """Side of a pixel."""
        return self._map.resolution_m

    def ground(self, appearance: Appearance, modality: str) -> RasterWorld:
        """The raster itself, whatever the day."""
        return self

    def window(self, centre: NDArray[np.float64], side_m: float) -> Window:
        """The square around a point at the raster's own resolution; black where it has no data."""
        size = max(2, int(np.ceil(side_m / self.resolution_m)))
        side = size * self.resolution_m
        patches, _ = self._map.read_patches(centre[None], 0.0, side, size)
        return Window(patches[0], float(centre[0]) - side / 2.0, float(centre[1]) + side / 2.0, self.resolution_m)
