"""Decides what the autopilot is told, and when: never a word without a published position."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from aerial_vpr_cl.autopilot.answers import (
    Position,
    external_position_estimate,
    global_position_sensor,
    odometry,
    set_origin,
    status_text,
)
from aerial_vpr_cl.autopilot.carrying import NEAR_NS, carried_on, offset_m
from aerial_vpr_cl.autopilot.clock import AutopilotClock
from aerial_vpr_cl.autopilot.reset_gate import ResetGate, ResetSettings
from aerial_vpr_cl.autopilot.telemetry import RECENT_NS, GlobalPosition, GnssFix, LocalPosition, Origin, Told
from aerial_vpr_cl.settings import setting

SENSOR, AUXILIARY, COMMAND, ODOMETRY, NOTHING = (
    "global_position_sensor",
    "aux_global_position",
    "command",
    "odometry",
    "none",
)
TRACKING = "tracking"
KEPT_NS = 10_000_000_000
"""How long the filter's own positions are remembered: answers are at most seconds old."""
SET_BACK_NS = 1_000_000_000
"""A stamp this much older than the newest is not late: the clock was set back."""
GAP_NS = RECENT_NS * 9 // 10
"""Local positions further apart do not belong together: telemetry counts from another place after a gap. A tenth less
than there, where the gap is measured by the autopilot's own clock."""
TEXT_EVERY_NS = 2_000_000_000
"""A state that flickers does not fill the operator's screen."""
ORIGIN_EVERY_NS = 2_000_000_000
"""How often a filter that reports no origin is offered one."""


@dataclass(frozen=True)
class ReportSettings:
    """How positions reach the autopilot's filter."""

    output: str = setting(
        SENSOR,
        "global_position_sensor for PX4 from 1.18, aux_global_position for PX4 over uXRCE-DDS (needs px4_msgs); for "
        "ArduPilot command (a reset, only while dead reckoning) or odometry (external navigation at a steady rate); "
        "none: only listen",
        choices=(SENSOR, AUXILIARY, COMMAND, ODOMETRY, NOTHING),
    )
    sensor_id: int = setting(1, "our id as a source of positions; PX4's EKF2_AGP0_ID must equal it", low=1, high=255)
    rate_hz: float = setting(5.0, "most positions a second; of odometry the steady rate", low=0.2, high=50.0)
    max_age_s: float = setting(2.0, "an older position is not sent any more", low=0.1, high=5.0)
    lasting_s: float = setting(
        10.0, "how long an error of positions keeps its sign; odometry repeats it, and is as much less certain", low=0.0
    )


class Reporter:
    """Fed with what the autopilot tells and what the localization publishes; returns messages to send.

    For `aux_global_position`, which goes another way than the cable, it returns the position itself.
    """

    def __init__(self, settings: ReportSettings, reset: ResetSettings, clock: AutopilotClock) -> None:
        self._settings = settings
        self._clock = clock
        self._gate = ResetGate(reset)
        self._state = ""
        self._texted: tuple[str, int] = ("", -TEXT_EVERY_NS)
        self._sent_ns = -math.inf
        self._global: deque[GlobalPosition] = deque()
        self._local: deque[LocalPosition] = deque()
        self._origin: Origin | None = None
        self._offered_ns = -ORIGIN_EVERY_NS
        self._answer: Position | None = None

    def change(self, settings: ReportSettings, reset: ResetSettings) -> None:
        """Go by other settings from now on; what was heard and sent is still known."""
        self._settings, self._gate.settings = settings, reset

    def told(self, value: Told) -> None:
        """Something the autopilot said."""
        if isinstance(value, GnssFix):
            self._gate.add_gnss(value.stamp_ns, value.status >= 0)
        elif isinstance(value, GlobalPosition):
            _remember(self._global, value)
        elif isinstance(value, LocalPosition):
            if self._local and abs(value.stamp_ns - self._local[-1].stamp_ns) > GAP_NS:
                self._local.clear()
            if self._local:
                self._gate.add_way(float(np.hypot(*(value.position - self._local[-1].position)[:2])))
            _remember(self._local, value)
        elif isinstance(value, Origin):
            self._origin = value

    def state(self, name: str, words: str, now_ns: int) -> list[Any]:
        """The localization's state; a change is a line in the operator's ground station."""
        if name != TRACKING:
            self._answer = None
            self._gate.break_off()
        self._state = name
        said, said_ns = self._texted
        if name == said or abs(now_ns - said_ns) < TEXT_EVERY_NS:
            return []
        self._texted = (name, now_ns)
        return [status_text(f"VPR {name}: {words}" if words else f"VPR {name}", is_warning=name != TRACKING)]

    def silent(self) -> None:
        """The localization had no position for a frame."""
        self._answer = None
        self._gate.break_off()

    def answer(self, position: Position, system: int, now_ns: int) -> list[Any]:
        """A published position; what is sent of it at once."""
        if self._state != TRACKING or not _is_usable(position, now_ns, self._settings.max_age_s):
            return []
        self._answer = position
        if self._settings.output == COMMAND:
            return self._command(position, system, now_ns)
        if self._settings.output not in (SENSOR, AUXILIARY) or not self._is_due(now_ns):
            return []
        carried = carried_on(position, self._local, self._gate.settings.drift_share)
        if self._settings.output == AUXILIARY:
            return [carried]
        there_us = max(self._clock.theirs(now_ns) // 1_000, 0)
        return [global_position_sensor(carried, self._settings.sensor_id, system, now_ns, there_us)]

    def tick(self, system: int, now_ns: int) -> list[Any]:
        """Called at the rate of odometry: the last answer, moved on by the filter's own motion since."""
        answer = self._answer
        if self._settings.output != ODOMETRY or answer is None or not self._local:
            return []
        then = min(self._local, key=lambda local: abs(local.stamp_ns - answer.stamp_ns))
        if abs(then.stamp_ns - answer.stamp_ns) > NEAR_NS:
            return []  # nothing tells where the drone was then
        if not _is_usable(answer, now_ns, self._settings.max_age_s) or not self._is_due(now_ns):
            return []
        if self._origin is None:
            return self._offer_origin(answer, system, now_ns)
        newest = self._local[-1]
        east_north = offset_m(self._origin.latitude, self._origin.longitude, answer.latitude, answer.longitude)
        moved = newest.position - then.position
        place = np.array([*(east_north + moved[:2]), newest.position[2]])
        there_us = max(self._clock.theirs(newest.stamp_ns) // 1_000, 0)
        # The filter takes every message for another witness. Taken at their word, many that err alike swing its
        # velocity, and the positions, which that velocity moves on, swing with it.
        repeated = max(self._settings.rate_hz * self._settings.lasting_s, 1.0)
        return [odometry(there_us, place, newest.velocity, newest.quaternion, answer.covariance * repeated)]

    def _offer_origin(self, answer: Position, system: int, now_ns: int) -> list[Any]:
        """A filter that has an origin keeps it without a word: only one that it reports itself is measured from."""
        if abs(now_ns - self._offered_ns) < ORIGIN_EVERY_NS:
            return []
        self._offered_ns = now_ns
        return [set_origin(system, answer.latitude, answer.longitude)]

    def _command(self, position: Position, system: int, now_ns: int) -> list[Any]:
        filtered = self._filtered_at(position.stamp_ns)
        if filtered is None:
            return []
        difference = offset_m(filtered.latitude, filtered.longitude, position.latitude, position.longitude)
        if not self._gate.allows(position.stamp_ns, difference, position.covariance):
            return []
        self._gate.sent(position.stamp_ns)
        return [external_position_estimate(position, system, now_ns)]

    def _filtered_at(self, stamp_ns: int) -> GlobalPosition | None:
        """Where the filter had the drone when the image was taken, interpolated; None if it did not say."""
        before = [one for one in self._global if one.stamp_ns <= stamp_ns]
        after = [one for one in self._global if one.stamp_ns >= stamp_ns]
        if not before or not after:
            return None
        first, second = before[-1], after[0]
        span_ns = second.stamp_ns - first.stamp_ns
        share = (stamp_ns - first.stamp_ns) / span_ns if span_ns else 0.0
        return GlobalPosition(
            stamp_ns,
            first.latitude + share * (second.latitude - first.latitude),
            first.longitude + share * (second.longitude - first.longitude),
        )

    def _is_due(self, now_ns: int) -> bool:
        if abs(now_ns - self._sent_ns) < 1e9 / self._settings.rate_hz * 0.95:  # a timer is never quite on time
            return False
        self._sent_ns = now_ns
        return True


def _is_usable(position: Position, now_ns: int, max_age_s: float) -> bool:
    values = [position.latitude, position.longitude, *position.covariance.ravel()]
    is_young = abs(now_ns - position.stamp_ns) <= max_age_s * 1e9  # a clock set back makes old ones come from ahead
    return bool(np.isfinite(values).all()) and position.sigma_m > 0.0 and is_young


def _remember(queue: deque[Any], value: Any) -> None:
    """Add what has a stamp; what is old is forgotten, and everything when the clock was set back."""
    if queue and value.stamp_ns < queue[-1].stamp_ns - SET_BACK_NS:
        queue.clear()
    queue.append(value)
    while queue[0].stamp_ns < value.stamp_ns - KEPT_NS:
        queue.popleft()
