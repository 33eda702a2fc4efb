"""Levels of a raster, each half as fine as the one before, so that shrinking a patch does not alias."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.progress import Progress, silent
from aerial_vpr_cl.satellite.raster_source import RasterSource

STRIP_ROWS = 512
"""Rows processed at a time: bounds the memory that reading and halving need beside their result."""


@dataclass(frozen=True)
class Geometry:
    """Where the pixels of a north-up image lie: outer corner and pixel sides in metres, size in pixels."""

    west: float
    north: float
    pixel_width_m: float
    pixel_height_m: float
    width: int
    height: int

    def coarser(self, factor: int) -> Geometry:
        """The image whose pixels are factor × factor of these; a last partial pixel is kept."""
        return Geometry(
            self.west,
            self.north,
            self.pixel_width_m * factor,
            self.pixel_height_m * factor,
            -(-self.width // factor),
            -(-self.height // factor),
        )


class Level(Protocol):
    """One resolution of the map."""

    @property
    def geometry(self) -> Geometry:
        """Where its pixels lie."""

    def window(self, rows: tuple[int, int], columns: tuple[int, int]) -> NDArray[np.uint8]:
        """RGBA (h, w, 4) of half-open row and column ranges inside the level."""


@dataclass(frozen=True)
class MemoryLevel:
    """A level held in memory."""

    geometry: Geometry
    rgba: NDArray[np.uint8]

    def window(self, rows: tuple[int, int], columns: tuple[int, int]) -> NDArray[np.uint8]:
        return self.rgba[slice(*rows), slice(*columns)]

    def halved(self) -> MemoryLevel:
        """The next coarser level."""
        return MemoryLevel(self.geometry.coarser(2), halve(self.rgba))


class DiskLevel:
    """A level read window by window: from the nearest finer overview of the file, halved as often as is left."""

    def __init__(self, source: RasterSource, level: int) -> None:
        self._source = source
        self._factor = max([factor for factor in source.overviews if factor <= 2**level], default=1)
        self._halvings = level - int(math.log2(self._factor))
        dataset = source.dataset(self._factor)
        step = dataset.transform
        self._fine = Geometry(step.c, step.f, step.a, -step.e, dataset.width, dataset.height)
        self.geometry = self._fine.coarser(2**self._halvings)

    def window(self, rows: tuple[int, int], columns: tuple[int, int]) -> NDArray[np.uint8]:
        scale = 2**self._halvings
        fine_rows = (rows[0] * scale, min(rows[1] * scale, self._fine.height))
        fine_columns = (columns[0] * scale, min(columns[1] * scale, self._fine.width))
        rgba = self._source.read(self._factor, fine_rows, fine_columns)
        for _ in range(self._halvings):
            rgba = halve(rgba)
        return rgba

    def load(self, progress: Progress = silent) -> MemoryLevel:
        """The whole level, in memory; reads the file strip by strip."""
        height, width = self.geometry.height, self.geometry.width
        rgba = np.empty((height, width, 4), np.uint8)
        step = max(1, STRIP_ROWS >> self._halvings)
        for top in range(0, height, step):
            bottom = min(top + step, height)
            rgba[top:bottom] = self.window((top, bottom), (0, width))
            progress("reading the map", bottom, height)
        return MemoryLevel(self.geometry, rgba)


class Pyramid:
    """All levels of a raster: those that fit in the memory budget are held there, finer ones stay on disk."""

    def __init__(self, source: RasterSource, memory_budget_mb: int) -> None:
        self._source = source
        self.n_levels = int(math.log2(min(source.width, source.height))) + 1
        # All coarser levels together need a third of the finest one that is held.
        budget_px = memory_budget_mb * 2**20 / 4 * 3 / 4
        area_px = source.width * source.height
        fitting = [level for level in range(self.n_levels) if area_px / 4**level <= budget_px]
        self.first_in_memory = fitting[0] if fitting else self.n_levels
        self._on_disk: dict[int, DiskLevel] = {}
        self._in_memory: list[MemoryLevel] = []
        self._reading = threading.Lock()  # several threads want the levels at once; one reads them

    def level(self, level: int, progress: Progress = silent) -> Level:
        """A level by number, 0 the raster's own resolution; the first use of a level in memory reads the file."""
        level = min(max(level, 0), self.n_levels - 1)
        if level >= self.first_in_memory:
            return self._memory_levels(progress)[level - self.first_in_memory]
        if level not in self._on_disk:
            self._on_disk[level] = DiskLevel(self._source, level)
        return self._on_disk[level]

    def whole(self, level: int, progress: Progress = silent) -> MemoryLevel:
        """A level as one image; it is not kept when it does not fit in the budget."""
        found = self.level(level, progress)
        return found.load(progress) if isinstance(found, DiskLevel) else found  # type: ignore[return-value]

    def _memory_levels(self, progress: Progress) -> list[MemoryLevel]:
        with self._reading:
            if not self._in_memory:
                levels = [DiskLevel(self._source, self.first_in_memory).load(progress)]
                while len(levels) < self.n_levels - self.first_in_memory:
                    levels.append(levels[-1].halved())
                self._in_memory = levels
            return self._in_memory


def halve(rgba: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Average 2 × 2 pixels: colours over the valid ones, alpha over all (so it becomes the valid share)."""
    height, width = rgba.shape[:2]
    half = np.empty((-(-height // 2), -(-width // 2), 4), np.uint8)
    for top in range(0, height, STRIP_ROWS):
        strip = rgba[top : top + STRIP_ROWS]
        odd_rows, odd_columns = strip.shape[0] % 2, strip.shape[1] % 2
        if odd_rows or odd_columns:  # beyond the map is no-data
            strip = np.pad(strip, ((0, odd_rows), (0, odd_columns), (0, 0)))
        size = (strip.shape[1] // 2, strip.shape[0] // 2)
        target = half[top // 2 : top // 2 + size[1]]
        if strip[..., 3].min() == 255:
            target[...] = cv2.resize(strip, size, interpolation=cv2.INTER_AREA)
            continue
        alpha = strip[..., 3:].astype(np.float32)
        weighted = cv2.resize(strip[..., :3] * alpha, size, interpolation=cv2.INTER_AREA)
        share = cv2.resize(alpha, size, interpolation=cv2.INTER_AREA).reshape(size[1], size[0], 1)
        target[..., :3] = np.rint(weighted.reshape(size[1], size[0], 3) / np.maximum(share, 1e-6)).clip(0, 255)
        target[..., 3:] = np.rint(share)
    return half
