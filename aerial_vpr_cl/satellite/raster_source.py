"""Opening any georeferenced raster: which CRS, which bands, which values are valid, as 8-bit RGBA windows."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray
from pyproj import CRS
from rasterio import warp
from rasterio.enums import ColorInterp, Resampling
from rasterio.errors import NotGeoreferencedWarning, RasterioError, RasterioIOError
from rasterio.transform import Affine
from rasterio.vrt import WarpedVRT
from rasterio.windows import Window

from aerial_vpr_cl.errors import MapError
from aerial_vpr_cl.geo.projection import Projection, utm_epsg

logger = logging.getLogger(__name__)

RASTER_ERRORS = (RasterioError, RasterioIOError)
"""What rasterio raises; until 1.3 its errors of reading and opening were plain OSErrors."""

ValueRange = tuple[tuple[float, float], ...]
"""Per band, the raw values that become 0 and 255."""

STRETCH_PERCENTILES = (2.0, 98.0)
STRETCH_SAMPLE_PX = 1024
"""Longest side of the overview that the 8-bit stretch of deeper rasters is measured on."""


class RasterSource:
    """A raster file seen as north-up RGBA in a metric CRS; alpha 0 is no-data.

    File handles belong to one thread of one process each, so that loader threads and forked workers may share it.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        epsg: int | None = None,
        bands: Sequence[int] | None = None,
        value_range: ValueRange | None = None,
    ) -> None:
        self.path = str(path)
        self._handles = threading.local()
        with open_raster(self.path) as dataset:
            self.epsg = choose_epsg(dataset, self.path, epsg)
            self.bands = choose_bands(dataset, self.path, bands)
            self.value_range = value_range or measure_value_range(dataset, self.path, self.bands)
            # Overviews by powers of two; others do not fit a pyramid of halvings.
            factors = [factor for factor in dataset.overviews(1) if factor & (factor - 1) == 0]
            self.overviews = {factor: dataset.overviews(1).index(factor) for factor in sorted(factors)}
            self._warped = dataset.crs.to_epsg() != self.epsg or not _is_north_up(dataset.transform)
            if self._warped:
                self.transform, self.width, self.height = warp.calculate_default_transform(
                    dataset.crs, rasterio.CRS.from_epsg(self.epsg), dataset.width, dataset.height, *dataset.bounds
                )
                logger.info("%s: reprojected from %s to EPSG:%d", self.path, dataset.crs, self.epsg)
            else:
                self.transform, self.width, self.height = dataset.transform, dataset.width, dataset.height

    def dataset(self, factor: int = 1) -> Any:
        """This thread's open dataset at full resolution, or at the overview of that factor."""
        if getattr(self._handles, "pid", None) != os.getpid():
            self._handles.pid, self._handles.datasets = os.getpid(), {}
        if factor not in self._handles.datasets:
            level = {"overview_level": self.overviews[factor]} if factor > 1 else {}
            dataset = open_raster(self.path, **level)
            self._handles.datasets[factor] = self._warp(dataset, factor) if self._warped else dataset
        return self._handles.datasets[factor]

    def read(self, factor: int, rows: tuple[int, int], columns: tuple[int, int]) -> NDArray[np.uint8]:
        """RGBA window (h, w, 4) of the dataset at that overview factor; rows and columns are half-open ranges."""
        window = Window(columns[0], rows[0], columns[1] - columns[0], rows[1] - rows[0])
        dataset = self.dataset(factor)
        try:
            values = dataset.read(self.bands, window=window)
            valid = validity(dataset, window=window)
        except RASTER_ERRORS as error:
            raise MapError(
                f"{self.path}: damaged, {rows=} {columns=} cannot be read ({error}); copy it again"
            ) from None
        if values.dtype.kind == "f":
            valid &= np.isfinite(values).all(axis=0)
        rgba = np.empty((*valid.shape, 4), np.uint8)
        rgba[..., :3] = np.moveaxis(_to_8_bit(values, self.value_range), 0, -1)
        rgba[..., 3] = valid * np.uint8(255)
        rgba[~valid] = 0
        return rgba

    def _warp(self, dataset: Any, factor: int) -> WarpedVRT:
        step = self.transform
        return WarpedVRT(
            dataset,
            crs=rasterio.CRS.from_epsg(self.epsg),
            resampling=Resampling.bilinear,
            transform=Affine(step.a * factor, 0.0, step.c, 0.0, step.e * factor, step.f),
            width=-(-self.width // factor),
            height=-(-self.height // factor),
            add_alpha=ColorInterp.alpha not in dataset.colorinterp,  # the warp's own edges are no-data too
        )


def open_raster(path: str | Path, **options: Any) -> Any:
    """Open a raster that has a position on Earth; MapError says what is missing and how to add it."""
    local = Path(path)
    if not _is_remote(path):
        if not local.exists():
            raise MapError(f"{path}: no such file; give the path of a GeoTIFF, COG or VRT")
        if local.is_file() and local.stat().st_size == 0:
            raise MapError(f"{path}: the file is empty (0 bytes); copy or download it again")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotGeoreferencedWarning)
            dataset = rasterio.open(path, **options)
    except RASTER_ERRORS as error:
        raise MapError(f"{path}: not a raster that GDAL can open ({error}); give a GeoTIFF, COG or VRT") from None
    problem = None
    if dataset.count == 0:
        problem = "the raster has no bands; give one with imagery"
    elif dataset.crs is None:
        problem = f"the raster has no coordinate system (CRS); add it: gdal_edit.py -a_srs EPSG:<code> {path}"
    elif dataset.transform == Affine.identity():
        problem = f"the raster has no position; add it: gdal_edit.py -a_ullr <west> <north> <east> <south> {path}"
    elif dataset.colorinterp[0] == ColorInterp.palette:
        problem = f"the raster holds palette indices; expand them: gdal_translate -expand rgb {path} rgb.tif"
    elif dataset.dtypes[0].startswith("complex"):
        problem = "the raster holds complex numbers; give one with imagery"
    if problem:
        dataset.close()
        raise MapError(f"{path}: {problem}")
    return dataset


def validity(dataset: Any, **where: Any) -> NDArray[np.bool_]:
    """(h, w) which pixels hold imagery, of a part of a dataset or of all of it, as `read` takes it.

    GDAL takes a transparency band for the mask of 8 and 16 bit data of two or four bands only.
    """
    if ColorInterp.alpha not in dataset.colorinterp:
        return np.asarray(dataset.dataset_mask(**where) > 0)
    alpha = dataset.colorinterp.index(ColorInterp.alpha) + 1
    valid = dataset.read(alpha, **where) > 0
    if dataset.nodata is not None:
        valid &= np.any([dataset.read_masks(band, **where) for band in dataset.indexes if band != alpha], axis=0)
    return np.asarray(valid)


def choose_epsg(dataset: Any, path: str, epsg: int | None = None) -> int:
    """The wanted EPSG code, else the raster's own if it is a UTM zone in metres, else the UTM zone of its centre."""
    if epsg is not None:
        if Projection(epsg).crs.axis_info[0].unit_name != "metre":
            raise MapError(f"EPSG:{epsg} is not in metres; choose a UTM zone")
        return epsg
    own = dataset.crs.to_epsg()
    if own is not None:
        crs = CRS.from_epsg(own)
        if crs.utm_zone is not None and crs.axis_info[0].unit_name == "metre":
            return own
    x, y = dataset.xy(dataset.height / 2, dataset.width / 2, offset="ul")
    try:
        (longitude,), (latitude,) = warp.transform(dataset.crs, rasterio.CRS.from_epsg(4326), [x], [y])
    except RASTER_ERRORS as error:
        raise MapError(f"{path}: its CRS cannot be converted to WGS 84 ({error}); reproject it with gdalwarp") from None
    if not (np.isfinite(longitude) and np.isfinite(latitude)):
        raise MapError(f"{path}: its centre ({x:g}, {y:g}) has no place on Earth; correct its CRS with gdal_edit.py")
    return utm_epsg(latitude, longitude)


def choose_bands(dataset: Any, path: str, bands: Sequence[int] | None = None) -> tuple[int, ...]:
    """Three band numbers for red, green, blue, or one for grey; by colour interpretation unless given."""
    if bands:
        if len(bands) not in (1, 3):
            raise MapError(f"{path}: {len(bands)} bands asked for; give one (grey) or three (red, green, blue)")
        for band in bands:
            if not 1 <= band <= dataset.count:
                raise MapError(f"{path}: there is no band {band}; it has bands 1 to {dataset.count}")
        return tuple(int(band) for band in bands)
    colours = (ColorInterp.red, ColorInterp.green, ColorInterp.blue)
    if all(colour in dataset.colorinterp for colour in colours):
        return tuple(dataset.colorinterp.index(colour) + 1 for colour in colours)
    plain = [band for band, colour in enumerate(dataset.colorinterp, start=1) if colour != ColorInterp.alpha]
    if not plain:
        raise MapError(f"{path}: it holds only a transparency band; give a raster with imagery")
    return tuple(plain[:3]) if len(plain) >= 3 else (plain[0],)


def measure_value_range(dataset: Any, path: str, bands: Sequence[int]) -> ValueRange | None:
    """Robust range of each band of a raster deeper than 8 bit, measured once on an overview; None for 8 bit."""
    if all(dataset.dtypes[band - 1] == "uint8" for band in bands):
        return None
    shrink = max(1.0, max(dataset.width, dataset.height) / STRETCH_SAMPLE_PX)
    shape = (max(1, round(dataset.height / shrink)), max(1, round(dataset.width / shrink)))
    values = dataset.read(bands, out_shape=(len(bands), *shape)).astype(np.float64)
    valid = validity(dataset, out_shape=shape) & np.isfinite(values).all(axis=0)
    if not valid.any():
        raise no_data_only(path)
    low, high = np.percentile(values[:, valid], STRETCH_PERCENTILES, axis=1)
    return tuple((float(a), float(b) if b > a else float(a) + 1.0) for a, b in zip(low, high))


def no_data_only(path: str | Path) -> MapError:
    """The error of a raster without a single valid pixel."""
    return MapError(f"{path}: every pixel is no-data; check its no-data value or mask with gdalinfo -stats")


def _to_8_bit(values: NDArray[Any], value_range: ValueRange | None) -> NDArray[np.uint8]:
    if value_range is None:
        return values
    low = np.array([a for a, _ in value_range], np.float32)[:, None, None]
    high = np.array([b for _, b in value_range], np.float32)[:, None, None]
    scaled = (np.nan_to_num(values.astype(np.float32)) - low) * (255.0 / (high - low))
    return np.rint(scaled).clip(0, 255).astype(np.uint8)


def _is_north_up(transform: Affine) -> bool:
    return transform.b == 0 and transform.d == 0 and transform.a > 0 and transform.e < 0


def _is_remote(path: str | Path) -> bool:
    return "://" in str(path) or str(path).startswith("/vsi")
