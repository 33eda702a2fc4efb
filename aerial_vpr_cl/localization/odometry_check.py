"""Whether odometry goes the way that the views go, and how much it errs.

The odometry of an autopilot follows its receiver. While that is spoofed each step is a little false, a belief that is
moved by it trails behind what the views say, and would be sure of it: no single view is far enough off to speak against
it. Between two views that prove their places the way is known, whatever was believed meanwhile. One that
only errs by more than was told is believed by as much less.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.localization.motion_model import LOST_HEADING_DEG, east_north
from aerial_vpr_cl.mission.situation import Motion

log = logging.getLogger(__name__)

CONTRADICTION = 4.0
"""Sigmas by which the ways differ that an honest odometry and right views hardly differ by."""
AGAINST = 2
"""Views in a row that must say so, each compared with as many others: any single view may be wrong."""
SPACING_M, REMEMBERED = 15.0, 24
"""Way between proven views that are remembered, and how many: enough for RECOVERY_M at any rate of frames."""
FEWEST = 4
"""Proven views that tell how much odometry errs."""
RECOVERY_M, RECOVERY_VIEWS, AGREEMENT = 300.0, 5, 2.0
"""So far, over so many proven views and within so many sigmas an odometry must go with them to be believed again."""


@dataclass(frozen=True, eq=False)
class Proven:
    """A view that proved its place, and where odometry had come by then."""

    place: NDArray[np.float64]  # (2,) easting and northing
    sigma_m: float  # per axis
    way: NDArray[np.float64]  # (2,) metres east and north since odometry was first heard
    length_m: float  # of that way, as it was flown
    askew_m: float  # by which unsure headings may have led it aside


class OdometryCheck:
    """Compares the way by odometry with that between proven views."""

    def __init__(self, noise: float, lasting_m: float) -> None:
        """Errors (σ) are this share of the way, and keep their sign for so long."""
        self._told, self._lasting_m = noise, lasting_m
        self.reset()

    def reset(self) -> None:
        """Begin a new flight, and believe."""
        self.contradicted = False
        self.noise = self._told  # error (σ) as a share of the way: as told, or as the views show it if that is more
        self.forget()

    def forget(self) -> None:
        """What came before can be compared with nothing that follows: the way, or its direction, is not known."""
        self._views: deque[Proven] = deque(maxlen=REMEMBERED)
        self._way: NDArray[np.float64] = np.zeros(2)
        self._length_m = 0.0
        self._askew_m = 0.0
        self._against = 0

    def move(self, motion: Motion | None, heading_deg: float, heading_sigma_deg: float) -> None:
        """One step as odometry tells it, believed or not."""
        if motion is None or heading_sigma_deg > LOST_HEADING_DEG:
            self.forget()
            return
        length_m = float(np.hypot(*motion.forward_left_m))
        self._way = self._way + east_north(motion.forward_left_m, heading_deg)
        self._length_m += length_m
        self._askew_m += math.tan(math.radians(heading_sigma_deg)) * length_m

    def see(self, place: NDArray[np.float64], covariance: NDArray[np.float64]) -> None:
        """A view that proved its place."""
        sigma_m = math.sqrt(float(np.trace(covariance)) / 2.0)
        now = Proven(place, sigma_m, self._way, self._length_m, self._askew_m)
        against = sum(self._differ(before, now, CONTRADICTION) for before in self._views) >= AGAINST
        self._against = self._against + 1 if against else 0
        if against and self._against < AGAINST:
            return  # either odometry is wrong or this view is, which then must not speak against the next ones
        if against:
            if not self.contradicted:
                log.warning("odometry goes another way than the views: it is believed no more until it goes with them")
            self.contradicted, self._against = True, 0
            self._views.clear()
        elif self.contradicted and len(self._views) >= RECOVERY_VIEWS - 1:
            first = self._views[0]
            if now.length_m - first.length_m >= RECOVERY_M and not self._differ(first, now, AGREEMENT):
                log.warning("odometry goes with the views again: it is believed again")
                self.contradicted = False
        if not self._views or self._is_further(self._views[-1], now):
            self._views.append(now)
            if len(self._views) >= FEWEST:
                self.noise = max(self._told, noise_shown(self._views, self._lasting_m))

    def _is_further(self, before: Proven, now: Proven) -> bool:
        """Whether the drone went on since, by odometry or, if that stands still, by what the views say for sure."""
        apart_m = float(np.hypot(*(now.place - before.place)))
        sure_m = apart_m - CONTRADICTION * math.hypot(before.sigma_m, now.sigma_m)
        return max(now.length_m - before.length_m, sure_m) >= SPACING_M

    def _differ(self, before: Proven, now: Proven, sigmas: float) -> bool:
        """Whether odometry came further from where the views say than so many times what both may err."""
        way_m = math.hypot(self._told * (now.length_m - before.length_m), now.askew_m - before.askew_m)
        sigma_m = math.hypot(way_m, before.sigma_m, now.sigma_m)
        apart = (now.place - before.place) - (now.way - before.way)
        return float(np.hypot(*apart)) > sigmas * sigma_m


def noise_shown(views: Sequence[Proven], lasting_m: float) -> float:
    """Error (σ) of odometry, as a share of the way, that the ways between all these views show; 0 if they show none.

    What the ways differ by is summed up, and what unsure views and headings explain is taken off: long ways, which tell
    most, count most.
    """
    first, second = np.triu_indices(len(views), 1)

    def between(values: list[float]) -> NDArray[np.float64]:
        return np.asarray(values)[second] - np.asarray(values)[first]

    apart = np.stack([view.place - view.way for view in views])
    differ_m2 = ((apart[second] - apart[first]) ** 2).sum(axis=1) / 2.0  # per axis
    sigmas_m2 = np.array([view.sigma_m**2 for view in views])
    askew_m2 = between([view.askew_m for view in views]) ** 2 / 2.0
    unexplained_m2 = differ_m2 - sigmas_m2[first] - sigmas_m2[second] - askew_m2
    length_m = between([view.length_m for view in views])
    # Variance over a way of an error that is lost after so far, for a share of one.
    grown_m2 = 2.0 * lasting_m * (length_m - lasting_m * (1.0 - np.exp(-length_m / max(lasting_m, 1e-3))))
    return math.sqrt(max(0.0, float(unexplained_m2.sum())) / max(float(grown_m2.sum()), 1.0))
