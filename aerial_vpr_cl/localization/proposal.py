"""What a tracker asks of those it looks with: a network that proposes cells, a registration that lays views down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.localization.lattice import Bounds
from aerial_vpr_cl.localization.registration import Registration
from aerial_vpr_cl.localization.view import View
from aerial_vpr_cl.mission.situation import Situation

Image = NDArray[np.uint8]
Register = Callable[[View, "list[Bounds] | None"], Registration]
"""Lays a view on windows of the map, or on all of it."""
Propose = Callable[[Image, Situation], "Proposal | None"]
"""What the network says of a frame."""


@dataclass(frozen=True, eq=False)
class Proposal:
    """Cells that a network thinks a view lies in."""

    probabilities: NDArray[np.floating]  # (C,)
    offset_m: NDArray[np.float64]  # (2,) east and north from the drone to the view's centre
