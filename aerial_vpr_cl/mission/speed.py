"""How fast the drone flies, by its GNSS."""

from __future__ import annotations

import math
from collections import deque

from aerial_vpr_cl.geo.projection import Projection
from aerial_vpr_cl.mission.gnss import Fix, GnssGates, fault_of

BASELINE_S = 1.0
"""Speed is measured between fixes at least this far apart: a metre of noise is then a metre per second at most."""
FORGOTTEN_S = 5.0
MOVING_S = 2.0
"""How long the drone must be fast to count as flying: one wild fix is no take-off."""


class SpeedMeter:
    """Ground speed from the believable ones of a stream of fixes."""

    def __init__(self, projection: Projection, gates: GnssGates) -> None:
        self._projection = projection
        self._gates = gates
        self._recent: deque[tuple[int, float, float]] = deque()

    def add(self, fix: Fix) -> float:
        """Speed in m/s as of this fix; NaN for a fix not to be believed, a jump, or one without company."""
        if fault_of(fix, self._gates):
            return math.nan
        recent = self._recent
        if recent and fix.stamp_ns <= recent[-1][0]:
            if fix.stamp_ns < recent[-1][0] - FORGOTTEN_S * 1e9:  # time was set back: begin anew
                recent.clear()
            else:
                return math.nan
        easting, northing = (float(value) for value in self._projection.to_utm(fix.latitude, fix.longitude))
        recent.append((fix.stamp_ns, easting, northing))
        while fix.stamp_ns - recent[0][0] > FORGOTTEN_S * 1e9:
            recent.popleft()
        for stamp_ns, east, north in reversed(recent):
            seconds = (fix.stamp_ns - stamp_ns) / 1e9
            if seconds >= BASELINE_S:
                speed = math.hypot(easting - east, northing - north) / seconds
                return speed if speed <= self._gates.max_speed_mps else math.nan
        return math.nan


class FlightDetector:
    """Whether the drone flies: fast for a moment; or stands: slow for a good while."""

    def __init__(self, projection: Projection, gates: GnssGates) -> None:
        self._meter = SpeedMeter(projection, gates)
        self._fast_since_ns: int | None = None
        self._slow_since_ns: int | None = None

    def add(self, fix: Fix, min_speed_mps: float, standing_s: float) -> bool | None:
        """True: it flies; False: it stands; None: neither is certain as of this fix."""
        speed = self._meter.add(fix)
        if math.isnan(speed):
            return None
        if speed > min_speed_mps:
            self._slow_since_ns = None
            self._fast_since_ns = _earlier(self._fast_since_ns, fix.stamp_ns)
            return True if fix.stamp_ns - self._fast_since_ns >= MOVING_S * 1e9 else None
        self._fast_since_ns = None
        self._slow_since_ns = _earlier(self._slow_since_ns, fix.stamp_ns)
        return False if fix.stamp_ns - self._slow_since_ns >= standing_s * 1e9 else None


def _earlier(since_ns: int | None, now_ns: int) -> int:
    return now_ns if since_ns is None else min(since_ns, now_ns)
