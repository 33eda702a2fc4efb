"""The map's side of registration: its orientation channel at a few pixel sizes, tile by tile, with its statistics."""

from __future__ import annotations

import dataclasses
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from aerial_vpr_cl.localization.likelihood import MatchLikelihood
from aerial_vpr_cl.localization.orientation import BLUR_PX, LOCAL_MEAN_M, orientation, smooth
from aerial_vpr_cl.satellite.raster import SatelliteMap

STEPS_M = (10.0, 5.0, 2.5)
"""Pixel sizes of the channel, coarse to fine; those finer than the raster are left out."""

TILE_PX = 512
TILES_IN_MEMORY = 128
"""Half a megabyte each, per level."""

GAIN = 100.0
"""Steps of 8 bits per unit of the channel: its cap stays below 127."""

UNKNOWN = np.int8(-128)

MOSTLY = 128
"""Valid share of a pixel, of 255, from which on the map knows it: single pixels without data are no holes."""

COVARIANCE_LAGS = 48
"""Pixels up to which the channel's covariance is measured; what is farther apart counts as unrelated."""

COVARIANCE_TILES = 36
"""Tiles, spread over the map, on which it is measured."""

Tile = NDArray[np.int8]
"""(TILE_PX, TILE_PX, 2): cos 2θ and sin 2θ times the magnitude; UNKNOWN where there is no data."""


TileSource = Callable[[int, int], Tile]
"""Gives the tile in a row and column of tiles: made from a raster, or read from a file."""


@dataclass(frozen=True, eq=False)
class Channel:
    """A window of the channel: (2, h, w) cos 2θ and sin 2θ times the magnitude, and where it is known."""

    planes: NDArray[np.float32]
    known: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class OrientationLevel:
    """The channel at one pixel size. Pixels are squares of a lattice through (0, 0), so levels nest."""

    step_m: float
    west: float
    north: float
    height: int
    width: int
    source: TileSource
    covariance: NDArray[np.float32] = field(default_factory=lambda: np.zeros((3, 1, 1), np.float32))
    likelihood: MatchLikelihood = field(default_factory=MatchLikelihood)  # what a score on this level is worth
    _tiles: OrderedDict[tuple[int, int], Tile] = field(default_factory=OrderedDict, repr=False)
    _spectra: dict[int, NDArray[np.complex64]] = field(default_factory=dict, repr=False)
    transforms: OrderedDict[tuple[int, ...], Any] = field(default_factory=OrderedDict, repr=False)  # of windows

    @property
    def tiles(self) -> tuple[int, int]:
        """Rows and columns of tiles."""
        return -(-self.height // TILE_PX), -(-self.width // TILE_PX)

    def window(self, top: int, left: int, height: int, width: int) -> Channel:
        """Any window of the lattice, rows and columns counted from the level's corner; unknown outside the map."""
        codes = np.full((height, width, 2), UNKNOWN, np.int8)
        n_rows, n_columns = self.tiles
        for row in range(max(0, top // TILE_PX), min(n_rows, (top + height - 1) // TILE_PX + 1)):
            for column in range(max(0, left // TILE_PX), min(n_columns, (left + width - 1) // TILE_PX + 1)):
                _paste(codes, self._tile(row, column), row * TILE_PX - top, column * TILE_PX - left)
        known = codes[..., 0] != UNKNOWN
        planes = np.moveaxis(codes, 2, 0).astype(np.float32) * np.float32(1.0 / GAIN)
        planes[:, ~known] = 0.0
        return Channel(planes, known)

    def spectra(self, size: int) -> NDArray[np.complex64]:
        """(3, size, size // 2 + 1) spectra of the covariances cos–cos, sin–sin, cos–sin, for a circle of `size`."""
        if size in self._spectra:
            return self._spectra[size]
        lags = (self.covariance.shape[1] - 1) // 2
        around = np.zeros((3, size, size), np.float32)
        index = np.arange(-lags, lags + 1) % size
        around[:, index[:, None], index[None, :]] = self.covariance
        self._spectra[size] = scipy.fft.rfft2(around)
        return self._spectra[size]

    def _tile(self, row: int, column: int) -> Tile:
        key = (row, column)
        tile = self._tiles.pop(key, None)
        if tile is None:
            tile = self.source(row, column)
            while len(self._tiles) >= TILES_IN_MEMORY:
                self._tiles.popitem(last=False)
        self._tiles[key] = tile
        return tile


@dataclass(frozen=True, eq=False)
class MapOrientation:
    """The map's channel: all its levels, coarse to fine."""

    levels: tuple[OrientationLevel, ...]

    @classmethod
    def of(cls, rasters: Sequence[SatelliteMap]) -> MapOrientation:
        """The channel of a raster, or the mean channel of several dates; tiles are made when first asked for.

        The first raster gives extent and pixel sizes.
        """
        return cls(tuple(make_level(rasters, step) for step in steps_for(rasters[0].resolution_m)))


def steps_for(resolution_m: float) -> list[float]:
    """Pixel sizes at which a raster's channel is worth having: not finer than the raster."""
    return [step for step in STEPS_M if step >= 0.95 * resolution_m] or [resolution_m]


def make_level(rasters: Sequence[SatelliteMap], step_m: float) -> OrientationLevel:
    """A level whose tiles are made from rasters, with its covariance measured."""
    west, south, east, north = rasters[0].bounds
    coarsest = max(step_m, STEPS_M[0])
    left, top = math.floor(west / coarsest) * coarsest, math.ceil(north / coarsest) * coarsest
    height, width = math.ceil((top - south) / step_m), math.ceil((east - left) / step_m)
    source = tiles_of(rasters, step_m, left, top)
    bare = OrientationLevel(step_m, left, top, height, width, source)
    return dataclasses.replace(bare, covariance=measure_covariance(bare))


def tiles_of(rasters: Sequence[SatelliteMap], step_m: float, west: float, north: float) -> TileSource:
    """Tiles of one raster, or the mean of several dates' over those that know the ground: what lasts stays."""
    sources = [_raster_tiles(raster, step_m, west, north) for raster in rasters]
    if len(sources) == 1:
        return sources[0]

    def make(row: int, column: int) -> Tile:
        codes = np.stack([source(row, column) for source in sources])
        known = codes[..., :1] != UNKNOWN
        total = np.where(known, codes, np.int8(0)).sum(axis=0, dtype=np.float32)
        count = known.sum(axis=0)
        return np.where(count > 0, np.rint(total / np.maximum(count, 1)), UNKNOWN).astype(np.int8)

    return make


def _raster_tiles(satellite: SatelliteMap, step_m: float, west: float, north: float) -> TileSource:
    """A source that makes tiles from the raster, with enough around each that they meet without a seam."""
    margin = math.ceil(3.0 * LOCAL_MEAN_M / step_m) + 4
    side = TILE_PX + 2 * margin
    inner = slice(margin, margin + TILE_PX)

    def make(row: int, column: int) -> Tile:
        corner_west = west + (column * TILE_PX - margin) * step_m
        corner_north = north - (row * TILE_PX - margin) * step_m
        rgba = satellite.read_area(corner_west, corner_north, step_m, (side, side))
        valid = rgba[..., 3] >= MOSTLY
        channel, known = orientation(smooth(rgba[..., :3], valid, BLUR_PX), valid, step_m)
        return encode(channel[inner, inner], known[inner, inner])

    return make


def encode(channel: NDArray[np.complex64], known: NDArray[np.bool_]) -> Tile:
    """8-bit codes of a channel."""
    codes = np.rint(np.stack([channel.real, channel.imag], axis=-1) * np.float32(GAIN)).astype(np.int8)
    codes[~known] = UNKNOWN
    return codes


def measure_covariance(level: OrientationLevel) -> NDArray[np.float32]:
    """(3, 2L+1, 2L+1): E[c(u)c(u+d)], E[s(u)s(u+d)], E[c(u)s(u+d)] over known pixels, for lags d up to L."""
    n_rows, n_columns = level.tiles
    count = n_rows * n_columns
    chosen = np.unique(np.linspace(0, count - 1, min(count, COVARIANCE_TILES)).round().astype(int))
    size = TILE_PX + COVARIANCE_LAGS
    sums = np.zeros((4, size, size // 2 + 1), np.complex128)
    for index in chosen:
        row, column = divmod(int(index), n_columns)
        channel = level.window(row * TILE_PX, column * TILE_PX, TILE_PX, TILE_PX)
        c, s = scipy.fft.rfft2(channel.planes, (size, size))
        v = scipy.fft.rfft2(channel.known.astype(np.float32), (size, size))
        sums += np.stack([np.conj(c) * c, np.conj(s) * s, np.conj(c) * s, np.conj(v) * v])
    products = scipy.fft.irfft2(sums, (size, size))
    lags = np.arange(-COVARIANCE_LAGS, COVARIANCE_LAGS + 1)
    near = products[:, lags[:, None] % size, lags[None, :] % size]
    return (near[:3] / np.maximum(near[3], 1.0)).astype(np.float32)


def _paste(target: NDArray[np.int8], tile: Tile, top: int, left: int) -> None:
    """Copy the part of a tile that lies inside the target."""
    rows = slice(max(0, top), min(target.shape[0], top + tile.shape[0]))
    columns = slice(max(0, left), min(target.shape[1], left + tile.shape[1]))
    target[rows, columns] = tile[rows.start - top : rows.stop - top, columns.start - left : columns.stop - left]
