"""When a recording begins and ends by itself: by what speaks for flight, after what the operator said."""

from __future__ import annotations

import logging
import math
import time

from aerial_vpr_cl.geo.projection import Projection
from aerial_vpr_cl.mission.gnss import Fix, GnssGates, fault_of
from aerial_vpr_cl.mission.readings import HeightReading, OdometryReading, Reading
from aerial_vpr_cl.mission.recorder_settings import AUTO, RecorderSettings
from aerial_vpr_cl.mission.speed import FlightDetector

log = logging.getLogger(__name__)

IN_THE_AIR_M = 5.0
"""Nobody stands this high above the ground: a jammed drone without odometry still tells by its height that it flies."""


class AutoRecording:
    """Hears fixes and readings; answers True to begin, False to end, None to leave it as it is."""

    def __init__(self, projection: Projection, gates: GnssGates) -> None:
        self._gates = gates
        self._detector = FlightDetector(projection, gates)
        self._held_off = False  # the operator stopped, or it failed: wait for the next take-off
        self._has_flown = False  # since this recording began: only then is standing still taken for landing
        self._last_sign_s = math.inf  # monotonic time of the last thing that tells whether the drone flies
        self._landed: bool | None = None  # as the autopilot says, if it says anything

    def obey_start(self) -> None:
        """The operator began a recording, perhaps on the ground."""
        self._held_off = self._has_flown = False

    def hold_off(self) -> None:
        """The operator ended a recording, or it failed."""
        self._held_off = True

    def add_fix(self, fix: Fix, settings: RecorderSettings, is_recording: bool) -> bool | None:
        """What follows from a fix."""
        if not fault_of(fix, self._gates):
            self._last_sign_s = time.monotonic()
        if settings.mode != AUTO:
            return None
        flying = self._detector.add(fix, settings.min_speed_mps, settings.stop_after_s)
        return self._begin_or_end(flying, is_recording)

    def add_reading(self, reading: Reading, settings: RecorderSettings, is_recording: bool) -> bool | None:
        """What follows from what an instrument says."""
        if isinstance(reading, HeightReading) and reading.height_m >= IN_THE_AIR_M:
            self._last_sign_s = time.monotonic()
        if not isinstance(reading, OdometryReading):
            return None
        self._last_sign_s = time.monotonic()
        if settings.mode != AUTO:
            return None
        flying = self._detector.add_odometry(reading, settings.min_speed_mps, settings.stop_after_s)
        return self._begin_or_end(flying, is_recording)

    def set_landed(self, landed: bool, settings: RecorderSettings, is_recording: bool) -> bool | None:
        """What follows from the autopilot's word; no other sign of flight counts until it takes a landing back."""
        self._landed = landed
        return self._begin_or_end(False, is_recording) if landed and settings.mode == AUTO else None

    def is_silent(self, settings: RecorderSettings) -> bool:
        """Whether nothing tells any more if a drone that flew still flies: its receiver may be off since it landed."""
        silent_s = time.monotonic() - self._last_sign_s
        if settings.mode != AUTO or not self._has_flown or silent_s <= settings.stop_after_s or self._landed is False:
            return False
        log.info("recording stops by itself: nothing tells any more whether the drone flies")
        return True

    def _begin_or_end(self, flying: bool | None, is_recording: bool) -> bool | None:
        if flying is True and not self._landed:
            self._has_flown = True
            if not is_recording and not self._held_off:
                log.info("recording starts by itself: the drone flies")
                return True
        elif flying is False:
            self._held_off = False  # the next take-off is recorded again
            if is_recording and self._has_flown:
                log.info("recording stops by itself: the drone stands")
                return False
        return None
