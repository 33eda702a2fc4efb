"""The autopilot's clock beside ours: TIMESYNC replies, and stamps carried from one to the other."""

from __future__ import annotations

from collections import deque

WINDOW = 30
"""Replies that are remembered. The one that came back quickest says most: half its round trip bounds its error."""
LONGEST_TRIP_NS = 500_000_000
"""A reply that took longer says nothing of use."""
REBOOT_NS = 1_000_000_000
"""Clocks do not drift a second within a few replies: the autopilot, or this computer, began to count anew."""


class AutopilotClock:
    """Nanoseconds since the autopilot's boot, and nanoseconds here.

    Until the first reply the two are tied by the arrival of the messages themselves: the transport delay, a few
    milliseconds on a cable, is then in every stamp.
    """

    def __init__(self) -> None:
        self._replies: deque[tuple[int, int]] = deque(maxlen=WINDOW)  # round trip, offset
        self._arrival_offset_ns: int | None = None
        self._stranger_ns: int | None = None  # offset of the last message that did not fit
        self.resets = 0

    @property
    def is_synchronised(self) -> bool:
        """Whether the autopilot has answered."""
        return bool(self._replies)

    @property
    def offset_ns(self) -> int | None:
        """Add it to a time of the autopilot to have ours; None before anything was heard."""
        return min(self._replies)[1] if self._replies else self._arrival_offset_ns

    @property
    def uncertainty_ns(self) -> int | None:
        """Half of the best round trip; None while only arrivals tie the clocks."""
        return min(self._replies)[0] // 2 if self._replies else None

    def add_reply(self, sent_ns: int, theirs_ns: int, received_ns: int) -> None:
        """A TIMESYNC answer: our time when it was asked, theirs in between, ours now."""
        trip_ns = received_ns - sent_ns
        if not 0 <= trip_ns <= LONGEST_TRIP_NS or theirs_ns <= 0:
            return
        offset_ns = (sent_ns + received_ns) // 2 - theirs_ns
        if self._replies and abs(offset_ns - min(self._replies)[1]) > REBOOT_NS:
            self.reset()
        self._replies.append((trip_ns, offset_ns))

    def add_arrival(self, theirs_ns: int, received_ns: int) -> bool:
        """A message with the autopilot's time has arrived now; false if that time belongs to a packet from the past.

        An autopilot that was started again also counts from the beginning: its messages are believed once the clocks
        are tied anew, which a reply does, or, without one, the second message of the new time.
        """
        offset_ns = received_ns - theirs_ns
        if self._arrival_offset_ns is None:
            self._arrival_offset_ns = offset_ns
        known_ns = self.offset_ns
        assert known_ns is not None
        if abs(offset_ns - known_ns) <= REBOOT_NS:
            # The quickest arrival is nearest to the truth; it is forgotten slowly, for clocks that drift.
            self._arrival_offset_ns = min(offset_ns, self._arrival_offset_ns + 1_000)
            self._stranger_ns = None
            return True
        if self._stranger_ns is not None and abs(offset_ns - self._stranger_ns) <= REBOOT_NS and not self._replies:
            self.reset()
            self._arrival_offset_ns = offset_ns
            return True
        self._stranger_ns = offset_ns
        return False

    def reset(self) -> None:
        """Forget: one of the clocks began anew."""
        self._replies.clear()
        self._arrival_offset_ns = self._stranger_ns = None
        self.resets += 1

    def ours(self, theirs_ns: int) -> int:
        """A time of the autopilot as ours; before anything is known, unchanged."""
        return theirs_ns + (self.offset_ns or 0)

    def theirs(self, ours_ns: int) -> int:
        """A time of ours as the autopilot's."""
        return ours_ns - (self.offset_ns or 0)
