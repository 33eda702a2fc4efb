"""Where the drone may be, as a distribution over the whole map and what lies beside it (design: a histogram filter)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.localization.evidence import Surface, Weighing, on_lattice, ratios, tempered
from aerial_vpr_cl.localization.histogram import Histogram
from aerial_vpr_cl.localization.kernels import gaussian_kernel
from aerial_vpr_cl.localization.lattice import Lattice

FOLD_BELOW = 2.0
"""A block none of whose cells has more than so many times the background's mass is background."""


class Belief:
    """Probability over the lattice's cells, once per heading hypothesis, and of being off the map. It sums to one.

    One histogram where the heading is known. Where it is not, one for each of some directions that the drone's own
    reckoning of turns may be off by: each moves its own way with the odometry.
    """

    def __init__(self, lattice: Lattice, *, headings: int = 1, off_map: float = 0.1) -> None:
        self.lattice = lattice
        self.off_map_prior = off_map
        self.histograms: list[Histogram] = []
        self.off_map = 0.0
        self.forget(headings)

    def forget(self, headings: int = 1) -> None:
        """Be anywhere on the map, or off it."""
        density = (1.0 - self.off_map_prior) / (self.lattice.n_cells * headings)
        self.histograms = [Histogram(self.lattice, density) for _ in range(headings)]
        self.off_map = self.off_map_prior

    def place(self, position: ArrayLike, covariance: ArrayLike) -> None:
        """Be where somebody said: a Gaussian, and a little chance that he erred."""
        centre = self.lattice.cell_of(position)
        kernel = gaussian_kernel(covariance, self.lattice.step_m)
        reach = kernel.shape[0] // 2
        for histogram in self.histograms:
            histogram.background, histogram.blocks, histogram.offset = 0.0, {}, np.zeros(2)
            rows, columns = ((index - reach, index + reach + 1) for index in centre)
            histogram.fill(rows, columns, kernel / len(self.histograms))
            off_centre = self.lattice.west + (centre[1] + 0.5) * self.lattice.step_m
            off_middle = self.lattice.north - (centre[0] + 0.5) * self.lattice.step_m
            histogram.offset = np.asarray(position, float) - (off_centre, off_middle)
        self.off_map = max(0.0, 1.0 - self._on_map())
        self._normalise()

    def predict(self, displacements: ArrayLike, kernel: NDArray[np.float64]) -> None:
        """Move by metres east and north, (2,) or one row per heading, and spread by a kernel of this lattice."""
        rows = np.broadcast_to(np.asarray(displacements, float), (len(self.histograms), 2))
        for histogram, displacement in zip(self.histograms, rows):
            self.off_map += histogram.move(displacement, kernel)
        self._normalise()

    def leak(self, share: float) -> None:
        """Let this share of the belief be anywhere, on the map or off it: nothing is ever impossible."""
        for histogram in self.histograms:
            histogram.scale(1.0 - share)
            histogram.spread(share * (1.0 - self.off_map_prior) / len(self.histograms))
            histogram.fold(FOLD_BELOW * histogram.background)
        self.off_map = (1.0 - share) * self.off_map + share * self.off_map_prior

    def update(self, surfaces: Sequence[Sequence[Surface]], weighing: Weighing | None = None) -> None:
        """Multiply in what a view says, a list of disjoint surfaces per heading."""
        weighing = weighing or Weighing()
        for histogram, found in zip(self.histograms, surfaces):
            for surface in found:
                corner = (surface.west, surface.north)
                rows, columns, factors = on_lattice(corner, surface.step_m, ratios(surface), histogram)
                if factors.size:
                    mass = histogram.window(rows, columns)
                    histogram.multiply(rows, columns, tempered(factors, mass, weighing, self.lattice.step_m))
        self._normalise()

    def update_cells(
        self, probabilities: NDArray[np.floating], grid: Grid, *, trust: float, top: int = 50, offset_m: ArrayLike = 0.0
    ) -> None:
        """Multiply in the network's (C,) cell probabilities of the view's centre, which lies `offset_m` from the drone.

        `trust` is the share of views of which the network knows anything. Cells beyond the `top` share one factor, so
        that only blocks with a likely cell become live.
        """
        p = np.asarray(probabilities, np.float64)
        chosen = np.argsort(-p, kind="stable")[:top]
        rest = max(0.0, 1.0 - float(p[chosen].sum())) / max(1, len(p) - len(chosen))
        common = trust * rest * len(p) + (1.0 - trust)
        side = grid.cell_side_m
        corners = grid.centres[chosen] + [-side / 2.0, side / 2.0] - np.asarray(offset_m, float)
        for histogram in self.histograms:
            histogram.scale(common)
            for corner, probability in zip(corners, p[chosen]):
                factor = (trust * probability * len(p) + 1.0 - trust) / common
                histogram.multiply(*on_lattice(corner, side, np.full((1, 1), factor), histogram))
        self._normalise()

    def _on_map(self) -> float:
        return sum(histogram.total() for histogram in self.histograms)

    def _normalise(self) -> None:
        total = self._on_map() + self.off_map
        for histogram in self.histograms:
            histogram.scale(1.0 / total)
        self.off_map /= total
