"""A flight that goes on, as the live page asks for it: the newest moments, in bounded memory."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.page.columns import columns_of
from aerial_vpr_cl.page.flight_page import MOST_MOMENTS
from aerial_vpr_cl.page.runs import Moment, Pictures
from aerial_vpr_cl.page.thumbnails import MOST_PICTURES

Point = NDArray[np.float64]
Value = TypeVar("Value")
KINDS = ("frame", "view", "map")
"""Pictures of a moment."""
NOTES = 200
"""Answers, images and positions that wait for the rest of their frame; older ones were not for a frame."""
BACKWARDS_NS = 1_000_000_000
"""Stamps that fall back by more than this are another flight."""
TRUTH_NS, GNSS_NS = 50_000_000, 1_000_000_000
"""How far in time from a frame a true position may be that its error is measured by, and a fix that is only drawn."""


@dataclass(frozen=True, eq=False)
class State:
    """What the node said it was doing at a frame."""

    state: str
    reason: str = ""
    confidence: float = math.nan
    z: float = math.nan


class LiveFlight:
    """Written by the thread that hears the node, read by those that serve the page."""

    def __init__(
        self,
        origin: Point,
        map_at: Callable[[Point], bytes] = lambda position: b"",
        most_moments: int = MOST_MOMENTS,
        most_pictures: int = MOST_PICTURES,
    ) -> None:
        """Positions are told from the (2,) origin; `map_at` is a picture of the map around a position."""
        self._origin, self._map_at = origin, map_at
        self._most_pictures = most_pictures
        self._lock = threading.Lock()
        self._moments: deque[Moment] = deque(maxlen=most_moments)
        self._pictures: dict[int, Pictures] = {}
        self._answers: _Notes[tuple[Point, NDArray[np.float64]] | None] = _Notes()
        self._waiting: _Notes[State] = _Notes()
        self._images: _Notes[tuple[float, bytes]] = _Notes()
        self._shown: _Notes[Pictures] = _Notes()
        self._truth: _Notes[Point] = _Notes()
        self._gnss: _Notes[Point] = _Notes()
        self._flight = self._next = self._start_ns = 0
        self._heard_s = -math.inf
        self.words = ""

    # What is heard

    def add_answer(self, stamp_ns: int, answer: tuple[Point, NDArray[np.float64]] | None) -> None:
        """Position and covariance of a frame, or none; it counts when the state of that frame is known."""
        self._answers.add(stamp_ns, answer)
        if (state := self._waiting.take(stamp_ns)) is not None:
            self.add_state(stamp_ns, state)

    def add_image(self, stamp_ns: int, jpeg: bytes = b"") -> None:
        """A frame came now; with a picture of it, or without."""
        self._images.add(stamp_ns, (time.monotonic(), jpeg))

    def add_pictures(self, stamp_ns: int, pictures: Pictures) -> None:
        """What the node itself shows of a frame, before or after it says its state; the index does not matter."""
        self._shown.add(stamp_ns, pictures)
        with self._lock:
            for back, moment in enumerate(islice(reversed(self._moments), NOTES), start=1):
                if moment.stamp_ns == stamp_ns:
                    self._keep(replace(pictures, index=self._next - back))

    def add_truth(self, stamp_ns: int, position: Point) -> None:
        """Where the drone really was, in a simulation."""
        self._truth.add(stamp_ns, position)

    def add_gnss(self, stamp_ns: int, position: Point) -> None:
        """Where GNSS has it."""
        self._gnss.add(stamp_ns, position)

    def add_state(self, stamp_ns: int, state: State) -> None:
        """What the node said of a frame: this makes it a moment, when its position has come too if it has one."""
        if not state.reason and stamp_ns not in self._answers:
            self._waiting.add(stamp_ns, state)  # two topics may overtake each other
            return
        answer, image = self._answers.at(stamp_ns), self._images.at(stamp_ns)
        moment = Moment(
            stamp_ns,
            state.state,
            state.reason,
            truth=self._truth.at(stamp_ns, TRUTH_NS),
            gnss=self._gnss.at(stamp_ns, GNSS_NS),
            z=state.z,
            confidence=state.confidence,
            latency_ms=1000.0 * (time.monotonic() - image[0]) if image else math.nan,
        )
        if answer is not None:
            moment = replace(moment, position=answer[0], covariance=answer[1])
        shown = self._shown.at(stamp_ns)
        if shown is None and image and image[1]:
            shown = Pictures(0, image[1], map=self._map_at(answer[0]) if answer is not None else b"")
        with self._lock:
            if not self._next or stamp_ns < self._moments[-1].stamp_ns - BACKWARDS_NS:
                self._begin(stamp_ns)
            self._moments.append(moment)
            self._next += 1
            if shown is not None:
                self._keep(replace(shown, index=self._next - 1))
            self._heard_s = time.monotonic()

    def begin(self) -> None:
        """What comes now is another flight."""
        with self._lock:
            self._begin(0)

    @property
    def counts(self) -> dict[str, int]:
        """Frames that are kept, and how many of them got a position."""
        with self._lock:
            placed = sum(moment.position is not None for moment in self._moments)
            return {"frames": len(self._moments), "positions": placed}

    @property
    def summary(self) -> str:
        """The flight in one line."""
        counts = self.counts
        return f"{counts['positions']} of the last {counts['frames']} frames got a position"

    # What the page asks

    def since(self, flight: int, number: int) -> dict[str, Any]:
        """Moments from this number on, or all that are kept if the page knows another flight."""
        with self._lock:
            oldest = self._next - len(self._moments)
            first = min(max(number, oldest), self._next) if flight == self._flight else oldest
            moments = list(self._moments)[first - oldest :]
            pictures = [picture for number, picture in self._pictures.items() if number >= oldest]
            known = self._flight, self._next, self._start_ns
            silent_s = time.monotonic() - self._heard_s
        return {
            "flight": known[0],
            "first": first,
            "next": known[1],
            "frames": columns_of(moments, self._origin, known[2]),
            "pictures": [
                {"number": one.index, "kinds": [kind for kind in KINDS if getattr(one, kind)]} for one in pictures
            ],
            "silent_s": round(silent_s, 1) if math.isfinite(silent_s) else None,
            "words": self.words,
        }

    def picture(self, flight: int, number: int, kind: str) -> bytes:
        """JPEG of a moment; empty if there is none."""
        with self._lock:
            pictures = self._pictures.get(number) if flight == self._flight else None
        return getattr(pictures, kind) if pictures is not None and kind in KINDS else b""

    def _begin(self, stamp_ns: int) -> None:
        self._moments.clear()
        self._pictures.clear()
        self._flight += 1
        self._next, self._start_ns = 0, stamp_ns

    def _keep(self, pictures: Pictures) -> None:
        """One more picture; when there are too many every second one goes."""
        self._pictures[pictures.index] = pictures
        kept = [number for number in self._pictures if number >= self._next - len(self._moments)]
        if len(kept) > self._most_pictures:
            kept = kept[::2]
        self._pictures = {number: self._pictures[number] for number in kept}


class _Notes(Generic[Value]):
    """The newest notes of one kind, by their stamps."""

    def __init__(self) -> None:
        self._notes: OrderedDict[int, Value] = OrderedDict()

    def add(self, stamp_ns: int, value: Value) -> None:
        """One more; the oldest goes."""
        self._notes[stamp_ns] = value
        if len(self._notes) > NOTES:
            self._notes.popitem(last=False)

    def __contains__(self, stamp_ns: int) -> bool:
        return stamp_ns in self._notes

    def take(self, stamp_ns: int) -> Value | None:
        """The note of this very moment, which is needed no longer."""
        return self._notes.pop(stamp_ns, None)

    def at(self, stamp_ns: int, within_ns: int = 0) -> Value | None:
        """The note nearest in time, if it is near enough."""
        nearest = min(self._notes, key=lambda noted_ns: abs(noted_ns - stamp_ns), default=None)
        return self._notes[nearest] if nearest is not None and abs(nearest - stamp_ns) <= within_ns else None
