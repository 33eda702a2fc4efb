"""Unknown headings: a view is turned to several, and the network answers for cell and heading together."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.geo.view_kind import ViewKind
from aerial_vpr_cl.localization.view import View
from aerial_vpr_cl.mission.situation import UNKNOWN_HEADING_DEG
from aerial_vpr_cl.unseen import turn_and_zoom

SPACING_SIGMAS = 3.0
"""Between headings that are tried, in sigmas that the network was trained for: none is further off than 1.5."""

LEAST_SPACING_DEG = 5.0

REACH_SIGMAS = 2.5
"""How far from the stated heading others are tried, in sigmas of the statement."""


@dataclass(frozen=True, eq=False)
class CellAnswer:
    """What the network says of a view: how probable each cell is under each turn of the view that was tried."""

    turns_deg: NDArray[np.float64]  # (H,) clockwise; what the view's heading is off by
    joint: NDArray[np.float32]  # (H, C) probabilities, which sum to one

    @property
    def probabilities(self) -> NDArray[np.float32]:
        """(C,) of the cells, whatever the heading."""
        return np.asarray(self.joint.sum(axis=0))

    def turn_of(self, cell: int) -> float:
        """The most probable turn if the drone is above this cell."""
        return float(self.turns_deg[int(self.joint[:, cell].argmax())])


def turns_to_try(heading_sigma_deg: float, kind: ViewKind) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(H,) turns and their probabilities before looking; one where the heading is known as well as was trained for.

    A network for frames as seen knows all headings itself.
    """
    spacing = max(SPACING_SIGMAS * kind.heading_sigma_deg, LEAST_SPACING_DEG)
    if not kind.is_north_up or REACH_SIGMAS * heading_sigma_deg < spacing:
        return np.zeros(1), np.ones(1)
    reach, circle = math.ceil(REACH_SIGMAS * heading_sigma_deg / spacing), math.ceil(360.0 / spacing)
    if 2 * reach + 1 < circle:
        turns = np.arange(-reach, reach + 1, dtype=np.float64) * spacing
    else:
        turns = (np.arange(circle, dtype=np.float64) - (circle - 1) // 2) * (360.0 / circle)
    known = heading_sigma_deg < UNKNOWN_HEADING_DEG
    weights = np.exp(-0.5 * (turns / heading_sigma_deg) ** 2) if known else np.ones(len(turns))
    return turns, weights / weights.sum()


def turned_images(view: View, turns_deg: NDArray[np.float64]) -> NDArray[np.uint8]:
    """(H, S, S, 3) the view if its heading is off by these turns; what turns in was not seen."""
    # What lies up in a view whose top points east lies, north up, to the right: it is turned with the clock.
    turns = turns_deg.tolist()
    return np.stack([turn_and_zoom(view.image, -turn, seen=view.mask) if turn else view.image for turn in turns])
