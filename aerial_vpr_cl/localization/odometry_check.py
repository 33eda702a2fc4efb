"""Whether odometry goes the way that the views go.

The odometry of an autopilot follows its receiver. While that is spoofed each step is a little false, a belief that is
moved by it trails behind what the views say, and would be sure of it: no single view is far enough off to speak against
it. Between two views that prove their places the way is known, whatever was believed meanwhile.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.localization.motion_model import LOST_HEADING_DEG, east_north
from aerial_vpr_cl.mission.situation import Motion

log = logging.getLogger(__name__)

CONTRADICTION = 4.0
"""Sigmas by which the ways differ that an honest odometry and right views hardly differ by."""
AGAINST = 2
"""Views in a row that must say so: one may be wrong."""
REMEMBERED = 24
"""Proven views with which a new one is compared."""
RECOVERY_M, RECOVERY_VIEWS, AGREEMENT = 300.0, 5, 2.0
"""So far, over so many proven views and within so many sigmas an odometry must go with them to be believed again."""


@dataclass(frozen=True, eq=False)
class Proven:
    """A view that proved its place, and where odometry had come by then."""

    place: NDArray[np.float64]  # (2,) easting and northing
    sigma_m: float  # per axis
    way: NDArray[np.float64]  # (2,) metres east and north since odometry was first heard
    length_m: float  # of that way, as it was flown


class OdometryCheck:
    """Compares the way by odometry with that between proven views."""

    def __init__(self, noise: float) -> None:
        self._noise = noise
        self.reset()

    def reset(self) -> None:
        """Begin a new flight, and believe."""
        self.contradicted = False
        self.forget()

    def forget(self) -> None:
        """What came before can be compared with nothing that follows: the way, or its direction, is not known."""
        self._views: deque[Proven] = deque(maxlen=REMEMBERED)
        self._way: NDArray[np.float64] = np.zeros(2)
        self._length_m = 0.0
        self._askew = 0.0
        self._against = 0

    def move(self, motion: Motion | None, heading_deg: float, heading_sigma_deg: float) -> None:
        """One step as odometry tells it, believed or not."""
        if motion is None or heading_sigma_deg > LOST_HEADING_DEG:
            self.forget()
            return
        self._way = self._way + east_north(motion.forward_left_m, heading_deg)
        self._length_m += float(np.hypot(*motion.forward_left_m))
        self._askew = math.tan(math.radians(heading_sigma_deg))

    def see(self, place: NDArray[np.float64], covariance: NDArray[np.float64]) -> None:
        """A view that proved its place."""
        now = Proven(place, math.sqrt(float(np.trace(covariance)) / 2.0), self._way, self._length_m)
        against = any(self._differ(before, now, CONTRADICTION) for before in self._views)
        self._against = self._against + 1 if against else 0
        if self._against >= AGAINST:
            if not self.contradicted:
                log.warning("odometry goes another way than the views: it is believed no more until it goes with them")
            self.contradicted, self._against = True, 0
            self._views.clear()
        elif self.contradicted and not self._against and len(self._views) >= RECOVERY_VIEWS - 1:
            first = self._views[0]
            too_short = now.length_m - first.length_m < RECOVERY_M
            self.contradicted = too_short or self._differ(first, now, AGREEMENT)
        self._views.append(now)

    def _differ(self, before: Proven, now: Proven, sigmas: float) -> bool:
        """Whether odometry came further from where the views say than so many times what both may err."""
        length_m = now.length_m - before.length_m
        sigma_m = math.hypot(math.hypot(self._noise, self._askew) * length_m, before.sigma_m, now.sigma_m)
        apart = (now.place - before.place) - (now.way - before.way)
        return float(np.hypot(*apart)) > sigmas * sigma_m
