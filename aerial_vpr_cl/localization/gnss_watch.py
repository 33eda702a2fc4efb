"""GNSS watched, never believed: how its fixes go together with the positions that were found by looking at the ground.

A fix is compared with the published track at its own time. Their difference is the innovation; what it may be by chance
follows from the covariance of the track and the receiver's own. The errors of a track are correlated in time, so no
averaging makes the limit smaller: an offset is named when it stays beyond the limit, and the report tells the limit.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.geo.projection import Projection
from aerial_vpr_cl.mission.gnss import Fix, GnssGates, fault_of

AGREE, DRIFTING, JUMPED, FROZEN, ABSENT, UNCHECKED = "agree", "drifting", "jumped", "frozen", "absent", "unchecked"

CHI_SQUARE = 13.8
"""Of two degrees of freedom, exceeded by chance once in a thousand."""
UNKNOWN_SIGMA_M = 5.0
"""Of a receiver that reports none."""
WINDOW_S = 5.0
"""An innovation counts by its median over this long: one wrong answer or fix is no spoofing."""
HISTORY_S = 120.0
RECOVERY_S = 10.0
"""How long the two must go together again before a receiver that was caught is trusted."""
RECOVERY_SHARE = 0.7
"""... and within this share of the limit, so that a spoofer at its edge does not flicker."""
LOST_S = 3.0
"""Silence after which the GNSS counts as absent."""
MOST_APART_S = 3.0
"""Two positions of the track further apart than this have no track between them."""
FROZEN_FIXES = 5
FROZEN_M = 0.01
MOVED_M = 20.0
"""A receiver is frozen when so many fixes in a row are the same while the track went this far, and three sigma."""
KEPT = 2000


class _Innovation(NamedTuple):
    stamp_ns: int
    offset: NDArray[np.float64]  # (2,) fix minus track
    limit_m: float  # beyond this it is no chance


@dataclass(frozen=True)
class GnssReport:
    """What the GNSS is worth now."""

    state: str = UNCHECKED
    trusted: bool | None = None  # None: nothing is known for or against it
    reason: str = ""
    offset_m: float = math.nan  # how far the fixes lie from the track
    limit_m: float = math.nan  # from which offset on it would be named
    received: int = 0
    faults: dict[str, int] = field(default_factory=dict)  # fixes that cannot be used, by reason
    errors_m: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))  # of the track, if GNSS were true

    @property
    def is_caught(self) -> bool:
        """Whether it says what is not true: fixes come, and they are not trusted."""
        return self.trusted is False and self.state != ABSENT

    def __str__(self) -> str:
        return f"{self.state}: {self.reason}" if self.reason else self.state


class GnssWatch:
    """Recent fixes and positions of a flight. For any thread."""

    def __init__(self, projection: Projection, gates: GnssGates, clock: Callable[[], float] = time.monotonic) -> None:
        self._projection, self._gates, self._clock = projection, gates, clock
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Forget everything, as after a jump of time."""
        with self._lock:
            self._fixes: deque[tuple[int, NDArray[np.float64], float]] = deque(maxlen=KEPT)  # not yet compared
            self._track: deque[tuple[int, NDArray[np.float64], float]] = deque(maxlen=KEPT)
            self._innovations: deque[_Innovation] = deque(maxlen=KEPT)
            self._same: deque[tuple[int, NDArray[np.float64]]] = deque(maxlen=KEPT)  # fixes that are all the same
            self._faults: Counter[str] = Counter()
            self._received = 0
            self._fault = ""
            self._heard_s = -math.inf
            self._caught = ""  # the state it was caught in, until it has recovered
            self._has_agreed = False
            self._good_since_ns: int | None = None

    def rewind(self, stamp_ns: int) -> None:
        """The receiver's stamps went back to this time: what it said of later ones is forgotten, not that it lied."""
        with self._lock:
            for series in (self._fixes, self._same):
                while series and series[-1][0] > stamp_ns:
                    series.pop()

    def add_fix(self, fix: Fix) -> None:
        """A fix came, good or not."""
        with self._lock:
            self._received += 1
            self._heard_s = self._clock()
            self._fault = fault_of(fix, self._gates)
            if self._fault:
                self._faults[self._fault] += 1
                return
            point = self._projection.to_utm(fix.latitude, fix.longitude)
            if not np.isfinite(point).all():
                return
            if self._same and np.hypot(*(point - self._same[-1][1])) > FROZEN_M:
                self._same.clear()
            self._same.append((fix.stamp_ns, point))
            sigma_m = UNKNOWN_SIGMA_M if math.isnan(fix.sigma_m) else fix.sigma_m
            self._fixes.append((fix.stamp_ns, point, sigma_m))
            self._compare()

    def add_position(self, stamp_ns: int, position: NDArray[np.float64], covariance: NDArray[np.float64]) -> None:
        """A position was found without GNSS."""
        with self._lock:
            variance = float(np.linalg.eigvalsh(np.asarray(covariance, np.float64))[-1])
            self._track.append((stamp_ns, np.asarray(position, np.float64), variance))
            self._compare()

    def report(self) -> GnssReport:
        """The state of things, as of now."""
        with self._lock:
            return self._judge()

    # Inside, with the lock held

    def _compare(self) -> None:
        """Innovations of the fixes that now lie between two positions; younger ones wait."""
        while self._fixes and self._track and self._fixes[0][0] <= self._track[-1][0]:
            stamp_ns, point, sigma_m = self._fixes.popleft()
            expected = self._track_at(stamp_ns)
            if expected is not None:
                position, variance = expected
                limit_m = math.sqrt(CHI_SQUARE * (variance + sigma_m**2))
                self._innovations.append(_Innovation(stamp_ns, point - position, limit_m))
        newest_ns = self._track[-1][0] if self._track else 0
        while self._innovations and newest_ns - self._innovations[0].stamp_ns > HISTORY_S * 1e9:
            self._innovations.popleft()

    def _track_at(self, stamp_ns: int) -> tuple[NDArray[np.float64], float] | None:
        """Position and largest variance between the two positions around a time."""
        for (end_ns, end, later), (start_ns, start, earlier) in pairwise(reversed(self._track)):
            if start_ns <= stamp_ns <= end_ns:
                share = (stamp_ns - start_ns) / max(end_ns - start_ns, 1)
                is_near = end_ns - start_ns <= MOST_APART_S * 1e9
                return (start + share * (end - start), max(earlier, later)) if is_near else None
        return None

    def _judge(self) -> GnssReport:
        recent = self._recent(WINDOW_S)
        offset = np.median([item.offset for item in recent], axis=0) if recent else np.full(2, math.nan)
        offset_m = float(np.hypot(*offset))
        limit_m = float(np.median([item.limit_m for item in recent])) if recent else math.nan
        state, reason = self._state(recent, offset_m, limit_m)
        if state in (DRIFTING, JUMPED, FROZEN):
            self._caught = state
        if state == AGREE:
            self._has_agreed, self._caught = True, ""
        trusted = None if state == UNCHECKED and not self._caught else state == AGREE
        errors = np.linalg.norm(np.array([item.offset for item in self._innovations]).reshape(-1, 2), axis=1)
        return GnssReport(state, trusted, reason, offset_m, limit_m, self._received, dict(self._faults), errors)

    def _state(self, recent: list[_Innovation], offset_m: float, limit_m: float) -> tuple[str, str]:
        if self._clock() - self._heard_s > LOST_S:
            return ABSENT, "no fixes come any more" if self._received else "no fix has come"
        if self._fault:
            return ABSENT, f"the fixes cannot be used ({self._fault})"
        if moved := self._moved_while_frozen():
            return FROZEN, f"the same position again and again, while the drone went {moved:.0f} m"
        if len(recent) < 2:
            return UNCHECKED, "there is no position of our own to compare with"
        off = f"{offset_m:.0f} m from the track, {limit_m:.0f} m could be chance"
        if offset_m > limit_m:
            self._good_since_ns = None
            return (JUMPED, off) if self._stepped(offset_m) else (DRIFTING, off)
        if self._caught and not self._has_recovered(recent[-1].stamp_ns, offset_m < RECOVERY_SHARE * limit_m):
            return self._caught, f"{off}; not yet trusted again"
        return AGREE, off

    def _recent(self, seconds: float) -> list[_Innovation]:
        if not self._innovations:
            return []
        newest_ns = self._innovations[-1].stamp_ns
        known_ns = max([newest_ns, *(series[-1][0] for series in (self._track, self._fixes) if series)])
        if known_ns - newest_ns > seconds * 1e9:
            return []
        return [item for item in self._innovations if newest_ns - item.stamp_ns <= seconds * 1e9]

    def _stepped(self, offset_m: float) -> bool:
        """Whether the offset came at once, or was there from the beginning; a drag-off grows from nothing."""
        if not self._has_agreed:
            return True
        steps = np.diff(np.array([item.offset for item in self._innovations]), axis=0)
        return bool((np.linalg.norm(steps, axis=1) > offset_m / 2.0).any())

    def _has_recovered(self, now_ns: int, is_good: bool) -> bool:
        if not is_good:
            self._good_since_ns = None
        elif self._good_since_ns is None or self._good_since_ns > now_ns:
            self._good_since_ns = now_ns
        return self._good_since_ns is not None and now_ns - self._good_since_ns >= RECOVERY_S * 1e9

    def _moved_while_frozen(self) -> float:
        """How far the track went while the fixes stood still; 0 if they do not, or it may be standing itself."""
        if len(self._same) < FROZEN_FIXES:
            return 0.0
        start = self._track_at(self._same[0][0])
        if start is None:
            return 0.0
        _, position, variance = self._track[-1]
        moved_m = float(np.hypot(*(position - start[0])))
        return moved_m if moved_m > MOVED_M + 3.0 * math.sqrt(start[1] + variance) else 0.0
