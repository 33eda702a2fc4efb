"""How fast the drone flies, by its GNSS and its odometry."""

from __future__ import annotations

import math
from collections import deque

from aerial_vpr_cl.geo.projection import Projection
from aerial_vpr_cl.mission.gnss import Fix, GnssGates, fault_of
from aerial_vpr_cl.mission.readings import OdometryReading

BASELINE_S = 1.0
"""Speed is measured between positions at least this far apart: a metre of noise is then a metre per second at most."""
FORGOTTEN_S = 5.0
MOVING_S = 2.0
"""How long the drone must be fast to count as flying: one wild fix is no take-off."""


class SpeedMeter:
    """Ground speed from the believable ones of a stream of fixes, or from positions in any frame."""

    def __init__(self, projection: Projection, gates: GnssGates) -> None:
        self._projection = projection
        self._gates = gates
        self._recent: deque[tuple[int, float, float]] = deque()

    def add(self, fix: Fix) -> float:
        """Speed in m/s as of this fix; NaN for a fix not to be believed, a jump, or one without company."""
        if fault_of(fix, self._gates):
            return math.nan
        easting, northing = (float(value) for value in self._projection.to_utm(fix.latitude, fix.longitude))
        return self.add_position(fix.stamp_ns, easting, northing)

    def add_position(self, stamp_ns: int, easting: float, northing: float) -> float:
        """Speed in m/s as of this position; NaN for a jump or one without company."""
        recent = self._recent
        if recent and stamp_ns <= recent[-1][0]:
            if stamp_ns < recent[-1][0] - FORGOTTEN_S * 1e9:  # time was set back: begin anew
                recent.clear()
            else:
                return math.nan
        recent.append((stamp_ns, easting, northing))
        while stamp_ns - recent[0][0] > FORGOTTEN_S * 1e9:
            recent.popleft()
        for earlier_ns, east, north in reversed(recent):
            seconds = (stamp_ns - earlier_ns) / 1e9
            if seconds >= BASELINE_S:
                speed = math.hypot(easting - east, northing - north) / seconds
                return speed if speed <= self._gates.max_speed_mps else math.nan
        return math.nan


class _Pace:
    """Since when one instrument calls the drone fast, or slow."""

    def __init__(self) -> None:
        self._fast_since_ns: int | None = None
        self._slow_since_ns: int | None = None
        self._heard_ns = 0

    def add(self, stamp_ns: int, speed: float, min_speed_mps: float, standing_s: float) -> bool | None:
        self._heard_ns = stamp_ns
        if speed > min_speed_mps:
            self._slow_since_ns = None
            self._fast_since_ns = _earlier(self._fast_since_ns, stamp_ns)
            return True if stamp_ns - self._fast_since_ns >= MOVING_S * 1e9 else None
        self._fast_since_ns = None
        self._slow_since_ns = _earlier(self._slow_since_ns, stamp_ns)
        return False if stamp_ns - self._slow_since_ns >= standing_s * 1e9 else None

    def is_fast(self, stamp_ns: int) -> bool:
        return self._fast_since_ns is not None and abs(stamp_ns - self._heard_ns) <= FORGOTTEN_S * 1e9


class FlightDetector:
    """Whether the drone flies: fast for a moment; or stands: slow for a good while.

    GNSS or odometry can tell; a receiver that is jammed may freeze, so neither says that the drone stands while the
    other sees it fly.
    """

    def __init__(self, projection: Projection, gates: GnssGates) -> None:
        self._by_gnss, self._by_odometry = SpeedMeter(projection, gates), SpeedMeter(projection, gates)
        self._gnss, self._odometry = _Pace(), _Pace()

    def add(self, fix: Fix, min_speed_mps: float, standing_s: float) -> bool | None:
        """True: it flies; False: it stands; None: neither is certain as of this fix."""
        speed = self._by_gnss.add(fix)
        return _verdict(self._gnss, self._odometry, fix.stamp_ns, speed, min_speed_mps, standing_s)

    def add_odometry(self, reading: OdometryReading, min_speed_mps: float, standing_s: float) -> bool | None:
        """The same as of a reading of the odometry."""
        x, y, _ = reading.position
        speed = self._by_odometry.add_position(reading.stamp_ns, x, y)
        return _verdict(self._odometry, self._gnss, reading.stamp_ns, speed, min_speed_mps, standing_s)


def _verdict(
    asked: _Pace, other: _Pace, stamp_ns: int, speed: float, min_speed_mps: float, standing_s: float
) -> bool | None:
    if math.isnan(speed):
        return None
    flying = asked.add(stamp_ns, speed, min_speed_mps, standing_s)
    return None if flying is False and other.is_fast(stamp_ns) else flying


def _earlier(since_ns: int | None, now_ns: int) -> int:
    return now_ns if since_ns is None else min(since_ns, now_ns)
