"""What a belief comes to: its hills, how much of it each holds, and where to look next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.localization.belief import Belief
from aerial_vpr_cl.localization.evidence import Surface, on_lattice, ratios
from aerial_vpr_cl.localization.histogram import Span, overlap, spans_of
from aerial_vpr_cl.localization.lattice import BLOCK, Bounds

FOOT = 1e-3
"""A hill ends where a cell has less than this share of its peak: 3.7 σ of a Gaussian."""
ABOVE_PLAIN = 3.0
"""A hill also ends where a cell has less than so many times what every cell has of which nothing is known."""
REACH = 2 * BLOCK
"""Cells from its peak that a hill may reach each way."""
TINY = 1e-30


@dataclass(frozen=True, eq=False)
class Mode:
    """One hill of the belief."""

    mass: float  # share of the whole belief, off the map included
    mean: NDArray[np.float64]  # (2,) easting and northing
    covariance: NDArray[np.float64]  # (2, 2) m²
    distances: NDArray[np.float64]  # (n,) metres of its cells from the mean, ascending
    within: NDArray[np.float64]  # (n,) share of the whole belief so near, cumulated
    rows: Span  # of the lattice, that hold it
    columns: Span
    cells: NDArray[np.float64]  # (rows, columns) its mass

    def radius_m(self, share: float) -> float:
        """Radius around the mean that holds this share of the whole belief; infinite if the hill has less."""
        row = int(np.searchsorted(self.within, share))
        return float(self.distances[row]) if row < len(self.distances) else float("inf")


def modes(belief: Belief, most: int = 1) -> list[Mode]:
    """The hills with the highest peaks, best first."""
    taken: list[_Patch] = []
    found: list[Mode] = []
    while len(found) < most and (peak := _highest(belief, taken)) is not None:
        rows, columns = ((index - REACH, index + REACH + 1) for index in peak)
        mass = _without(belief.histogram.window(rows, columns), rows, columns, taken)
        hill = _hill(mass, ABOVE_PLAIN * belief.histogram.background)
        found.append(_mode(belief, mass * hill, rows, columns))
        taken.append(_Patch(rows, columns, hill))
    return found


def fit_of(mode: Mode, belief: Belief, surfaces: Sequence[Surface]) -> float:
    """Log of how well a view fits a hill of the belief, before it is multiplied in; surfaces are disjoint.

    Zero: as well as any other place; below: it is not what was to be seen there.
    """
    fitting = mode.mass
    for surface in surfaces:
        corner = (surface.west, surface.north)
        rows, columns, factors = on_lattice(corner, surface.step_m, ratios(surface), belief.histogram)
        ours, theirs = overlap((mode.rows, mode.columns), (rows, columns))
        fitting += float((mode.cells[ours] * (factors[theirs] - 1.0)).sum())
    return math.log(max(fitting / mode.mass, TINY))


def likely_windows(belief: Belief, share: float, margin_m: float, most_cells: int) -> list[Bounds] | None:
    """Rectangles, disjoint hills apart, that hold this share of the mass on the map, with a margin all around.

    None if so much is spread over more than `most_cells` cells: then there is no part of the map to prefer.
    """
    keys = sorted(belief.histogram.blocks)
    if not keys:
        return None
    masses = np.stack([belief.histogram.blocks[key] for key in keys])
    on_map = 1.0 - belief.off_map
    order = np.argsort(-masses.ravel(), kind="stable")[: most_cells + 1]
    needed = int(np.searchsorted(np.cumsum(masses.ravel()[order]), share * on_map)) + 1
    if needed > most_cells or needed > len(order):
        return None
    chosen = np.zeros(masses.size, bool)
    chosen[order[:needed]] = True
    return _rectangles(belief, keys, chosen.reshape(masses.shape), margin_m)


def _rectangles(
    belief: Belief, keys: list[tuple[int, int]], chosen: NDArray[np.bool_], margin_m: float
) -> list[Bounds]:
    """Bounding boxes of the chosen cells of blocks, overlapping ones joined."""
    lattice, boxes = belief.lattice, []
    for key, cells in zip(keys, chosen):
        count, _, stats, _ = cv2.connectedComponentsWithStats(cells.astype(np.uint8), connectivity=8)
        for left, top, width, height, _ in stats[1:count]:
            west = lattice.west + (key[1] * BLOCK + left) * lattice.step_m
            north = lattice.north - (key[0] * BLOCK + top) * lattice.step_m
            east, south = west + width * lattice.step_m, north - height * lattice.step_m
            boxes.append((west - margin_m, south - margin_m, east + margin_m, north + margin_m))
    return joined(boxes)


def joined(boxes: list[Bounds]) -> list[Bounds]:
    """Rectangles with overlapping ones replaced by their common bounding box, until none overlap."""
    found: list[Bounds] = []
    for box in boxes:
        while touching := [other for other in found if _overlap(box, other)]:
            found = [other for other in found if other not in touching]
            every = [box, *touching]
            box = (
                min(b[0] for b in every),
                min(b[1] for b in every),
                max(b[2] for b in every),
                max(b[3] for b in every),
            )
        found.append(box)
    return found


def _mode(belief: Belief, cells: NDArray[np.float64], rows: Span, columns: Span) -> Mode:
    """Moments of (rows, columns) mass."""
    lattice, offset = belief.lattice, belief.histogram.offset
    east = lattice.west + (np.arange(*columns) + 0.5) * lattice.step_m + offset[0]
    north = lattice.north - (np.arange(*rows) + 0.5) * lattice.step_m + offset[1]
    row, column = np.nonzero(cells)
    masses = cells[row, column]
    points = np.stack([east[column], north[row]], axis=1)
    mass = float(masses.sum())
    mean = masses @ points / mass
    apart = points - mean
    covariance = (apart * masses[:, None]).T @ apart / mass
    distances = np.hypot(*apart.T)
    order = np.argsort(distances, kind="stable")
    return Mode(
        mass=min(1.0, mass),
        mean=mean,
        covariance=(covariance + covariance.T) / 2.0,
        distances=distances[order],
        within=np.cumsum(masses[order]),
        rows=rows,
        columns=columns,
        cells=cells,
    )


def _hill(density: NDArray[np.float64], plain: float) -> NDArray[np.bool_]:
    """The connected cells around the middle that are not below its foot."""
    middle = density.shape[0] // 2
    peak = float(density[middle, middle])
    high = (density >= min(peak, max(FOOT * peak, plain))).astype(np.uint8)
    _, labels = cv2.connectedComponents(high, connectivity=8)
    return labels == labels[middle, middle]


@dataclass(frozen=True, eq=False)
class _Patch:
    """Cells of a rectangle that belong to a hill already."""

    rows: Span
    columns: Span
    cells: NDArray[np.bool_]


def _highest(belief: Belief, taken: list[_Patch]) -> tuple[int, int] | None:
    """Row and column of the free live cell with most mass."""
    best, found = 0.0, None
    for key, block in sorted(belief.histogram.blocks.items()):
        rows, columns = spans_of(key)
        mass = _without(block, rows, columns, taken)
        row, column = divmod(int(np.argmax(mass)), BLOCK)
        if mass[row, column] > best:
            best, found = float(mass[row, column]), (rows[0] + row, columns[0] + column)
    return found


def _without(mass: NDArray[np.float64], rows: Span, columns: Span, taken: list[_Patch]) -> NDArray[np.float64]:
    """The mass of a rectangle of cells, with none where a hill has it already."""
    left = mass.copy()
    for patch in taken:
        ours, theirs = overlap((rows, columns), (patch.rows, patch.columns))
        left[ours][patch.cells[theirs]] = 0.0
    return left


def _overlap(one: Bounds, other: Bounds) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
