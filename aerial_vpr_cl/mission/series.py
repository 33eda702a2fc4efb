"""Readings of one instrument around a moment: in order, bounded, with a word on why there is none."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value")

KEPT_S = 10.0
MOST_KEPT = 5000
"""What is remembered: enough for a frame that waits a little, whatever the rate and however long the flight."""
AHEAD_S = 5.0
"""No frame waits so long that readings this much newer than it have come: their clock is ahead."""


@dataclass(frozen=True)
class Around(Generic[Value]):
    """The readings next to a moment; where there is only one, both are it and `age_s` tells how far it is."""

    before: Value
    after: Value
    share: float  # of the way from `before` to `after`; above 1 where their way is continued
    age_s: float  # to the nearer one


class Series(Generic[Value]):
    """Readings in the order of their stamps. A clock that is set back empties it."""

    def __init__(self, max_age_s: float) -> None:
        self.max_age_s = max_age_s
        self._stamps_ns: list[int] = []
        self._values: list[Value] = []
        self._fault = ""  # what was wrong with the latest reading; empty if nothing
        self._heard = False
        self._heard_since_asked = 0
        self._missed_fresh = False  # readings came before the latest frame, but none was near it

    @property
    def latest(self) -> Value | None:
        """The reading with the newest stamp."""
        return self._values[-1] if self._values else None

    @property
    def latest_ns(self) -> int:
        """Its stamp; 0 if there is none."""
        return self._stamps_ns[-1] if self._stamps_ns else 0

    def add(self, stamp_ns: int, value: Value) -> None:
        """Take a good reading; a late one is put in its place, of two with one stamp the second counts."""
        self._heard, self._fault = True, ""
        self._heard_since_asked += 1
        if stamp_ns < self.latest_ns - KEPT_S * 1e9:
            self.clear()
        place = bisect_left(self._stamps_ns, stamp_ns)
        if place < len(self._stamps_ns) and self._stamps_ns[place] == stamp_ns:
            self._values[place] = value
            return
        self._stamps_ns.insert(place, stamp_ns)
        self._values.insert(place, value)
        old = bisect_left(self._stamps_ns, self.latest_ns - KEPT_S * 1e9)
        old = max(old, len(self._stamps_ns) - MOST_KEPT)
        del self._stamps_ns[:old], self._values[:old]

    def refuse(self, fault: str) -> None:
        """Note a reading that cannot be used, and why."""
        self._heard, self._fault = True, fault
        self._heard_since_asked += 1

    def clear(self) -> None:
        """Forget all readings."""
        self._stamps_ns.clear()
        self._values.clear()

    def at(self, stamp_ns: int, *, continued: float = 1.0) -> tuple[Around[Value] | None, str]:
        """The readings around a moment, or why there are none; no reason if the instrument was never heard.

        After the newest reading the way of the last two is `continued` up to this multiple of it.
        """
        fresh, self._heard_since_asked = self._heard_since_asked, 0
        place = bisect_left(self._stamps_ns, stamp_ns)
        near = [
            (index, abs(self._stamps_ns[index] - stamp_ns) / 1e9)
            for index in (place - 1, place)
            if 0 <= index < len(self._stamps_ns)
        ]
        is_ahead = self.latest_ns - stamp_ns > AHEAD_S * 1e9
        usable = [(index, age_s) for index, age_s in near if age_s <= self.max_age_s and not is_ahead]
        if not usable:
            return None, self._why_none(stamp_ns, fresh)
        self._missed_fresh = False
        first, last = usable[0][0], usable[-1][0]
        if first == last == len(self._stamps_ns) - 1 and last > 0 and continued > 1.0:
            first -= 1
        span_ns = self._stamps_ns[last] - self._stamps_ns[first]
        share = min((stamp_ns - self._stamps_ns[first]) / span_ns, continued) if span_ns else 0.0
        return Around(self._values[first], self._values[last], share, min(age_s for _, age_s in usable)), ""

    def _why_none(self, stamp_ns: int, fresh: int) -> str:
        if self._fault:
            return self._fault
        if not self._values:
            return "nothing usable was heard" if self._heard else ""
        missed_before, self._missed_fresh = self._missed_fresh, bool(fresh)
        apart_s = abs(stamp_ns - self.latest_ns) / 1e9
        if not fresh or not (missed_before or apart_s > KEPT_S):
            return f"the latest reading is {apart_s:.1f} s away from the image: it is too slow or has stopped"
        side = "behind" if self.latest_ns < stamp_ns else "ahead of"
        return f"stamps are {apart_s:.1f} s {side} those of the images: give both the same clock"
