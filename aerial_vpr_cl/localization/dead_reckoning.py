"""A position carried on by odometry from the last frame that gave it, for readers faster than the camera."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.localization.motion_model import LOST_HEADING_DEG, east_north
from aerial_vpr_cl.mission.odometer import Odometer
from aerial_vpr_cl.mission.readings import OdometryReading

LONGEST_S = 2.0
"""How long a position is carried on without a frame; what comes later is a guess of odometry's, not ours."""


@dataclass(frozen=True, eq=False)
class Carried:
    """Where the drone is, by the last frame and odometry since."""

    stamp_ns: int
    position: NDArray[np.float64]  # (2,) easting and northing
    covariance: NDArray[np.float64]  # (2, 2)
    heading_deg: float
    heading_sigma_deg: float


class DeadReckoning:
    """Positions between frames. For any thread."""

    def __init__(self, odometry_noise: float, max_age_s: float, max_speed_mps: float) -> None:
        self._noise = odometry_noise
        self._odometer = Odometer(max_age_s, max_speed_mps)
        self._lock = threading.Lock()
        self._anchor: Carried | None = None
        self._carried: Carried | None = None
        self._way_m = 0.0
        self._newest_ns = 0

    def add(self, reading: OdometryReading) -> None:
        """Odometry says so."""
        with self._lock:
            self._odometer.add(reading)
            self._newest_ns = reading.stamp_ns

    def anchor(self, found: Carried | None) -> None:
        """A frame gave a position; None: it gave none, and nothing is carried on."""
        with self._lock:
            self._anchor = self._carried = found
            self._way_m = 0.0
            if found is not None:
                self._odometer.motion_to(found.stamp_ns)

    def carry(self) -> Carried | None:
        """Where the drone is as of the newest odometry; None if that is no news, or cannot be told."""
        with self._lock:
            before, anchor, now_ns = self._carried, self._anchor, self._newest_ns
            if before is None or anchor is None or now_ns <= before.stamp_ns:
                return None
            motion, _ = self._odometer.motion_to(now_ns)
            lost = before.heading_sigma_deg > LOST_HEADING_DEG or now_ns - anchor.stamp_ns > LONGEST_S * 1e9
            if motion is None or lost:
                self._carried = None
                return None
            heading_deg = before.heading_deg + motion.turn_deg
            self._way_m += float(np.hypot(*motion.forward_left_m))
            share = self._noise**2 + math.tan(math.radians(before.heading_sigma_deg)) ** 2
            self._carried = replace(
                before,
                stamp_ns=now_ns,
                position=before.position + east_north(motion.forward_left_m, heading_deg),
                covariance=anchor.covariance + share * self._way_m**2 * np.eye(2),
                heading_deg=heading_deg,
            )
            return self._carried
