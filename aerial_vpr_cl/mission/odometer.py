"""Motion between frames by odometry of any origin: only differences count, and none across a jump."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.errors import SensorError
from aerial_vpr_cl.geo.rotation import Matrix, from_quaternion, heading_of, interpolate
from aerial_vpr_cl.mission.readings import OdometryReading
from aerial_vpr_cl.mission.series import Series
from aerial_vpr_cl.mission.situation import Motion

JUMP_M = 3.0
"""Step that the noise of odometry may make beyond the speed limit; a larger one is a new origin."""
FARTHEST = 4.0
"""A frame is usually a little newer than the newest reading: how many steps beyond the last one motion is continued."""


class Place(NamedTuple):
    """A pose by odometry; those of different origins cannot be compared."""

    position: NDArray[np.float64]
    rotation: Matrix
    origin: int


class Odometer:
    """The odometry of a flight, asked frame by frame."""

    def __init__(self, max_age_s: float, max_speed_mps: float) -> None:
        self._max_speed_mps = max_speed_mps
        self._places = Series[Place](max_age_s)
        self._origins = 0
        self._last_ns: int | None = None
        self._last_place: Place | None = None

    def add(self, reading: OdometryReading) -> None:
        """Take a reading."""
        position = np.array(reading.position, np.float64)
        try:
            rotation = from_quaternion(reading.orientation)
        except SensorError as error:
            self._places.refuse(str(error))
            return
        if not np.isfinite(position).all():
            self._places.refuse(f"position {reading.position} is not one")
            return
        before, seconds = self._places.latest, (reading.stamp_ns - self._places.latest_ns) / 1e9
        pause_s = 2.0 * self._places.max_age_s  # a frame in the middle of it would have no reading near
        if before is not None and -pause_s <= seconds <= 0.0:
            return  # late or repeated: what came after it is known already
        if before is None or not 0.0 < seconds <= pause_s or self._is_jump(position - before.position, seconds):
            self._origins += 1
        if seconds < 0.0:
            self._places.clear()
        self._places.add(reading.stamp_ns, Place(position, rotation, self._origins))

    def clear(self) -> None:
        """Forget all readings: another clock begins, and with it another way."""
        self._places.clear()
        self._origins += 1

    @property
    def place(self) -> Place | None:
        """Where odometry has the drone at the frame asked for last."""
        return self._last_place

    def motion_to(self, stamp_ns: int) -> tuple[Motion | None, str]:
        """The motion since the frame asked for before; or none, and why if odometry was ever heard."""
        last_ns, last = self._last_ns, self._last_place
        place, why = self._place_at(stamp_ns)
        self._last_ns, self._last_place = stamp_ns, place
        if place is None or last_ns is None:
            return None, why
        if stamp_ns <= last_ns:
            return None, f"time ran back by {(last_ns - stamp_ns) / 1e9:.1f} s: no motion between these frames"
        if last is None:
            return None, ""  # said when it was missing
        if place.origin != last.origin:
            return None, "it jumped, paused or began anew: no motion between these frames"
        forward = place.rotation[:2, 0] / max(float(np.hypot(*place.rotation[:2, 0])), 1e-9)
        moved = (place.position - last.position)[:2]
        along, left = float(forward @ moved), float(forward[0] * moved[1] - forward[1] * moved[0])
        turn_deg = (heading_of(place.rotation) - heading_of(last.rotation) + 180.0) % 360.0 - 180.0
        return Motion(np.array([along, left]), turn_deg, (stamp_ns - last_ns) / 1e9), ""

    def _place_at(self, stamp_ns: int) -> tuple[Place | None, str]:
        around, why = self._places.at(stamp_ns, continued=FARTHEST)
        if around is None:
            return None, why
        before, after, share = around.before, around.after, around.share
        if before.origin != after.origin:
            return (before if share < 0.5 else after), ""
        position = before.position + share * (after.position - before.position)
        return Place(position, interpolate(before.rotation, after.rotation, share), before.origin), ""

    def _is_jump(self, step_m: NDArray[np.float64], seconds: float) -> bool:
        return float(np.linalg.norm(step_m)) > self._max_speed_mps * seconds + JUMP_M
