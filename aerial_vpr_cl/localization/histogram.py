"""A histogram over a lattice of which only the live part is stored: blocks, and one density for all the rest."""

from __future__ import annotations

import itertools

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from aerial_vpr_cl.localization.lattice import BLOCK, Lattice

Span = tuple[int, int]


class Histogram:
    """Mass of every cell: in a live block as stored there, elsewhere `background` in each cell with map beneath.

    The lattice moves with the drone: a displacement is added to `offset`, and cells change their index only by whole
    numbers. So motion blurs nothing, however many small steps it is made of.
    """

    def __init__(self, lattice: Lattice, background: float = 0.0) -> None:
        self.lattice = lattice
        self.background = background
        self.blocks: dict[tuple[int, int], NDArray[np.float64]] = {}
        self.offset = np.zeros(2)  # metres east and north that all cell centres lie beside the lattice's

    def total(self) -> float:
        """All mass."""
        live = sum(float(block.sum()) for block in self.blocks.values())
        return live + self.background * self._background_cells()

    def peak(self) -> float:
        """Most mass in any cell."""
        return max((float(block.max()) for block in self.blocks.values()), default=self.background)

    def scale(self, factor: float) -> None:
        """Multiply all mass."""
        self.background *= factor
        for block in self.blocks.values():
            block *= factor

    def spread(self, mass: float) -> None:
        """Add mass evenly over the map."""
        density = mass / self.lattice.n_cells
        self.background += density
        for key, block in self.blocks.items():
            block += density * self.lattice.on_map_within(*spans_of(key))

    def fill(self, rows: Span, columns: Span, mass: NDArray[np.float64]) -> None:
        """Add mass (rows, columns) to a rectangle of cells; what has no map beneath is left out."""
        for key in _blocks_between(rows, columns):
            if self._exists(key):
                mine, theirs = overlap(spans_of(key), (rows, columns))
                self._live(key)[mine] += mass[theirs] * self.lattice.on_map_within(*spans_of(key))[mine]

    def multiply(self, rows: Span, columns: Span, factors: NDArray[np.float64]) -> None:
        """Multiply a rectangle of cells by factors (rows, columns); everything else stays."""
        for key in _blocks_between(rows, columns):
            if self._exists(key):
                mine, theirs = overlap(spans_of(key), (rows, columns))
                self._live(key)[mine] *= factors[theirs]

    def window(self, rows: Span, columns: Span) -> NDArray[np.float64]:
        """(rows, columns) mass of a rectangle of cells, zero beyond the lattice."""
        found = np.where(self.lattice.on_map_within(rows, columns), self.background, 0.0)
        for key in _blocks_between(rows, columns):
            if key in self.blocks:
                mine, theirs = overlap(spans_of(key), (rows, columns))
                found[theirs] = self.blocks[key][mine]
        return found

    def move(self, displacement: ArrayLike, kernel: NDArray[np.float64]) -> float:
        """Shift by metres east and north and spread by a (k, k) kernel, k odd; the mass that left the map.

        The background is even and stays so: what it loses at one border of the map it would gain at the other.
        """
        self.offset = self.offset + np.asarray(displacement, float)
        whole = np.rint(self.offset / self.lattice.step_m).astype(int)
        self.offset = self.offset - whole * self.lattice.step_m
        down, right, reach = -int(whole[1]), int(whole[0]), kernel.shape[0] // 2
        if not self.blocks or (reach == 0 and not down and not right):
            return 0.0
        targets = self._reached(down, right, reach)
        before = after = 0.0
        moved = {}
        for key in targets:
            rows, columns = spans_of(key)
            source = self.window(
                (rows[0] - down - reach, rows[1] - down + reach),
                (columns[0] - right - reach, columns[1] - right + reach),
            )
            if reach:
                source = cv2.filter2D(source, -1, kernel[::-1, ::-1])[reach:-reach, reach:-reach].clip(0.0)
            moved[key] = source * self.lattice.on_map_within(rows, columns)
            before += self.window(rows, columns).sum()
            after += moved[key].sum()
        self.blocks = moved
        return max(0.0, before - after)

    def fold(self, below: float) -> None:
        """Give blocks without a cell of at least this mass to the background."""
        folded = [key for key, block in self.blocks.items() if block.max() < below]
        mass = sum(float(self.blocks.pop(key).sum()) for key in folded)
        cells = self._background_cells()
        had = cells - sum(int(self.lattice.cells_of_block[key]) for key in folded)
        if cells:
            self.background = (self.background * had + mass) / cells

    def _reached(self, down: int, right: int, reach: int) -> list[tuple[int, int]]:
        found: set[tuple[int, int]] = set()
        for key in self.blocks:
            (top, bottom), (left, end) = spans_of(key)
            rows = (top + down - reach, bottom + down + reach)
            found.update(_blocks_between(rows, (left + right - reach, end + right + reach)))
        return [key for key in found | self.blocks.keys() if self._exists(key)]

    def _live(self, key: tuple[int, int]) -> NDArray[np.float64]:
        """The block, out of the background if it was not live yet."""
        if key not in self.blocks:
            self.blocks[key] = np.where(self.lattice.on_map_within(*spans_of(key)), self.background, 0.0)
        return self.blocks[key]

    def _exists(self, key: tuple[int, int]) -> bool:
        rows, columns = self.lattice.cells_of_block.shape
        return 0 <= key[0] < rows and 0 <= key[1] < columns and bool(self.lattice.cells_of_block[key])

    def _background_cells(self) -> int:
        return self.lattice.n_cells - sum(int(self.lattice.cells_of_block[key]) for key in self.blocks)


def spans_of(key: tuple[int, int]) -> tuple[Span, Span]:
    """First and last-but-one row, and column, of a block."""
    return (key[0] * BLOCK, (key[0] + 1) * BLOCK), (key[1] * BLOCK, (key[1] + 1) * BLOCK)


def _blocks_between(rows: Span, columns: Span) -> itertools.product[tuple[int, int]]:
    """Keys of the blocks that a rectangle of cells touches."""
    return itertools.product(
        range(rows[0] // BLOCK, (rows[1] - 1) // BLOCK + 1), range(columns[0] // BLOCK, (columns[1] - 1) // BLOCK + 1)
    )


def overlap(mine: tuple[Span, Span], theirs: tuple[Span, Span]) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """Where two rectangles of cells (rows, columns) meet: as slices of the first, and of the second."""
    ours, others = [], []
    for (first, end), (low, high) in zip(mine, theirs):
        begin = max(first, low)
        stop = max(begin, min(end, high))
        ours.append(slice(begin - first, stop - first))
        others.append(slice(begin - low, stop - low))
    return (ours[0], ours[1]), (others[0], others[1])
