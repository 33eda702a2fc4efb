"""The recorder of a flight: takes what is worth learning from without waiting, and has a thread write it."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

from aerial_vpr_cl.errors import AerialVprError, MissionError
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.images import MOST_PIXELS
from aerial_vpr_cl.mission.auto_recording import AutoRecording
from aerial_vpr_cl.mission.budgeted_missions import (
    BudgetedMissions,
    FixItem,
    ImageItem,
    Item,
    ReadingItem,
    RecorderStatus,
)
from aerial_vpr_cl.mission.gnss import Fix, GnssGates
from aerial_vpr_cl.mission.open_mission import ImageSource, recover
from aerial_vpr_cl.mission.readings import CameraReading, Reading
from aerial_vpr_cl.mission.recorder_settings import NEVER, RecorderSettings
from aerial_vpr_cl.mission.sensor_messages import TOPICS
from aerial_vpr_cl.mission.sensor_messages import serialized as serialized_reading
from aerial_vpr_cl.mission.sensor_settings import SensorSettings
from aerial_vpr_cl.mission.thinning import ReadingThinner

log = logging.getLogger(__name__)

TOO_MANY = "writer too slow"

MOST_IMAGES = 8
"""Images that may wait for the writer; more are dropped and counted, so that a slow disk costs frames, not memory."""
MOST_WAITING_FIXES = 1000
MOST_WAITING_READINGS = 1000
FIXES_BEFORE = 50
"""Fixes from before the start that are put at the head of a mission, so that its first frames lie between two."""
LOOK_S = 0.5
"""How often an idle writer looks whether anything still tells of flight."""
RATE_TOLERANCE = 0.95
"""A camera's clock jitters: a frame that comes this share of the period after the last one is in time."""


class _Start(NamedTuple):
    done: Future[str]


class _Stop(NamedTuple):
    done: Future[Path | None]


class MissionRecorder:
    """Takes frames, fixes and readings from any thread without ever waiting; a thread of its own gates and writes."""

    def __init__(
        self,
        missions_dir: Path,
        grid: Grid,
        settings: RecorderSettings | None = None,
        gates: GnssGates | None = None,
        sensors: SensorSettings | None = None,
        most_pixels: int = MOST_PIXELS,
    ) -> None:
        """`sensors` are noted in the missions, so that their readers see what the drone sees."""
        self.settings = settings or RecorderSettings()  # may be replaced while recording
        missions_dir, gates = Path(missions_dir), gates or GnssGates()
        self._auto = AutoRecording(grid.projection, gates)
        self._missions = BudgetedMissions(missions_dir, grid, gates, sensors, most_pixels)
        self._wanted = False
        self._last_taken_ns: int | None = None
        self._thinner = ReadingThinner()
        self._calibration: ReadingItem | None = None  # some cameras send it once, long before
        self._before: deque[FixItem] = deque(maxlen=FIXES_BEFORE)
        self._inbox: deque[Item | _Start | _Stop | None] = deque()
        self._waiting: Counter[type] = Counter()
        self._changed = threading.Condition()
        try:
            recover(missions_dir)
        except OSError as error:  # no reason not to fly
            log.error("%s: recordings of a killed recorder stay as they are: %s", missions_dir, error)
        self._thread = threading.Thread(target=self._run, name="mission recorder", daemon=True)
        self._thread.start()

    @property
    def status(self) -> RecorderStatus:
        """A snapshot."""
        return self._missions.status

    @property
    def is_recording(self) -> bool:
        """Whether frames are wanted now."""
        return self._wanted

    def start(self) -> Future[str]:
        """Begin a mission; the future gives its name. One that runs already goes on."""
        if self.settings.mode == NEVER:
            raise MissionError("recording is switched off; set recording.mode to 'service' or 'auto'")
        self._auto.obey_start()
        return self._start()

    def stop(self) -> Future[Path | None]:
        """End the mission; the future gives its bag, whole and durable, or None if it held no frame."""
        self._auto.hold_off()
        return self._stop()

    def offer_image(self, stamp_ns: int, source: ImageSource) -> None:
        """Offer a frame: taken if a mission is being recorded and the rate allows."""
        if not self._wanted:
            return
        rate_hz = self.settings.rate_hz
        with self._changed:
            last_ns = self._last_taken_ns
            if rate_hz > 0.0 and last_ns is not None and 0 <= stamp_ns - last_ns < RATE_TOLERANCE * 1e9 / rate_hz:
                return
            if self._waiting[ImageItem] >= MOST_IMAGES:
                self._missions.count_lost(TOO_MANY)
                return
            self._last_taken_ns = stamp_ns
            self._put(ImageItem(stamp_ns, source))

    def offer_fix(self, fix: Fix, serialized: bytes | None = None, *, is_caught: bool = False) -> None:
        """Offer a fix, also while nothing is recorded; `serialized` is the NavSatFix it came in.

        Those of a receiver that `is_caught` in a lie are written, but no frame is left out for what they say.
        """
        item = FixItem(fix, serialized, is_caught)
        self._begin_or_end(self._auto.add_fix(fix, self.settings, self._wanted))
        with self._changed:
            if not self._wanted:
                self._before.append(item)
            elif self._waiting[FixItem] < MOST_WAITING_FIXES:
                self._put(item)

    def offer_reading(self, reading: Reading, message_type: str = "", serialized: bytes = b"") -> None:
        """Offer what an instrument says; `serialized` is the message of `message_type` that it came in."""
        self._begin_or_end(self._auto.add_reading(reading, self.settings, self._wanted))
        if not (self._wanted or isinstance(reading, CameraReading)):
            return
        with self._changed:
            if not self._thinner.wants(reading, self.settings.sensor_rate_hz):
                return
            message_type, data = (message_type, serialized) if serialized else serialized_reading(reading)
            item = ReadingItem(TOPICS[type(reading)], message_type, reading.stamp_ns, data)
            if isinstance(reading, CameraReading):
                self._calibration = item
            if self._wanted and self._waiting[ReadingItem] < MOST_WAITING_READINGS:
                self._put(item)

    def offer_landed(self, landed: bool) -> None:
        """Offer the autopilot's word on whether the drone stands on the ground."""
        self._begin_or_end(self._auto.set_landed(landed, self.settings, self._wanted))

    def close(self, limit_s: float = 30.0) -> None:
        """Finish the mission, if one is being recorded, and end the thread."""
        with self._changed:
            self._wanted = False
            self._inbox.append(None)
            self._changed.notify()
        self._thread.join(limit_s)

    def _start(self) -> Future[str]:
        done: Future[str] = Future()
        with self._changed:
            self._wanted, self._last_taken_ns = True, None
            self._thinner = ReadingThinner()
            self._inbox.append(_Start(done))
            if self._calibration is not None:
                self._put(self._calibration)
            self._inbox.extend(self._before)
            self._waiting[FixItem] += len(self._before)
            self._before.clear()
            self._changed.notify()
        return done

    def _stop(self) -> Future[Path | None]:
        done: Future[Path | None] = Future()
        with self._changed:
            self._wanted = False
            self._inbox.append(_Stop(done))
            self._changed.notify()
        return done

    def _begin_or_end(self, wanted: bool | None) -> None:
        if wanted is True:
            self._start()
        elif wanted is False:
            self._stop()

    def _put(self, item: Item) -> None:
        self._inbox.append(item)
        self._waiting[type(item)] += 1
        self._changed.notify()

    # The writer's thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._stop_if_silent()
                while not self._inbox:
                    self._changed.wait(LOOK_S)
                    self._stop_if_silent()
                item = self._inbox.popleft()
                self._waiting[type(item)] -= 1
            try:
                self._handle(item)
            except Exception as error:
                self._hold_off()
                self._missions.fail(error)
            if item is None:
                return

    def _stop_if_silent(self) -> None:
        if self._wanted and self._auto.is_silent(self.settings):
            self._stop()

    def _handle(self, item: Item | _Start | _Stop | None) -> None:
        if isinstance(item, _Start):
            _fulfil(item.done, self._begin)
        elif isinstance(item, _Stop):
            _fulfil(item.done, self._missions.finish)
        elif item is None:
            self._missions.finish()
        elif self._missions.is_open:
            self._missions.write(item, self.settings)
            if self._missions.is_budget_used(self.settings):
                self._hold_off()
                self._missions.end_for_budget(self.settings)

    def _begin(self) -> str:
        try:
            return self._missions.begin(self.settings)
        except AerialVprError:
            self._hold_off()
            raise

    def _hold_off(self) -> None:
        """Nothing more is tried until the next take-off."""
        self._wanted = False
        self._auto.hold_off()


def _fulfil(done: Future[Any], work: Callable[[], Any]) -> None:
    try:
        done.set_result(work())
    except Exception as error:
        done.set_exception(error)
        if not isinstance(error, AerialVprError):
            raise
