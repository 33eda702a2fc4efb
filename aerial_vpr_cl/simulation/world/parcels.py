"""Land divided as people divide it: recursive, irregular cuts of convex polygons, bent by a smooth displacement."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.simulation.world.noise import smooth_noise

Points = NDArray[np.float64]
"""(n, 2) metres from the world's south-west corner, x east and y north."""


@dataclass(frozen=True)
class Division:
    """A polygon's parts and the cuts between them."""

    parts: list[Points]
    cuts: list[Points]  # each (2, 2)


def divide(polygon: Points, area_m2: float, rng: np.random.Generator, *, jitter_deg: float = 12.0) -> Division:
    """Cut a convex polygon across its longest edge, again and again, until parts are about `area_m2`."""
    parts, cuts, waiting = [], [], [polygon]
    while waiting:
        part = waiting.pop()
        # A random limit for each part makes sizes irregular.
        if polygon_area(part) < area_m2 * rng.uniform(0.7, 2.2):
            parts.append(part)
            continue
        edge = longest_edge(part)
        angle = np.radians(rng.normal(0.0, jitter_deg / 2.0))
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        along = turn @ edge
        reach = part @ along
        point = along * (reach.min() + rng.uniform(0.3, 0.7) * (reach.max() - reach.min()))
        left, right, cut = split(part, point, along)
        if len(left) < 3 or len(right) < 3 or cut is None:
            parts.append(part)
            continue
        cuts.append(cut)
        waiting += [left, right]
    return Division(parts, cuts)


def split(polygon: Points, point: Points, normal: Points) -> tuple[Points, Points, Points | None]:
    """The two sides of a convex polygon cut by the line through `point` across `normal`, and the cut."""
    side = (polygon - point) @ normal
    left, right, crossing = [], [], []
    for k in range(len(polygon)):
        a, b, side_a, side_b = polygon[k - 1], polygon[k], side[k - 1], side[k]
        if side_a * side_b < 0:
            meeting = a + (b - a) * side_a / (side_a - side_b)
            left.append(meeting)
            right.append(meeting)
            crossing.append(meeting)
        (left if side_b <= 0 else right).append(b)
    cut = np.array(crossing) if len(crossing) == 2 else None
    return np.array(left).reshape(-1, 2), np.array(right).reshape(-1, 2), cut


def polygon_area(polygon: Points) -> float:
    """Area in square metres."""
    x, y = polygon.T
    return 0.5 * abs(float(x @ np.roll(y, 1) - y @ np.roll(x, 1)))


def long_axis(polygon: Points) -> tuple[Points, Points]:
    """Mean of the outline and the unit direction in which the polygon extends most."""
    outline = densify(np.vstack([polygon, polygon[:1]]), 10.0)
    centre = outline.mean(axis=0)
    _, vectors = np.linalg.eigh(np.cov((outline - centre).T))
    axis = vectors[:, 1]
    return centre, axis if axis[np.argmax(np.abs(axis))] > 0 else -axis


def longest_edge(polygon: Points) -> Points:
    """Unit direction of the longest edge: cuts across it make corners that are nearly right."""
    edges = np.roll(polygon, -1, axis=0) - polygon
    lengths = np.hypot(edges[:, 0], edges[:, 1])
    return edges[np.argmax(lengths)] / lengths.max()


def densify(line: Points, step_m: float) -> Points:
    """The polyline with points at most `step_m` apart, so that bending it keeps it smooth."""
    pieces = []
    for a, b in pairwise(line):
        count = max(1, int(np.ceil(np.hypot(*(b - a)) / step_m)))
        pieces.append(a + (b - a) * (np.arange(count) / count)[:, None])
    return np.vstack([*pieces, line[-1:]])


class Bend:
    """A smooth displacement of the plane that makes straight cuts into the curved roads and hedges of real land."""

    def __init__(self, extent_m: float, amplitude_m: float, wavelength_m: float, rng: np.random.Generator) -> None:
        self._step_m = 25.0
        self._margin_m = 500.0
        count = int((extent_m + 2 * self._margin_m) / self._step_m) + 2
        scale = wavelength_m / 2.0 / self._step_m
        self._field = amplitude_m * np.dstack(
            [smooth_noise((count, count), scale, rng), smooth_noise((count, count), scale, rng)]
        ).astype(np.float32)

    def __call__(self, points: Points) -> Points:
        """Displaced points."""
        where = ((points + self._margin_m) / self._step_m).astype(np.float32)
        shift = cv2.remap(
            self._field, where[:, None, 0], where[:, None, 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
        )
        return points + shift[:, 0].astype(np.float64)
