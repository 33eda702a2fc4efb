"""What the GNSS is worth, and how far the estimates are from it while it is trusted. Never part of an estimate."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.mission.gnss import Fix, GnssGates, Track, fault_of

LOST_S = 3.0
"""Silence after which the GNSS counts as lost."""
KEPT_FIXES = 200
KEPT_ESTIMATES = 300
KEPT_ERRORS = 300


class GnssMonitor:
    """Recent fixes and estimates of a flight; errors are computed when somebody looks, not with every frame."""

    def __init__(self, gates: GnssGates) -> None:
        self._gates = gates
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Forget everything, as after a jump of time."""
        with self._lock:
            self._fixes: deque[Fix] = deque(maxlen=KEPT_FIXES)
            self._estimates: deque[tuple[int, NDArray[np.float64]]] = deque(maxlen=KEPT_ESTIMATES)
            self._errors: deque[float] = deque(maxlen=KEPT_ERRORS)
            self._faults: Counter[str] = Counter()
            self._received = 0
            self._last_fault = ""
            self._last_s = float("-inf")

    def add_fix(self, fix: Fix) -> None:
        """A fix came, good or not."""
        with self._lock:
            self._fixes.append(fix)
            self._received += 1
            self._last_s = time.monotonic()
            self._last_fault = fault_of(fix, self._gates)
            if self._last_fault:
                self._faults[self._last_fault] += 1

    def add_estimate(self, stamp_ns: int, position: NDArray[np.float64]) -> None:
        """A position was published."""
        with self._lock:
            self._estimates.append((stamp_ns, position))

    @property
    def state(self) -> str:
        """Trusted, lost, or what is wrong with the last fix."""
        with self._lock:
            if time.monotonic() - self._last_s > LOST_S:
                return "lost" if self._received else "none"
            return f"not trusted: {self._last_fault}" if self._last_fault else "trusted"

    def values(self, grid: Grid | None) -> dict[str, Any]:
        """Everything by name, as people read it."""
        state = self.state
        with self._lock:
            if grid is not None:
                self._compare(grid)
            errors = np.array(self._errors)
            return {
                "GNSS": state,
                "GNSS fixes received": self._received,
                **{f"GNSS fixes refused: {fault}": count for fault, count in sorted(self._faults.items())},
                "error against GNSS, median (m)": f"{np.median(errors):.0f}" if len(errors) else "",
                "error against GNSS, p95 (m)": f"{np.percentile(errors, 95):.0f}" if len(errors) else "",
            }

    def _compare(self, grid: Grid) -> None:
        """Errors of the estimates that now lie between believable fixes; younger ones wait for the next fix."""
        if not self._fixes or not self._estimates:
            return
        track = Track(self._fixes, self._gates, grid.projection)
        newest_ns = max(fix.stamp_ns for fix in self._fixes)
        ripe = [estimate for estimate in self._estimates if estimate[0] <= newest_ns]
        self._estimates = deque(
            (estimate for estimate in self._estimates if estimate[0] > newest_ns), maxlen=KEPT_ESTIMATES
        )
        if not ripe:
            return
        truth, reasons = track.at([stamp_ns for stamp_ns, _ in ripe])
        for (_, position), point, reason in zip(ripe, truth, reasons):
            if not reason:
                self._errors.append(float(np.hypot(*(position - point))))
