"""The elevation model of a map: any raster of heights, kept as a small GeoTIFF in the map's own coordinates."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import rasterio
from rasterio.enums import Resampling
from rasterio.transform import from_origin
from rasterio.vrt import WarpedVRT

from aerial_vpr_cl.errors import MapError
from aerial_vpr_cl.files import new_file
from aerial_vpr_cl.geo.terrain import Terrain
from aerial_vpr_cl.satellite.raster_source import RASTER_ERRORS, open_raster

TERRAIN_FILE = "terrain.tif"
FINEST_M = 30.0
"""Pixel of the models that cover the Earth; a scale needs no finer one."""
MOST_PX = 4_000_000
LEAST_COVER = 0.5
"""Share of the map for which heights must be known."""


def read_terrain(
    dem: str | Path, bounds: tuple[float, float, float, float], epsg: int, offset_m: float = 0.0
) -> Terrain:
    """The part of an elevation model that lies under (west, south, east, north) of a CRS; MapError if it lies aside."""
    west, south, east, north = bounds
    step = max(FINEST_M, math.sqrt((east - west) * (north - south) / MOST_PX))
    width, height = math.ceil((east - west) / step), math.ceil((north - south) / step)
    place = {"crs": rasterio.CRS.from_epsg(epsg), "transform": from_origin(west, north, step, step)}
    with open_raster(dem) as dataset:
        try:
            options = {"width": width, "height": height, "dtype": "float32", "nodata": math.nan, **place}
            with WarpedVRT(dataset, resampling=Resampling.bilinear, **options) as warped:
                elevations = warped.read(1).astype(np.float32)
        except RASTER_ERRORS as error:
            raise MapError(f"{dem}: its heights cannot be read ({error}); copy it again") from None
    cover = float(np.isfinite(elevations).mean())
    if cover < LEAST_COVER:
        raise MapError(f"{dem}: gives the height of {cover:.0%} of the map only; give a model that covers it")
    return Terrain(west, north, step, elevations + np.float32(offset_m))


def save_terrain(terrain: Terrain, folder: Path, epsg: int) -> None:
    """Keep it in the map folder."""
    height, width = terrain.elevation_m.shape
    transform = from_origin(terrain.west, terrain.north, terrain.step_m, terrain.step_m)
    profile = {"driver": "GTiff", "width": width, "height": height, "count": 1, "dtype": "float32"}
    with (
        new_file(folder / TERRAIN_FILE) as temporary,
        rasterio.open(
            temporary, "w", crs=f"EPSG:{epsg}", transform=transform, nodata=math.nan, compress="deflate", **profile
        ) as file,
    ):
        file.write(terrain.elevation_m, 1)


def load_terrain(folder: Path) -> Terrain | None:
    """The elevation model of a map folder; none if it was built without."""
    if not (folder / TERRAIN_FILE).exists():
        return None
    with open_raster(folder / TERRAIN_FILE) as dataset:
        step = dataset.transform
        return Terrain(step.c, step.f, step.a, dataset.read(1))
