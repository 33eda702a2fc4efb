"""How uncertain motion spreads a belief: kernels over lattice cells whose covariance is exact."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

MOST_PER_TURN = 0.4
"""Variance, in cells², that one 3 × 3 kernel can carry without negative weights."""
MOST_TURNS = 12
"""More variance than so many turns give is sampled from the Gaussian itself, which is wide enough for that by then."""
REACH_SIGMAS = 4.0
SMALL_DISC, FEW_CELLS = 2.0, 40
"""Radius in cells from which on a disc is drawn as such, and up to which its rim matters."""


def gaussian_kernel(covariance: ArrayLike, step_m: float) -> NDArray[np.float64]:
    """(k, k) weights, rows to the south and columns to the east, of a Gaussian of (2, 2) covariance in m².

    Narrow Gaussians are made of 3 × 3 kernels of the same covariance: sampled ones would lose it between the cells.
    """
    cells = np.asarray(covariance, float) / step_m**2
    largest = float(max(cells[0, 0], cells[1, 1]))
    if largest <= 0.0:
        return np.ones((1, 1))
    turns = math.ceil(largest / MOST_PER_TURN)
    if turns > MOST_TURNS:
        return _sampled(cells)
    once = _smallest(cells / turns)
    kernel = np.pad(once, turns - 1)
    for _ in range(turns - 1):
        kernel = np.asarray(cv2.filter2D(kernel, -1, once[::-1, ::-1], borderType=cv2.BORDER_CONSTANT), np.float64)
    return kernel / kernel.sum()


def disc_kernel(radius_m: float, step_m: float) -> NDArray[np.float64]:
    """(k, k) even weights within a radius: all that is known of the motion is how far it can have gone.

    A disc of few cells is the Gaussian of its variance: one within a cell would not spread at all.
    """
    if radius_m < SMALL_DISC * step_m:
        return gaussian_kernel(np.eye(2) * radius_m**2 / 4.0, step_m)
    reach = math.ceil(radius_m / step_m)
    # Cells that the circle cuts count by the share inside: each is looked at in 5 × 5 points, where they are many.
    points = 5 if reach <= FEW_CELLS else 1
    fine = (np.arange((2 * reach + 1) * points) + 0.5) / points - reach - 0.5
    inside = np.hypot(fine[:, None], fine[None, :]) * step_m <= radius_m
    kernel = inside.reshape(2 * reach + 1, points, 2 * reach + 1, points).mean(axis=(1, 3))
    return kernel / kernel.sum()


def ring_kernel(radius_m: float, width_m: float, step_m: float) -> NDArray[np.float64]:
    """(k, k) weights of a displacement of known length, give or take `width_m` (σ), and unknown direction."""
    width = max(width_m, 0.5 * step_m)
    reach = math.ceil((radius_m + 3.0 * width) / step_m)
    cells = np.arange(-reach, reach + 1) * step_m
    distance = np.hypot(cells[:, None], cells[None, :])
    kernel = np.exp(-0.5 * ((distance - radius_m) / width) ** 2)
    return kernel / kernel.sum()


def _smallest(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """3 × 3 kernel of a covariance in cells², variances at most MOST_PER_TURN."""
    east, north = float(cells[0, 0]), float(cells[1, 1])
    # Rows run south: mass on the main diagonal is east with south. The covariance of a thin slanting Gaussian is cut.
    both = float(np.clip(-cells[0, 1], -min(east, north), min(east, north)))
    kernel = np.zeros((3, 3))
    kernel[1, [0, 2]] = (east - abs(both)) / 2.0
    kernel[[0, 2], 1] = (north - abs(both)) / 2.0
    corners = ([0, 2], [0, 2]) if both > 0.0 else ([0, 2], [2, 0])
    kernel[corners] = abs(both) / 2.0
    kernel[1, 1] = 1.0 - kernel.sum()
    return kernel


def gaussian_at(
    covariance: ArrayLike, step_m: float, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.float64]:
    """(rows, columns) mass of a Gaussian of (2, 2) covariance in m² in cells so many to the south and to the east.

    A direction too thin for the cells is widened.
    """
    values, vectors = np.linalg.eigh(np.asarray(covariance, float) / step_m**2)
    values = values.clip(0.5)
    inverse = (vectors / values) @ vectors.T
    east, north = columns[None, :].astype(float), -rows[:, None].astype(float)
    distance = inverse[0, 0] * east**2 + 2.0 * inverse[0, 1] * east * north + inverse[1, 1] * north**2
    return np.asarray(np.exp(-0.5 * distance) / (2.0 * math.pi * math.sqrt(values.prod())))


def _sampled(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """A Gaussian of a covariance in cells² at the cell centres."""
    reach = math.ceil(REACH_SIGMAS * math.sqrt(np.linalg.eigvalsh(cells)[-1]))
    offsets = np.arange(-reach, reach + 1)
    kernel = gaussian_at(cells, 1.0, offsets, offsets)
    return kernel / kernel.sum()
