"""Where the time of an adaptation goes: seconds of its parts, the trunk's apart from those that asked for it."""

from __future__ import annotations

import time
from collections.abc import Mapping

from aerial_vpr_cl.learning.trunk_outputs import TrunkOutputs

TRUNK = "trunk"


class Laps:
    """A stopwatch that runs from one `end` to the next; a part may come again."""

    def __init__(self, trunk: TrunkOutputs | None = None) -> None:
        self._trunk = trunk
        self._seconds: dict[str, float] = {}
        self._since = time.monotonic()
        self._passed = trunk.total_s if trunk else 0.0

    def end(self, part: str) -> None:
        """What has passed since the last end was this part."""
        now, passed = time.monotonic(), self._trunk.total_s if self._trunk else 0.0
        by_trunk = passed - self._passed
        self.end_measured({TRUNK: by_trunk, part: max(0.0, now - self._since - by_trunk)})
        self._passed = passed

    def end_measured(self, parts: Mapping[str, float]) -> None:
        """What has passed since the last end was these parts, which somebody else measured."""
        for part, seconds in parts.items():
            self._seconds[part] = self._seconds.get(part, 0.0) + seconds
        self._since = time.monotonic()

    @property
    def seconds(self) -> dict[str, float]:
        """By part, those that took any time."""
        return {part: round(seconds, 3) for part, seconds in self._seconds.items() if seconds}
