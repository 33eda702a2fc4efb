"""The satellite map: any raster, read as square patches of the ground at any place, heading and scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from aerial_vpr_cl.geo.projection import Projection
from aerial_vpr_cl.progress import Progress, silent
from aerial_vpr_cl.satellite.pyramid import Geometry, Level, Pyramid
from aerial_vpr_cl.satellite.raster_source import RasterSource, ValueRange

MARGIN_PX = 2
"""Pixels read around a patch, for interpolation."""


class SatelliteMap:
    """A georeferenced raster in metres. Patches come from memory where the budget allows, else from the file."""

    def __init__(self, source: RasterSource, memory_budget_mb: int) -> None:
        self._source = source
        self._pyramid = Pyramid(source, memory_budget_mb)
        self.path = Path(source.path)
        self.epsg = source.epsg
        self.projection = Projection(source.epsg)
        step = source.transform
        self.geometry = Geometry(step.c, step.f, step.a, -step.e, source.width, source.height)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        epsg: int | None = None,
        bands: Sequence[int] | None = None,
        memory_budget_mb: int = 2048,
        value_range: ValueRange | None = None,
    ) -> SatelliteMap:
        """Open a GeoTIFF, COG or VRT in any CRS.

        It is seen in `epsg` if given, in its own CRS if that is a UTM zone, else in the UTM zone of its centre.
        Bands: red, green, blue by colour interpretation, else the first three, else one as grey. Values deeper than
        8 bit are stretched by `value_range`, measured on an overview unless given.
        """
        return cls(RasterSource(path, epsg=epsg, bands=bands, value_range=value_range), memory_budget_mb)

    @property
    def bands(self) -> tuple[int, ...]:
        """Band numbers in use: red, green, blue, or one for grey."""
        return self._source.bands

    @property
    def value_range(self) -> ValueRange | None:
        """Raw values that become 0 and 255, per band; None for 8-bit rasters."""
        return self._source.value_range

    @property
    def resolution_m(self) -> float:
        """Side of a pixel in metres."""
        return math.sqrt(self.geometry.pixel_width_m * self.geometry.pixel_height_m)

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """West, south, east, north in metres."""
        g = self.geometry
        return g.west, g.north - g.height * g.pixel_height_m, g.west + g.width * g.pixel_width_m, g.north

    @property
    def size_m(self) -> tuple[float, float]:
        """Extent from west to east and from south to north, in metres."""
        west, south, east, north = self.bounds
        return east - west, north - south

    def read_patches(
        self, centres: ArrayLike, angles_deg: ArrayLike, footprint_m: ArrayLike, size_px: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Square patches (n, s, s, 3) whose tops point along their headings, and the share of valid pixels (n,).

        Centres are (n, 2) easting and northing, angles degrees clockwise from north; angles and footprints may be
        single numbers. Pixels without data are black.
        """
        centres = np.asarray(centres, np.float64).reshape(-1, 2)
        angles = np.broadcast_to(np.asarray(angles_deg, np.float64), len(centres))
        footprints = np.broadcast_to(np.asarray(footprint_m, np.float64), len(centres))
        patches = np.zeros((len(centres), size_px, size_px, 3), np.uint8)
        valid = np.zeros(len(centres), np.float32)
        for n, (centre, angle, footprint) in enumerate(zip(centres, angles, footprints)):
            rgba = _sample(self._level_for(footprint / size_px), centre, angle, footprint, size_px)
            if rgba is not None:
                patches[n] = cv2.cvtColor(rgba, cv2.COLOR_RGBA2RGB)  # 10 times faster than a strided copy
                valid[n] = cv2.mean(rgba)[3] / 255.0
        return patches, valid

    def read_area(self, west: float, north: float, pixel_m: float, shape: tuple[int, int]) -> NDArray[np.uint8]:
        """North-up RGBA (h, w, 4) of the area with this outer north-west corner; alpha 0 where there is no data."""
        level = self._level_for(pixel_m)
        g = level.geometry
        height, width = shape
        columns = _range_within(
            (west - g.west) / g.pixel_width_m, (west + width * pixel_m - g.west) / g.pixel_width_m, g.width
        )
        rows = _range_within(
            (g.north - north) / g.pixel_height_m, (g.north - north + height * pixel_m) / g.pixel_height_m, g.height
        )
        if columns is None or rows is None:
            return np.zeros((height, width, 4), np.uint8)
        x_step, y_step = pixel_m / g.pixel_width_m, pixel_m / g.pixel_height_m
        to_level = np.array([[x_step, 0.0, 0.0], [0.0, y_step, 0.0]])
        to_level[0, 2] = (west - g.west) / g.pixel_width_m + x_step / 2 - 0.5 - columns[0]
        to_level[1, 2] = (g.north - north) / g.pixel_height_m + y_step / 2 - 0.5 - rows[0]
        return _warp(level, rows, columns, to_level, (width, height))

    def coverage(self, pixel_m: float, progress: Progress = silent) -> tuple[NDArray[np.uint8], Geometry]:
        """Valid share (0 to 255) of every pixel of an image of the map whose pixels are at most `pixel_m` wide."""
        level = self._pyramid.whole(math.floor(math.log2(max(1.0, pixel_m / self.resolution_m))), progress)
        return np.ascontiguousarray(level.rgba[..., 3]), level.geometry

    def overview(self, max_px: int) -> NDArray[np.uint8]:
        """North-up RGB of the whole map whose longer side is `max_px`, for pictures."""
        width_m, height_m = self.size_m
        pixel_m = max(width_m, height_m) / max_px
        level = self._pyramid.whole(math.floor(math.log2(max(1.0, pixel_m / self.resolution_m))))
        size = (max(1, round(width_m / pixel_m)), max(1, round(height_m / pixel_m)))
        shrinking = size[0] < level.geometry.width
        interpolation = cv2.INTER_AREA if shrinking else cv2.INTER_LINEAR
        picture = cv2.resize(np.ascontiguousarray(level.rgba[..., :3]), size, interpolation=interpolation)
        return np.asarray(picture, np.uint8)

    def _level_for(self, pixel_m: float) -> Level:
        # The nearest level on a log scale: what is left to interpolate is a scale of 0.7 to 1.4.
        return self._pyramid.level(round(math.log2(max(1.0, pixel_m / self.resolution_m))))


def _sample(
    level: Level, centre: NDArray[np.float64], angle_deg: float, footprint_m: float, size_px: int
) -> NDArray[np.uint8] | None:
    """One rotated RGBA patch of a level, or None where it does not touch the map."""
    g = level.geometry
    cos, sin = math.cos(math.radians(angle_deg)), math.sin(math.radians(angle_deg))
    reach_m = footprint_m / 2 * (abs(cos) + abs(sin))
    column, row = (centre[0] - g.west) / g.pixel_width_m, (g.north - centre[1]) / g.pixel_height_m
    x_reach, y_reach = reach_m / g.pixel_width_m, reach_m / g.pixel_height_m
    columns = _range_within(column - x_reach, column + x_reach, g.width)
    rows = _range_within(row - y_reach, row + y_reach, g.height)
    if columns is None or rows is None:
        return None
    # Pixel (u, v) of the patch, v downwards, lies right = u − middle and up = middle − v steps from the centre:
    # east = right·cos + up·sin, north = up·cos − right·sin. Pixel centres are at half-integers of the level.
    step_m, middle = footprint_m / size_px, (size_px - 1) / 2
    x_step, y_step = step_m / g.pixel_width_m, step_m / g.pixel_height_m
    to_level = np.array([[cos * x_step, -sin * x_step, 0.0], [sin * y_step, cos * y_step, 0.0]])
    to_level[:, 2] = (column - 0.5 - columns[0], row - 0.5 - rows[0]) - to_level[:, :2].sum(axis=1) * middle
    return _warp(level, rows, columns, to_level, (size_px, size_px))


def _warp(
    level: Level,
    rows: tuple[int, int],
    columns: tuple[int, int],
    to_level: NDArray[np.float64],
    size: tuple[int, int],
) -> NDArray[np.uint8]:
    def warped(pixels: NDArray[np.uint8] | NDArray[np.float32]) -> NDArray[Any]:
        return cv2.warpAffine(
            pixels,
            to_level,
            size,
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_CONSTANT,
            borderValue=(0, 0, 0, 0),
        )

    window = level.window(rows, columns)
    patch = np.asarray(warped(window), np.uint8)
    share = patch[..., 3:]
    if share.min() < 255:  # the colour of no data counts nothing, or it would make edges
        weighted = window.astype(np.float32)
        weighted[..., :3] *= weighted[..., 3:] / 255.0
        colours = np.asarray(warped(weighted), np.float32)
        patch[..., :3] = np.rint(colours[..., :3] * 255.0 / np.maximum(colours[..., 3:], 1.0)).clip(0, 255)
    return patch


def _range_within(low: float, high: float, size: int) -> tuple[int, int] | None:
    first = max(0, math.floor(low) - MARGIN_PX)
    last = min(size, math.ceil(high) + MARGIN_PX)
    return (first, last) if first < last else None
