"""Small rasters for the tests, written with rasterio."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.enums import ColorInterp, Resampling
from rasterio.transform import from_origin

WEST, NORTH = 500_000.0, 5_200_000.0


def write_raster(
    path: Path,
    image: NDArray[Any],
    *,
    epsg: int | None = 32614,
    west: float = WEST,
    north: float = NORTH,
    pixel: float | tuple[float, float] = 1.0,
    nodata: float | None = None,
    colours: tuple[ColorInterp, ...] | None = None,
    mask: NDArray[np.bool_] | None = None,
    overviews: tuple[int, ...] = (),
) -> Path:
    """Write (h, w) or (h, w, bands) as GeoTIFF with its outer north-west corner at (west, north)."""
    bands = image[..., None] if image.ndim == 2 else image
    height, width, count = bands.shape
    x, y = pixel if isinstance(pixel, tuple) else (pixel, pixel)
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
        rasterio.open(
            path,
            "w",
            driver="GTiff",
            width=width,
            height=height,
            count=count,
            dtype=bands.dtype,
            crs=None if epsg is None else f"EPSG:{epsg}",
            transform=from_origin(west, north, x, y),
            nodata=nodata,
            tiled=True,
            blockxsize=128,
            blockysize=128,
            compress="deflate",
        ) as file,
    ):
        file.write(np.moveaxis(bands, -1, 0))
        if colours:
            file.colorinterp = colours
        if mask is not None:
            file.write_mask(mask)
        if overviews:
            file.build_overviews(overviews, Resampling.average)
    return path


def noise_image(height: int, width: int, bands: int = 3, seed: int = 0) -> NDArray[np.uint8]:
    """Random pixels from 1 to 255: 0 stays free for no-data."""
    return np.random.default_rng(seed).integers(1, 256, (height, width, bands), dtype=np.uint8)


def position_image(height: int, width: int) -> NDArray[np.uint8]:
    """Red grows by one per column and green by one per row (at most 256 of each); blue is constant."""
    rows, columns = np.mgrid[:height, :width]
    return np.stack([columns, rows, np.full_like(rows, 90)], axis=-1).astype(np.uint8)
