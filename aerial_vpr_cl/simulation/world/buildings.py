"""Buildings along the edges of their block: rows of town houses, scattered homes, halls with yards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aerial_vpr_cl.simulation.world.layers import Building, Use
from aerial_vpr_cl.simulation.world.parcels import Points, long_axis, polygon_area

MATERIALS = ("tile", "slate", "concrete", "white metal", "blue metal", "brown")


@dataclass(frozen=True)
class Style:
    """How one land use builds, in metres; the setback counts from the middle of the street."""

    front: tuple[float, float]
    depth: tuple[float, float]
    gap: tuple[float, float]
    setback: tuple[float, float]
    height: tuple[float, float]
    gabled_share: float
    empty_share: float
    materials: tuple[int, ...]


STYLES = {
    Use.TOWN: Style((14, 34), (11, 18), (1, 9), (7, 10), (9, 26), 0.35, 0.08, (0, 0, 1, 2, 2, 2, 3, 5)),
    Use.SUBURB: Style((9, 15), (8, 12), (5, 14), (7, 12), (5, 8), 0.85, 0.15, (0, 0, 0, 1, 1, 5)),
    Use.INDUSTRY: Style((28, 85), (22, 50), (8, 25), (9, 16), (7, 14), 0.25, 0.15, (2, 2, 3, 3, 4)),
    Use.FARMLAND: Style((10, 30), (9, 16), (6, 20), (10, 25), (5, 9), 0.8, 0.3, (0, 1, 5, 3)),
}

SPARE_SHARE = 0.1
"""Share of building plots that are still empty at the map's date."""


def build_block(block: Points, use: Use, rng: np.random.Generator) -> list[Building]:
    """Buildings of one convex block, some of them overlapping each other; whoever draws them drops those."""
    style = STYLES[use]
    centre = block.mean(axis=0)
    buildings = []
    # A block has a material it mostly uses, as houses of one year do.
    favourite = int(rng.choice(style.materials))
    for k in range(len(block)):
        a, b = block[k - 1], block[k]
        length = float(np.hypot(*(b - a)))
        if length < style.front[0] + 4.0:
            continue
        along = (b - a) / length
        inward = np.array([-along[1], along[0]])
        if inward @ (centre - a) < 0:
            inward = -inward
        setback = rng.uniform(*style.setback)
        at = rng.uniform(2.0, 8.0)
        while at < length - style.front[0]:
            front, depth = rng.uniform(*style.front), rng.uniform(*style.depth)
            if at + front <= length - 2.0 and rng.random() > style.empty_share:
                corner = a + along * at + inward * (setback + rng.uniform(0.0, 2.0))
                outline = np.array(
                    [corner, corner + along * front, corner + along * front + inward * depth, corner + inward * depth]
                )
                buildings.append(_building(outline, style, favourite, rng))
            at += front + rng.uniform(*style.gap)
    if use in (Use.TOWN, Use.INDUSTRY) and polygon_area(block) > 9000.0:
        buildings += _courtyard(block, style, favourite, rng)
    return buildings


def build_farm(parcel: Points, rng: np.random.Generator) -> list[Building]:
    """A farmstead: a few roofs around a yard somewhere in a field."""
    style = STYLES[Use.FARMLAND]
    centre, axis = long_axis(parcel)
    centre = centre + rng.normal(0.0, 15.0, 2)
    across = np.array([-axis[1], axis[0]])
    buildings = []
    for direction in (axis, -axis, across, -across)[: rng.integers(2, 5)]:
        side = np.array([-direction[1], direction[0]])
        front, depth = rng.uniform(*style.front), rng.uniform(*style.depth)
        middle = centre + direction * (14.0 + depth / 2.0)
        half_side, half_depth = side * front / 2.0, direction * depth / 2.0
        outline = middle + np.array(
            [-half_side - half_depth, half_side - half_depth, half_side + half_depth, -half_side + half_depth]
        )
        buildings.append(_building(outline, style, int(rng.choice(style.materials)), rng))
    return buildings


def _courtyard(block: Points, style: Style, favourite: int, rng: np.random.Generator) -> list[Building]:
    """A few larger roofs in the middle of a large block."""
    centre, axis = long_axis(block)
    across = np.array([-axis[1], axis[0]])
    buildings = []
    for _ in range(int(rng.integers(1, 4))):
        middle = centre + axis * rng.normal(0.0, 30.0) + across * rng.normal(0.0, 12.0)
        half_front, half_depth = axis * rng.uniform(*style.front) * 0.6, across * rng.uniform(*style.depth) * 0.6
        outline = middle + np.array(
            [-half_front - half_depth, half_front - half_depth, half_front + half_depth, half_depth - half_front]
        )
        buildings.append(_building(outline, style, favourite, rng))
    return buildings


def _building(outline: Points, style: Style, favourite: int, rng: np.random.Generator) -> Building:
    material = favourite if rng.random() < 0.55 else int(rng.choice(style.materials))
    height = rng.uniform(*style.height) if rng.random() < 0.7 else style.height[0]
    return Building(outline, float(height), rng.random() < style.gabled_share, material, rng.random() < SPARE_SHARE)
