"""Where the drone may be, as a distribution over the whole map and what lies beside it (design: a histogram filter)."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.localization.evidence import Surface, Weighing, on_lattice, ratios, tempered
from aerial_vpr_cl.localization.histogram import Histogram
from aerial_vpr_cl.localization.kernels import gaussian_at, gaussian_kernel
from aerial_vpr_cl.localization.lattice import Lattice

log = logging.getLogger(__name__)

TINY = 1e-30

FOLD_BELOW = 2.0
"""A block none of whose cells has more than so many times the background's mass is background."""
WIDE_CELLS = 32.0
"""Sigma in cells above which a stated place is drawn over the map only: its kernel might be larger than any memory."""


class Belief:
    """Probability over the lattice's cells, and of being off the map. It sums to one."""

    def __init__(self, lattice: Lattice, *, off_map: float = 0.1) -> None:
        self.lattice = lattice
        self.off_map_prior = off_map
        self.forget()

    def forget(self) -> None:
        """Be anywhere on the map, or off it."""
        self.histogram = Histogram(self.lattice, (1.0 - self.off_map_prior) / self.lattice.n_cells)
        self.off_map = self.off_map_prior

    def place(self, position: ArrayLike, covariance: ArrayLike) -> None:
        """Be where somebody said, as a Gaussian; what of it has no map beneath is off the map."""
        row, column = self.lattice.cell_of(position)
        step, west, north = self.lattice.step_m, self.lattice.west, self.lattice.north
        # Narrower ones are made as kernels, whose covariance is exact; of wide ones only what lies over the map.
        is_wide = float(np.linalg.eigvalsh(np.asarray(covariance, float))[-1]) > (WIDE_CELLS * step) ** 2
        self.histogram = Histogram(self.lattice)
        if is_wide:
            rows, columns = self.lattice.shape
            mass = gaussian_at(covariance, step, np.arange(rows) - row, np.arange(columns) - column)
            self.histogram.fill((0, rows), (0, columns), mass)
        else:
            kernel = gaussian_kernel(covariance, step)
            reach = kernel.shape[0] // 2
            self.histogram.fill((row - reach, row + reach + 1), (column - reach, column + reach + 1), kernel)
        self.histogram.offset = np.asarray(position, float) - (west + (column + 0.5) * step, north - (row + 0.5) * step)
        self.off_map = max(0.0, 1.0 - self.histogram.total())
        self._normalise()

    def predict(self, displacement: ArrayLike, kernel: NDArray[np.float64]) -> None:
        """Move by metres east and north, and spread by a kernel of this lattice."""
        self.off_map += self.histogram.move(displacement, kernel)
        self._normalise()

    def leak(self, share: float) -> None:
        """Let this share of the belief be anywhere, on the map or off it: nothing is ever impossible."""
        self.histogram.scale(1.0 - share)
        self.histogram.spread(share * (1.0 - self.off_map_prior))
        self.histogram.fold(FOLD_BELOW * self.histogram.background)
        self.off_map = (1.0 - share) * self.off_map + share * self.off_map_prior

    def update(self, surfaces: Sequence[Surface], weighing: Weighing | None = None, blind: float = 0.0) -> float:
        """Multiply in what a view says, as disjoint surfaces; `blind` is the probability that it tells nothing.

        Returns how likely it was if it tells something, as a multiple of one of which nothing is known.
        """
        weighing = weighing or Weighing()
        for surface in surfaces:
            corner = (surface.west, surface.north)
            rows, columns, factors = on_lattice(corner, surface.step_m, ratios(surface), self.histogram)
            if factors.size:
                mass = self.histogram.window(rows, columns)
                news = tempered(factors, mass, weighing, self.lattice.step_m)
                self.histogram.multiply(rows, columns, blind + (1.0 - blind) * news)
        return (self._normalise() - blind) / max(1.0 - blind, 1e-9)

    def update_cells(
        self, probabilities: NDArray[np.floating], grid: Grid, *, trust: float, top: int = 50, offset_m: ArrayLike = 0.0
    ) -> None:
        """Multiply in the network's (C,) cell probabilities of the view's centre, which lies `offset_m` from the drone.

        `trust` is the share of views of which the network knows anything. Cells beyond the `top` share one factor, so
        that only blocks with a likely cell become live.
        """
        p = np.asarray(probabilities, np.float64)
        if not np.isfinite(p).all():
            log.warning("the network's answer holds what is no number: it tells nothing")
            return
        chosen = np.argsort(-p, kind="stable")[:top]
        rest = max(0.0, 1.0 - float(p[chosen].sum())) / max(1, len(p) - len(chosen))
        common = max(trust * rest * len(p) + (1.0 - trust), TINY)
        side = grid.cell_side_m
        corners = grid.centres[chosen] + [-side / 2.0, side / 2.0] - np.asarray(offset_m, float)
        self.histogram.scale(common)
        for corner, probability in zip(corners, p[chosen]):
            factor = (trust * probability * len(p) + 1.0 - trust) / common
            self.histogram.multiply(*on_lattice(corner, side, np.full((1, 1), factor), self.histogram))
        self._normalise()

    def _normalise(self) -> float:
        """Make it sum to one; what it summed to before."""
        total = self.histogram.total() + self.off_map
        if not (math.isfinite(total) and total > 0.0):
            log.error("the belief came to nothing (%s): the search begins anew", total)
            self.forget()
            return 1.0
        self.histogram.scale(1.0 / total)
        self.off_map /= total
        return total
