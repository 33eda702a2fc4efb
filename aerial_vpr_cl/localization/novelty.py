"""How much of a view is news: ground that was not seen before, an attitude's error that is a new one."""

from __future__ import annotations

import math

import numpy as np

from aerial_vpr_cl.localization.evidence import Weighing
from aerial_vpr_cl.localization.motion_model import Step
from aerial_vpr_cl.localization.same_ground import way_between_m
from aerial_vpr_cl.localization.view import View

SUPPOSED_SPEED_M_S = 8.0
"""Speed at which new ground is supposed to come into view where neither odometry nor the views tell."""
NEAR = 0.25
"""Share of a footprint up to which views are compared with the one where counting began: else too little is in both."""


REPEATED = 0.2
"""Share of a way over ground that was seen before that counts all the same. With nothing at all the belief would spread
by what odometry may err, and never come back."""


class Novelty:
    """How far the drone came from where it began to count: half a footprint of new ground makes a view independent.

    Counted is how far it came, and how much wider it sees, not every step there: a drone that hovers sways, and sees
    the same ground all day.
    """

    def __init__(self, attitude_lasting_s: float) -> None:
        self._attitude_lasting_s = attitude_lasting_s
        self.renew()

    def renew(self) -> None:
        """Count the next view in full: nothing of what is believed rests on the ground it shows."""
        self.complete = True
        self.new_m: float | None = None  # metres of new ground in the last view, if it shows ground of before beside it
        self._last: View | None = None
        self._begin()
        self._pass()

    def _begin(self) -> None:
        """Count from the last view."""
        self._first: View | None = self._last
        self._displacement = np.zeros(2)  # by odometry and by what views show
        self._told = True  # by odometry, all of it
        self._supposed_m = 0.0  # since the last view
        self._untold_m = 0.0  # before it, where views told nothing
        self._share = 0.0  # of an independent view that is new by now
        self._counted = 0.0

    def _pass(self) -> None:
        """A view was used just now."""
        self._seconds, self._step = 0.0, np.zeros(2)
        self._guided = True

    def used(self) -> None:
        """The view that was weighed was used."""
        self._counted = max(self._counted, self._share)
        if self.complete or self._counted >= 1.0:
            self._begin()
        self.complete = False
        self._pass()

    def add(self, step: Step | None, seconds: float) -> None:
        """Time passed, and the drone moved; None: nobody knows how far."""
        self._seconds += seconds
        if step is not None and step.guided:
            self._displacement, self._step = self._displacement + step.displacement, self._step + step.displacement
            return
        self._supposed_m += SUPPOSED_SPEED_M_S * seconds if step is None else step.length_m
        self._guided = self._told = False

    def weighing(self, view: View) -> Weighing:
        """What of a view counts. Give it every view, in time order."""
        before, self._last, self.new_m = self._last, view, None
        if self.complete:
            return Weighing()
        shows_old_ground = self._follow(before, view)
        half_m = view.footprint_m / 2.0
        wider = abs(math.log2(view.footprint_m / self._first.footprint_m)) if self._first is not None else 0.0
        self._share = (float(np.hypot(*self._displacement)) + self._untold_m) / half_m + wider
        flown_m = float(np.hypot(*self._step)) if self._guided else SUPPOSED_SPEED_M_S * self._seconds
        place = min(1.0, max(self._share - self._counted, REPEATED * flown_m / half_m))
        if shows_old_ground:
            self.new_m = place * half_m
        if not self._guided:
            return Weighing(place=place)  # nothing but the view tells where within the place the drone went
        # Half of an attitude's variance is new in every frame, half keeps its sign for a while.
        slow = max(1.0, 2.0 * self._attitude_lasting_s / max(self._seconds, 1e-3))
        return Weighing(place=place, shape=2.0 / (1.0 + slow))

    def waited(self, footprint_m: float) -> float:
        """What would be new by now at a usual speed: a search in vain is repeated then, also over the same ground."""
        return SUPPOSED_SPEED_M_S * self._seconds / (footprint_m / 2.0)

    def _follow(self, before: View | None, view: View) -> bool:
        """Put the way that the views show in the place of one that was supposed; whether they show the same ground."""
        step = None if before is None else way_between_m(before, view)
        if self._supposed_m and step is not None:
            self._displacement = self._displacement + step
        elif self._supposed_m:
            self._untold_m += self._supposed_m
        self._supposed_m = 0.0
        if self._first is None or float(np.hypot(*self._displacement)) > NEAR * view.footprint_m:
            return step is not None
        whole = way_between_m(self._first, view)
        if whole is not None and not self._told:
            self._displacement, self._untold_m = whole, 0.0
        return step is not None or whole is not None
