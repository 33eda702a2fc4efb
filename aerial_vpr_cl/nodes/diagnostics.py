"""What the localization node has seen and done, counted, and as one diagnostic_msgs/DiagnosticStatus."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

if TYPE_CHECKING:  # every node tells its health, and only some of them have a network
    from aerial_vpr_cl.localization.gnss_watch import GnssReport
    from aerial_vpr_cl.localization.localizer import Localizer
    from aerial_vpr_cl.mission.budgeted_missions import RecorderStatus

BAD_IMAGE = "bad image"
LATE_IMAGE = "late image"
INTERNAL_ERROR = "internal error"
WINDOW = 300
"""Latencies and times that percentiles and rates are computed over."""
RATE_S = 5.0
NO_IMAGE_S = 2.0


class FlightCounters:
    """Counts of frames and how long they took. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.received = 0
        self.answered = 0
        self.dropped = 0
        self.time_jumps = 0
        self.rejected: Counter[str] = Counter()
        self.problem = ""
        self._arrivals: deque[float] = deque(maxlen=WINDOW)
        self._latencies: deque[float] = deque(maxlen=WINDOW)

    def add_received(self) -> None:
        """An image arrived."""
        with self._lock:
            self.received += 1
            self._arrivals.append(time.monotonic())

    def add_dropped(self) -> None:
        """A newer image took the place of one that was never looked at."""
        with self._lock:
            self.dropped += 1

    def add_answer(self, latency_s: float) -> None:
        """A position was published so long after its image arrived."""
        with self._lock:
            self.answered += 1
            self._latencies.append(latency_s)

    def add_rejection(self, reason: str, problem: str = "") -> None:
        """An image, fix or request got nothing, for a reason."""
        with self._lock:
            self.rejected[reason] += 1
            self.problem = problem or self.problem

    def add_time_jump(self) -> None:
        """Time ran backwards: latencies of before say nothing any more."""
        with self._lock:
            self.time_jumps += 1
            self._latencies.clear()
            self._arrivals.clear()

    def values(self) -> dict[str, Any]:
        """Everything by name, as people read it."""
        with self._lock:
            now = time.monotonic()
            recent = [arrival for arrival in self._arrivals if now - arrival <= RATE_S]
            latencies = np.array(self._latencies) * 1e3
            values: dict[str, Any] = {
                "images received": self.received,
                "image rate (Hz)": f"{len(recent) / RATE_S:.1f}",
                "positions published": self.answered,
                "frames dropped": self.dropped,
                "frames rejected": sum(self.rejected.values()),
                **{f"rejected: {reason}": count for reason, count in sorted(self.rejected.items())},
                "latency p50 (ms)": f"{np.percentile(latencies, 50):.1f}" if len(latencies) else "",
                "latency p95 (ms)": f"{np.percentile(latencies, 95):.1f}" if len(latencies) else "",
                "time jumps": self.time_jumps,
                "last problem": self.problem,
            }
        return values

    @property
    def seconds_since_image(self) -> float:
        """How long ago the last image came; infinite before the first."""
        with self._lock:
            return time.monotonic() - self._arrivals[-1] if self._arrivals else float("inf")


def runtime_values(localizer: Localizer | None) -> dict[str, Any]:
    """What computes the network, and why it is not what was wanted, by name."""
    if localizer is None:
        return {"runtime": "", "runtime: problem": ""}
    return {"runtime": localizer.engine.name, "runtime: problem": localizer.runtime_problem}


def gnss_values(report: GnssReport) -> dict[str, Any]:
    """What the GNSS is worth, by name."""
    errors = report.errors_m
    return {
        "GNSS": str(report),
        "GNSS trusted": "" if report.trusted is None else report.trusted,
        "GNSS offset (m)": "" if math.isnan(report.offset_m) else f"{report.offset_m:.0f}",
        "GNSS offset named from (m)": "" if math.isnan(report.limit_m) else f"{report.limit_m:.0f}",
        "GNSS fixes received": report.received,
        **{f"GNSS fixes refused: {fault}": count for fault, count in sorted(report.faults.items())},
        "error against GNSS, median (m)": f"{np.median(errors):.0f}" if len(errors) else "",
        "error against GNSS, p95 (m)": f"{np.percentile(errors, 95):.0f}" if len(errors) else "",
    }


def recording_values(status: RecorderStatus) -> dict[str, Any]:
    """What the recorder does, by name."""
    return {
        "recording": status.state,
        "recording: mission": status.mission,
        "recording: frames": status.frames,
        "recording: frames without a fix": status.without_fix,
        "recording: size (MB)": f"{status.megabytes:.1f}",
        "recording: problem": status.problem,
        **{f"recording: refused, {reason}": count for reason, count in sorted(status.refused.items())},
    }


def diagnostic_array(stamp: Any, name: str, level: bytes, message: str, values: Mapping[str, Any]) -> DiagnosticArray:
    """One status, with all values as text."""
    status = DiagnosticStatus(level=level, name=name, message=message, hardware_id="aerial_vpr_cl")
    status.values = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
    array = DiagnosticArray(status=[status])
    array.header.stamp = stamp
    return array
