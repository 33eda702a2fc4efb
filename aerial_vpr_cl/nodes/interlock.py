"""Whether the drone flies, as far as GNSS and autopilot tell: nobody learns in the air."""

from __future__ import annotations

import math
import threading
import time

from aerial_vpr_cl.geo.projection import Projection
from aerial_vpr_cl.mission.gnss import Fix, GnssGates
from aerial_vpr_cl.mission.speed import SpeedMeter

RECENT_S = 5.0
"""How long a measured speed counts."""


class Interlock:
    """Flight by either sign: GNSS speed within the last seconds, or an autopilot that says it has not landed.

    A hovering drone has no speed, and one whose GNSS is jammed shows none: connect `landed` where it exists.
    """

    def __init__(self, projection: Projection, gates: GnssGates) -> None:
        self._meter = SpeedMeter(projection, gates)
        self._lock = threading.Lock()
        self._speed_mps = math.nan
        self._measured_s = -math.inf
        self._landed: bool | None = None

    def add_fix(self, fix: Fix) -> None:
        """A fix came, good or not."""
        with self._lock:
            speed = self._meter.add(fix)
            if not math.isnan(speed):
                self._speed_mps, self._measured_s = speed, time.monotonic()

    def set_landed(self, landed: bool) -> None:
        """The autopilot says whether the drone stands on the ground."""
        with self._lock:
            self._landed = landed

    def flight(self, flying_speed_mps: float) -> str:
        """What speaks for flight; empty when nothing does."""
        with self._lock:
            if self._landed is False:
                return "the autopilot says that it has not landed"
            if time.monotonic() - self._measured_s <= RECENT_S and self._speed_mps > flying_speed_mps:
                return f"GNSS speed is {self._speed_mps:.1f} m/s, above {flying_speed_mps:g} m/s (flying_speed_mps)"
            return ""
