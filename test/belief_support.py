"""A lattice, and surfaces as registrations leave them."""

from dataclasses import dataclass

import numpy as np

from aerial_vpr_cl.localization.lattice import Lattice

STEP = 10.0


@dataclass
class Surface:
    west: float
    north: float
    step_m: float
    log_likelihood: np.ndarray


def lattice_of(rows=200, columns=300):
    return Lattice.over((0.0, 0.0, columns * STEP, rows * STEP), STEP)


def peak_at(position, height=20.0, sigma_m=15.0, half_m=400.0, step_m=5.0):
    """A surface with one peak, a little unlikely elsewhere."""
    east, north = position
    n = int(2 * half_m / step_m)
    x = east - half_m + (np.arange(n) + 0.5) * step_m
    y = north + half_m - (np.arange(n) + 0.5) * step_m
    squared = ((x[None, :] - east) ** 2 + (y[:, None] - north) ** 2) / sigma_m**2
    return Surface(east - half_m, north + half_m, step_m, (-1.0 + height * np.exp(-0.5 * squared)).astype(np.float32))
