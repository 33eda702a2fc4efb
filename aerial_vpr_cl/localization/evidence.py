"""What one view says about the place, made fit to be multiplied into a belief that has seen the views before it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from aerial_vpr_cl.localization.histogram import Histogram, Span

MOST_NATS = 60.0
"""Evidence beyond this changes nothing any more, and floats would."""


class Surface(Protocol):
    """Log of p(view | drone here) / p(view | elsewhere) over a rectangle; `west` and `north` are its outer corner."""

    @property
    def west(self) -> float: ...
    @property
    def north(self) -> float: ...
    @property
    def step_m(self) -> float: ...
    @property
    def log_likelihood(self) -> NDArray[np.float32]: ...


@dataclass(frozen=True)
class Weighing:
    """How much of a view is news. Views that overlap are not independent, and neither are errors of the attitude."""

    place: float = 1.0  # share of the evidence about which place it is: 1 for ground not seen before
    shape: float = 1.0  # share of the evidence about where in the place: 1 if the attitude's error is a new one
    place_m: float = 100.0  # half the side of a place


def ratios(surface: Surface) -> NDArray[np.float64]:
    """(h, w) p(view | here) / p(view | elsewhere); 1 where the surface is no number."""
    logs = np.nan_to_num(np.asarray(surface.log_likelihood, np.float64), nan=0.0, neginf=-MOST_NATS, posinf=MOST_NATS)
    return np.exp(logs.clip(-MOST_NATS, MOST_NATS))


def tempered(
    factors: NDArray[np.float64], mass: NDArray[np.float64], weighing: Weighing, step_m: float
) -> NDArray[np.float64]:
    """Factors (rows, columns) for cells of which `mass` is believed, where only a share of the evidence is new.

    Two views of the same ground agree about which place it is, right or wrong: of what the second says about places
    (the evidence averaged over what is believed around) only a share counts. Where within the place the drone is, is
    blurred by the attitude's error, which changes with time and not with the ground.
    """
    if weighing.place >= 1.0 and weighing.shape >= 1.0:
        return factors
    # Not boxFilter: its running sums lose all small values beside a large one.
    side = np.ones(2 * round(weighing.place_m / step_m) + 1)
    believed, fitting = (
        np.asarray(cv2.sepFilter2D(cells, -1, side, side, borderType=cv2.BORDER_CONSTANT), np.float64)
        for cells in (mass, mass * factors)
    )
    place = np.divide(fitting, believed, out=np.ones_like(factors), where=believed > 0.0)
    place = place.clip(math.exp(-MOST_NATS), math.exp(MOST_NATS))
    return place**weighing.place * (factors / place) ** weighing.shape


def on_lattice(
    corner: ArrayLike, step_m: float, factors: NDArray[np.float64], histogram: Histogram
) -> tuple[Span, Span, NDArray[np.float64]]:
    """Rows and columns of the histogram that a raster of factors touches, and the mean factor in each of their cells.

    `corner` is west and north of the raster. Beyond it the factor is 1: what was not looked at is neither more nor less
    likely than elsewhere.
    """
    lattice, step = histogram.lattice, histogram.lattice.step_m
    (west, north), (height, width) = np.asarray(corner, float), factors.shape
    left = (west - lattice.west - histogram.offset[0]) / step
    top = (lattice.north + histogram.offset[1] - north) / step
    scale = step / step_m
    rows = _span(top, top + height / scale, lattice.shape[0])
    columns = _span(left, left + width / scale, lattice.shape[1])
    if rows[0] >= rows[1] or columns[0] >= columns[1]:
        return (0, 0), (0, 0), np.ones((0, 0))
    # Several points per cell, each interpolated, then averaged: the integral over the cell.
    points = max(1, math.ceil(scale))
    inside = (np.arange(points) + 0.5) / points
    y = ((np.arange(*rows)[:, None] + inside).ravel() - top) * scale - 0.5
    x = ((np.arange(*columns)[:, None] + inside).ravel() - left) * scale - 0.5
    grid_x, grid_y = np.meshgrid(x.astype(np.float32), y.astype(np.float32))
    outside = (grid_x < -0.5) | (grid_x > width - 0.5) | (grid_y < -0.5) | (grid_y > height - 0.5)
    fine = cv2.remap(factors, grid_x, grid_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    fine = np.where(outside, 1.0, fine)
    shape = (rows[1] - rows[0], points, columns[1] - columns[0], points)
    return rows, columns, fine.reshape(shape).mean(axis=(1, 3))


def _span(low: float, high: float, size: int) -> Span:
    return max(0, math.floor(low)), min(size, math.ceil(high))
