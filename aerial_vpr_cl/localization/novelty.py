"""How much of a view is news: ground that was not seen before, an attitude's error that is a new one."""

from __future__ import annotations

import numpy as np

from aerial_vpr_cl.localization.evidence import Weighing
from aerial_vpr_cl.localization.motion_model import Step

SUPPOSED_SPEED_M_S = 8.0
"""Speed at which new ground is supposed to come into view where no odometry tells."""


class Novelty:
    """What happened since a view was last used. Half a footprint of new ground makes a view an independent one."""

    def __init__(self, attitude_lasting_s: float) -> None:
        self._attitude_lasting_s = attitude_lasting_s
        self.renew()

    def renew(self) -> None:
        """Count the next view in full: nothing of what is believed rests on the ground it shows."""
        self.used()
        self.complete = True

    def used(self) -> None:
        """A view was used just now."""
        self._displacement, self._way_m, self._seconds, self._guided = np.zeros(2), 0.0, 0.0, True
        self.complete = False

    def add(self, step: Step | None, seconds: float) -> None:
        """Time passed, and the drone moved; None: nobody knows how far."""
        self._seconds += seconds
        if step is None:
            self._way_m += SUPPOSED_SPEED_M_S * seconds
        elif step.guided:  # net, so that the jitter of a drone that hovers does not add up
            self._displacement = self._displacement + step.displacement
        else:
            self._way_m += step.length_m
        self._guided = self._guided and step is not None and step.guided

    def weighing(self, footprint_m: float) -> Weighing:
        """What of a view of this footprint counts."""
        if self.complete:
            return Weighing()
        new_m = float(np.hypot(*self._displacement)) + self._way_m
        place = min(1.0, new_m / (footprint_m / 2.0))
        if not self._guided:
            return Weighing(place=place)  # nothing but the view tells where within the place the drone went
        # Half of an attitude's variance is new in every frame, half keeps its sign for a while.
        slow = max(1.0, 2.0 * self._attitude_lasting_s / max(self._seconds, 1e-3))
        return Weighing(place=place, shape=2.0 / (1.0 + slow))
