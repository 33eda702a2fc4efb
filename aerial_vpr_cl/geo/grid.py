"""The grid: square cells of the mapped ground, which are the classes for ever, in N² groups."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aerial_vpr_cl.errors import MapError
from aerial_vpr_cl.geo.projection import Projection

NO_CLASS = -1
"""Class of a point that lies in no cell of the grid."""


@dataclass(frozen=True, eq=False)
class Grid:
    """Cells (i, j) = (⌊e/L⌋, ⌊n/L⌋) of a UTM CRS; a class is a row of `cells` (paper, section 5.1.3).

    Class ids follow from the map alone and never from training data. The hash names the grid: it stands in
    every file that depends on it, and files with different hashes are never used together.
    """

    epsg: int
    cell_side_m: float
    modulus: int
    cells: NDArray[np.int64]  # (C, 2), sorted by (i, j), unique

    def __post_init__(self) -> None:
        if self.cell_side_m <= 0:
            raise MapError(f"cell side must be positive, not {self.cell_side_m} m")
        if self.modulus < 1:
            raise MapError(f"modulus must be at least 1, not {self.modulus}")
        cells = np.asarray(self.cells, np.int64).reshape(-1, 2)
        if not len(cells):
            raise MapError("a grid needs at least one cell")
        if not np.array_equal(cells, np.unique(cells, axis=0)):
            raise MapError("cells of a grid must be unique and sorted by (i, j)")
        cells.setflags(write=False)
        object.__setattr__(self, "cells", cells)

    @classmethod
    def over_points(cls, points: ArrayLike, *, epsg: int, cell_side_m: float, modulus: int) -> Grid:
        """The grid whose classes are the cells that hold at least one of the (n, 2) points, in metres."""
        indices = np.floor(np.asarray(points, float).reshape(-1, 2) / cell_side_m).astype(np.int64)
        return cls(epsg, float(cell_side_m), modulus, np.unique(indices, axis=0))

    @property
    def n_classes(self) -> int:
        """Number of cells that are classes."""
        return len(self.cells)

    @cached_property
    def north_deg(self) -> float:
        """Bearing of true north in the middle of the map, clockwise from the map's own north."""
        return self.projection.north_deg(self.middle)

    @property
    def middle(self) -> NDArray[np.float64]:
        """(2,) easting and northing of the middle of all cells together."""
        ends = self.cells.min(axis=0) + self.cells.max(axis=0) + 1.0
        return np.asarray(ends / 2.0 * self.cell_side_m, np.float64)

    @property
    def n_groups(self) -> int:
        """Number of classifier groups, N²."""
        return self.modulus**2

    @cached_property
    def hash(self) -> str:
        """SHA-256 over everything that gives a class its meaning."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def centres(self) -> NDArray[np.float64]:
        """(C, 2) easting and northing of the cell centres: the position each class stands for."""
        return (self.cells.astype(np.float64) + 0.5) * self.cell_side_m

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """(C,) group of each class: (i mod N)·N + (j mod N)."""
        i, j = (self.cells % self.modulus).T
        return i * self.modulus + j

    @cached_property
    def projection(self) -> Projection:
        """Projection between WGS 84 and this grid's metres."""
        return Projection(self.epsg)

    def classes_of_group(self, group: int) -> NDArray[np.int64]:
        """Class ids of one group, ascending: the rows of that group's head."""
        return np.flatnonzero(self.groups == group)

    def class_of(self, points: ArrayLike) -> NDArray[np.int64]:
        """(n, 2) easting and northing to (n,) class ids; NO_CLASS outside the grid and for NaN."""
        points = np.asarray(points, float).reshape(-1, 2)
        finite = np.isfinite(points).all(axis=1)
        cells = np.floor(np.where(finite[:, None], points, 0.0) / self.cell_side_m)
        (i_min, j_min), (i_max, j_max) = self.cells.min(axis=0), self.cells.max(axis=0)
        inside = finite & (cells >= [i_min, j_min]).all(axis=1) & (cells <= [i_max, j_max]).all(axis=1)
        cells = np.where(inside[:, None], cells, [i_min, j_min]).astype(np.int64)
        width = j_max - j_min + 1
        keys = (self.cells[:, 0] - i_min) * width + (self.cells[:, 1] - j_min)  # ascending, as cells are sorted
        wanted = (cells[:, 0] - i_min) * width + (cells[:, 1] - j_min)
        rows = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
        return np.where(inside & (keys[rows] == wanted), rows, NO_CLASS)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "epsg": self.epsg,
            "cell_side_m": self.cell_side_m,
            "modulus": self.modulus,
            "cells": self.cells.tolist(),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Grid:
        """The grid that `to_dict` wrote."""
        try:
            cells = np.asarray(values["cells"], np.int64)
            return cls(int(values["epsg"]), float(values["cell_side_m"]), int(values["modulus"]), cells)
        except (KeyError, TypeError, ValueError) as error:
            raise MapError(f"not a grid description: {error!r}") from None
