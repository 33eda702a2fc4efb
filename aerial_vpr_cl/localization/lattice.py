"""The lattice a belief lives on: square cells of the map, a few metres wide, in blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from aerial_vpr_cl.geo.grid import Grid

BLOCK = 64
"""Cells along the side of a block: the unit in which a belief is stored."""
MOST_CELLS = 400_000
"""A map of more cells than this gets a coarser lattice."""
FINEST_M, COARSEST_M = 10.0, 25.0

Bounds = tuple[float, float, float, float]
"""West, south, east, north in metres."""


@dataclass(frozen=True, eq=False)
class Lattice:
    """Rows from north to south, columns from west to east. Where `on_map` is false there is no map beneath."""

    west: float
    north: float
    step_m: float
    on_map: NDArray[np.bool_]  # (rows, columns)

    @classmethod
    def over(cls, bounds: Bounds, step_m: float | None = None) -> Lattice:
        """A lattice over a rectangle that is map all over; the step follows from its size unless given."""
        west, south, east, north = bounds
        step = step_m or step_for((east - west) * (north - south))
        rows, columns = (max(1, math.ceil(side / step - 1e-9)) for side in (north - south, east - west))
        return cls(west, north, step, np.ones((rows, columns), bool))

    @classmethod
    def over_grid(cls, grid: Grid, margin_m: float, step_m: float | None = None) -> Lattice:
        """A lattice over the cells of a grid and a margin around them: a drone beside the last cell still sees map."""
        side, low, high = grid.cell_side_m, grid.cells.min(axis=0), grid.cells.max(axis=0)
        step = step_m or step_for(grid.n_classes * side**2)
        (west, south), (east, north) = low * side - margin_m, (high + 1) * side + margin_m
        whole = cls.over((float(west), float(south), float(east), float(north)), step)
        (rows, columns), (across, up) = whole.shape, high - low + 3
        named = np.zeros((up, across), np.uint8)  # with a rim of cells that are none
        named[tuple((grid.cells - low + 1).T[::-1])] = 1
        i = np.floor((whole.west + (np.arange(columns) + 0.5) * step) / side).astype(int) - low[0] + 1
        j = np.floor((whole.north - (np.arange(rows) + 0.5) * step) / side).astype(int) - low[1] + 1
        on_grid = named[j.clip(0, up - 1)[:, None], i.clip(0, across - 1)[None, :]]
        size = 2 * round(margin_m / step) + 1
        return cls(whole.west, whole.north, step, cv2.dilate(on_grid, np.ones((size, size), np.uint8)) > 0)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.on_map.shape  # type: ignore[return-value]

    @cached_property
    def n_cells(self) -> int:
        """Cells that have map beneath them."""
        return int(self.on_map.sum())

    @cached_property
    def cells_of_block(self) -> NDArray[np.int64]:
        """(block rows, block columns) number of cells with map beneath."""
        rows, columns = (-(-side // BLOCK) * BLOCK for side in self.shape)
        padded = np.zeros((rows, columns), np.int64)
        padded[: self.shape[0], : self.shape[1]] = self.on_map
        return padded.reshape(rows // BLOCK, BLOCK, columns // BLOCK, BLOCK).sum(axis=(1, 3))

    @property
    def bounds(self) -> Bounds:
        """West, south, east, north of the whole rectangle."""
        rows, columns = self.shape
        return self.west, self.north - rows * self.step_m, self.west + columns * self.step_m, self.north

    def positions(self) -> NDArray[np.float64]:
        """(rows, columns, 2) easting and northing of all cell centres."""
        rows, columns = self.shape
        east = self.west + (np.arange(columns) + 0.5) * self.step_m
        north = self.north - (np.arange(rows) + 0.5) * self.step_m
        return np.stack(np.broadcast_arrays(east[None, :], north[:, None]), axis=-1)

    def cell_of(self, position: ArrayLike) -> tuple[int, int]:
        """Row and column of the cell that holds a point; they may lie outside the lattice."""
        east, north = np.asarray(position, float)
        return math.floor((self.north - north) / self.step_m), math.floor((east - self.west) / self.step_m)

    def on_map_within(self, rows: tuple[int, int], columns: tuple[int, int]) -> NDArray[np.bool_]:
        """A part of `on_map`, false beyond the lattice."""
        found = np.zeros((rows[1] - rows[0], columns[1] - columns[0]), bool)
        (top, bottom), (left, right) = _within(rows, self.shape[0]), _within(columns, self.shape[1])
        if top < bottom and left < right:
            found[top - rows[0] : bottom - rows[0], left - columns[0] : right - columns[0]] = self.on_map[
                top:bottom, left:right
            ]
        return found


def step_for(area_m2: float) -> float:
    """Cell side for a map of this area: as fine as useful, coarser where there would be too many cells."""
    return float(np.clip(math.sqrt(area_m2 / MOST_CELLS), FINEST_M, COARSEST_M))


def _within(span: tuple[int, int], size: int) -> tuple[int, int]:
    return max(0, span[0]), min(size, span[1])
