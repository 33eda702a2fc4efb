"""The recorder of a flight: what is worth learning from, written by a thread of its own within a budget of disk."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections import Counter, deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from aerial_vpr_cl.errors import AerialVprError, MissionError
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.images import MOST_PIXELS
from aerial_vpr_cl.mission.gnss import Fix, GnssGates, fault_of
from aerial_vpr_cl.mission.open_mission import ImageSource, Recording, encode_frame, recover
from aerial_vpr_cl.mission.readings import CameraReading, OdometryReading, Reading
from aerial_vpr_cl.mission.recorder_settings import AUTO, NEVER, RecorderSettings
from aerial_vpr_cl.mission.sensor_messages import TOPICS
from aerial_vpr_cl.mission.sensor_messages import serialized as serialized_reading
from aerial_vpr_cl.mission.sensor_settings import SensorSettings
from aerial_vpr_cl.mission.speed import FlightDetector
from aerial_vpr_cl.mission.thinning import ReadingThinner

log = logging.getLogger(__name__)

OFF, RECORDING, FAILED = "off", "recording", "failed"

BAD_IMAGE = "bad image"
BAD_STAMP = "bad stamp"
TOO_MANY = "writer too slow"

MOST_IMAGES = 8
"""Images that may wait for the writer; more are dropped and counted, so that a slow disk costs frames, not memory."""
MOST_WAITING_FIXES = 1000
MOST_WAITING_READINGS = 1000
FIXES_BEFORE = 50
"""Fixes from before the start that are put at the head of a mission, so that its first frames lie between two."""
END_OF_TIME_NS = 2**31 * 10**9
"""ROS counts seconds from 1970 in 31 bits, and a bag knows no time before."""
LOOK_S = 0.5
"""How often an idle writer looks whether fixes or odometry still come."""
RATE_TOLERANCE = 0.95
"""A camera's clock jitters: a frame that comes this share of the period after the last one is in time."""


@dataclass(frozen=True)
class RecorderStatus:
    """What the recorder does, for people."""

    state: str = OFF
    mission: str = ""
    frames: int = 0
    without_fix: int = 0  # of these frames
    megabytes: float = 0.0
    refused: dict[str, int] = field(default_factory=dict)
    problem: str = ""


class _Image(NamedTuple):
    stamp_ns: int
    source: ImageSource


class _FixItem(NamedTuple):
    fix: Fix
    serialized: bytes | None


class _ReadingItem(NamedTuple):
    topic: str
    message_type: str
    stamp_ns: int
    data: bytes


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
        self._missions_dir = Path(missions_dir)
        self._grid = grid
        self._gates = gates or GnssGates()
        self._sensors = sensors
        self._most_pixels = most_pixels
        self._detector = FlightDetector(grid.projection, self._gates)
        self._held_off = False  # the operator stopped, or it failed: auto waits for the next take-off
        self._wanted = False
        self._has_flown = False  # since this recording began: only then does auto take standing still for landing
        self._last_sign_s = math.inf  # monotonic time of the last believable fix or odometry
        self._last_taken_ns: int | None = None
        self._thinner = ReadingThinner()
        self._calibration: _ReadingItem | None = None  # some cameras send it once, long before
        self._before: deque[_FixItem] = deque(maxlen=FIXES_BEFORE)
        self._inbox: deque[_Image | _FixItem | _ReadingItem | _Start | _Stop | None] = deque()
        self._waiting: Counter[type] = Counter()
        self._changed = threading.Condition()
        self._lost: Counter[str] = Counter()
        self._recording: Recording | None = None
        self._others_bytes = 0
        self._status = RecorderStatus()
        try:
            recover(self._missions_dir)
        except OSError as error:  # no reason not to fly
            log.error("%s: recordings of a killed recorder stay as they are: %s", self._missions_dir, error)
        self._thread = threading.Thread(target=self._run, name="mission recorder", daemon=True)
        self._thread.start()

    @property
    def status(self) -> RecorderStatus:
        """A snapshot."""
        return self._status

    @property
    def is_recording(self) -> bool:
        """Whether frames are wanted now."""
        return self._wanted

    def start(self) -> Future[str]:
        """Begin a mission; the future gives its name. One that runs already goes on."""
        if self.settings.mode == NEVER:
            raise MissionError("recording is switched off; set recording.mode to 'service' or 'auto'")
        self._held_off = False
        done: Future[str] = Future()
        with self._changed:
            self._wanted, self._has_flown, self._last_taken_ns = True, False, None
            self._thinner = ReadingThinner()
            self._inbox.append(_Start(done))
            if self._calibration is not None:
                self._put(self._calibration)
            self._inbox.extend(self._before)
            self._waiting[_FixItem] += len(self._before)
            self._before.clear()
            self._changed.notify()
        return done

    def stop(self) -> Future[Path | None]:
        """End the mission; the future gives its bag, whole and durable, or None if it held no frame."""
        self._held_off = True
        done: Future[Path | None] = Future()
        with self._changed:
            self._wanted = False
            self._inbox.append(_Stop(done))
            self._changed.notify()
        return done

    def offer_image(self, stamp_ns: int, source: ImageSource) -> None:
        """Offer a frame: taken if a mission is being recorded and the rate allows."""
        if not self._wanted:
            return
        rate_hz = self.settings.rate_hz
        with self._changed:
            last_ns = self._last_taken_ns
            if rate_hz > 0.0 and last_ns is not None and 0 <= stamp_ns - last_ns < RATE_TOLERANCE * 1e9 / rate_hz:
                return
            if self._waiting[_Image] >= MOST_IMAGES:
                self._lost[TOO_MANY] += 1
                return
            self._last_taken_ns = stamp_ns
            self._put(_Image(stamp_ns, source))

    def offer_fix(self, fix: Fix, serialized: bytes | None = None) -> None:
        """Offer a fix, also while nothing is recorded; `serialized` is the NavSatFix it came in."""
        item = _FixItem(fix, serialized)
        if not fault_of(fix, self._gates):
            self._last_sign_s = time.monotonic()
        if self.settings.mode == AUTO:
            limits = self.settings.min_speed_mps, self.settings.stop_after_s
            self._start_or_stop(self._detector.add(fix, *limits))
        with self._changed:
            if not self._wanted:
                self._before.append(item)
            elif self._waiting[_FixItem] < MOST_WAITING_FIXES:
                self._put(item)

    def offer_reading(self, reading: Reading, message_type: str = "", serialized: bytes = b"") -> None:
        """Offer what an instrument says; `serialized` is the message of `message_type` that it came in."""
        if isinstance(reading, OdometryReading):
            self._last_sign_s = time.monotonic()
        if self.settings.mode == AUTO and isinstance(reading, OdometryReading):
            limits = self.settings.min_speed_mps, self.settings.stop_after_s
            self._start_or_stop(self._detector.add_odometry(reading, *limits))
        if not (self._wanted or isinstance(reading, CameraReading)):
            return
        with self._changed:
            if not self._thinner.wants(reading, self.settings.sensor_rate_hz):
                return
            message_type, data = (message_type, serialized) if serialized else serialized_reading(reading)
            item = _ReadingItem(TOPICS[type(reading)], message_type, reading.stamp_ns, data)
            if isinstance(reading, CameraReading):
                self._calibration = item
            if self._wanted and self._waiting[_ReadingItem] < MOST_WAITING_READINGS:
                self._put(item)

    def close(self, limit_s: float = 30.0) -> None:
        """Finish the mission, if one is being recorded, and end the thread."""
        with self._changed:
            self._wanted = False
            self._inbox.append(None)
            self._changed.notify()
        self._thread.join(limit_s)

    def _put(self, item: _Image | _FixItem | _ReadingItem) -> None:
        self._inbox.append(item)
        self._waiting[type(item)] += 1
        self._changed.notify()

    def _start_or_stop(self, flying: bool | None) -> None:
        if flying is True:
            if not self._wanted and not self._held_off:
                log.info("recording starts by itself: the drone flies")
                self.start()
            self._has_flown = True
        elif flying is False:
            if self._wanted and self._has_flown:
                log.info("recording stops by itself: the drone stands")
                self.stop()
            self._held_off = False  # the next take-off is recorded again

    def _stop_without_signs(self) -> None:
        """A receiver that is switched off after landing tells nobody that the drone stands; odometry may."""
        silent_s, limit_s = time.monotonic() - self._last_sign_s, self.settings.stop_after_s
        if self.settings.mode == AUTO and self._wanted and self._has_flown and silent_s > limit_s:
            log.info("recording stops by itself: nothing tells any more whether the drone flies")
            self.stop()
            self._held_off = False

    # The writer's thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._stop_without_signs()
                while not self._inbox:
                    self._changed.wait(LOOK_S)
                    self._stop_without_signs()
                item = self._inbox.popleft()
                self._waiting[type(item)] -= 1
            try:
                self._handle(item)
            except Exception as error:
                self._fail(error)
            if item is None:
                return

    def _handle(self, item: _Image | _FixItem | _ReadingItem | _Start | _Stop | None) -> None:
        if isinstance(item, _Start):
            _fulfil(item.done, self._begin)
        elif isinstance(item, _Stop):
            _fulfil(item.done, self._finish)
        elif item is None:
            self._finish()
        elif self._recording is not None:
            self._write(self._recording, item)

    def _begin(self) -> str:
        if self._recording is None:
            self._others_bytes = _size_of(self._missions_dir)
            if self._others_bytes >= self.settings.budget_mb * 1e6:
                self._wanted, self._held_off = False, True
                raise self._problem(
                    f"the missions waiting in {self._missions_dir} take {self._others_bytes / 1e6:.0f} MB, and "
                    f"recording.budget_mb is {self.settings.budget_mb:.0f}; adapt to them or raise the budget"
                )
            try:
                self._recording = Recording(
                    self._missions_dir, self._grid, self._gates, modality=self.settings.modality, sensors=self._sensors
                )
            except (OSError, AerialVprError) as error:
                self._wanted, self._held_off = False, True
                raise self._problem(f"{self._missions_dir}: recording cannot begin: {error}") from error
            log.info("recording mission %s", self._recording.name)
        self._report(self._recording)
        return self._recording.name

    def _write(self, recording: Recording, item: _Image | _FixItem | _ReadingItem) -> None:
        settings = self.settings
        recording.spacing_m = settings.spacing_m
        stamp_ns = item.fix.stamp_ns if isinstance(item, _FixItem) else item.stamp_ns
        if not 0 <= stamp_ns < END_OF_TIME_NS:
            with self._changed:
                self._lost[BAD_STAMP] += 1
        elif isinstance(item, _FixItem):
            recording.add_fix(*item)
        elif isinstance(item, _ReadingItem):
            recording.add_reading(*item)
        else:
            try:
                encoded = encode_frame(item.source, settings.size_px, settings.jpeg_quality, self._most_pixels)
            except MissionError:
                with self._changed:
                    self._lost[BAD_IMAGE] += 1
            else:
                recording.add_frame(item.stamp_ns, encoded)
        self._report(recording)
        if self._others_bytes + recording.bytes_written >= settings.budget_mb * 1e6:
            self._held_off, self._wanted = True, False
            self._finish()
            self._problem(f"recording ended: the budget of {settings.budget_mb:.0f} MB is used up", state=OFF)

    def _finish(self) -> Path | None:
        recording, self._recording = self._recording, None
        if recording is None:
            return None
        try:
            path = recording.finish()
        finally:
            with self._changed:
                self._lost.clear()
        self._status = RecorderStatus(
            OFF, path.name if path else "", recording.frames, recording.without_fix, 0.0, dict(recording.refused)
        )
        log.info("mission %s: %d frames", path or recording.name, recording.frames)
        return path

    def _fail(self, error: Exception) -> None:
        """The disk is full or gone: what was written is kept, and nothing more is tried until the next take-off."""
        self._held_off, self._wanted = True, False
        try:
            self._finish()
        except Exception:
            log.exception("the mission could not be closed")
        self._problem(f"recording ended: {error}")

    def _report(self, recording: Recording) -> None:
        with self._changed:
            refused = dict(recording.refused + self._lost)
        size_mb = recording.bytes_written / 1e6
        self._status = RecorderStatus(
            RECORDING, recording.name, recording.frames, recording.without_fix, size_mb, refused
        )

    def _problem(self, words: str, state: str = FAILED) -> MissionError:
        log.error("%s", words)
        self._status = RecorderStatus(state, problem=words)
        return MissionError(words)


def _fulfil(done: Future, work: object) -> None:
    try:
        done.set_result(work())  # type: ignore[operator]
    except Exception as error:
        done.set_exception(error)
        if not isinstance(error, AerialVprError):
            raise


def _size_of(folder: Path) -> int:
    """Bytes of all files below a folder; a learner may be deleting some of them meanwhile."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += (Path(root) / name).stat().st_size
    return total
