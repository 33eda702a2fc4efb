"""Which readings of the drone's instruments are worth their disk space."""

from __future__ import annotations

from aerial_vpr_cl.mission.readings import CameraReading, Reading

CALIBRATION_S = 10.0
"""A camera sends its calibration with every image; it is recorded when it changes, and this often."""
IN_TIME = 0.95
"""Clocks jitter: what comes this share of the period after the last one is in time."""


class ReadingThinner:
    """Lets readings through at a rate, each instrument by itself."""

    def __init__(self) -> None:
        self._last: dict[type, Reading] = {}

    def wants(self, reading: Reading, rate_hz: float) -> bool:
        """Whether a reading is to be taken; 0 takes all of them."""
        last = self._last.get(type(reading))
        if last is not None and not _is_due(reading, last, rate_hz):
            return False
        self._last[type(reading)] = reading
        return True


def _is_due(reading: Reading, last: Reading, rate_hz: float) -> bool:
    seconds = (reading.stamp_ns - last.stamp_ns) / 1e9
    if seconds < 0.0:  # time was set back
        return True
    if isinstance(reading, CameraReading):
        return seconds >= CALIBRATION_S or reading[1:] != last[1:]
    return rate_hz <= 0.0 or seconds * rate_hz >= IN_TIME
