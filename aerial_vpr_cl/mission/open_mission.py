"""One mission being recorded: a bag under a hidden name, until it is whole and takes its place among the missions."""

from __future__ import annotations

import fcntl
import logging
import math
import os
import shutil
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.files import fsync_directory
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.image_headers import size_of
from aerial_vpr_cl.images import MOST_PIXELS, decode_compressed
from aerial_vpr_cl.mission.bag_reader import open_bag
from aerial_vpr_cl.mission.bag_writer import MissionWriter
from aerial_vpr_cl.mission.gnss import OUTSIDE_MAP, Fix, GnssGates, Track, fault_of
from aerial_vpr_cl.mission.messages import JPEG_SIGNATURE, NAV_SAT_FIX
from aerial_vpr_cl.mission.sensor_settings import SensorSettings

log = logging.getLogger(__name__)

RECORDING_PREFIX = ".recording-"
TOO_CLOSE = "too close"
MOST_PENDING = 256
MOST_FIXES = 2000
MOST_EARLY = 200
JUST_BEGUN_BYTES = 4096
FOREIGN_NS = 10_000_000_000
"""A reading whose stamp is further than this from the last frame's has another clock; it is filed where it came."""

ImageSource = bytes | Callable[[], bytes | NDArray[np.uint8]]
"""An encoded image, or a function that gives one or (H, W, 3) uint8 RGB: called only if the frame is wanted."""


class Recording:
    """An open mission. A frame waits until the fixes around it are known, and is written unless they say it is useless:
    off the map, or too close to the one before.

    Frames without a believable fix are kept: their labels may come from where the drone finds itself to have been. The
    gates are noted in the bag, and the learner will read it with them. Here jumps are left in: which of two tracks is
    the true one shows only in hindsight, so the reader decides. All fixes are written as they came.
    """

    def __init__(
        self,
        missions_dir: Path,
        grid: Grid,
        gates: GnssGates,
        *,
        modality: str,
        spacing_m: float = 0.0,
        sensors: SensorSettings | None = None,
    ) -> None:
        missions_dir.mkdir(parents=True, exist_ok=True)
        self.name = _free_name(missions_dir)
        self.spacing_m = spacing_m
        self.refused: Counter[str] = Counter()
        self.frames = 0
        self.without_fix = 0  # of these frames
        self._missions_dir = missions_dir
        self._grid = grid
        self._gates = replace(gates, jump_margin_m=math.inf)
        self._pending: deque[tuple[int, bytes]] = deque()
        self._fixes: deque[Fix] = deque(maxlen=MOST_FIXES)
        self._good_ns: deque[int] = deque(maxlen=MOST_FIXES)
        self._now_ns = 0
        self._early: deque[tuple[str, str, int, bytes]] = deque(maxlen=MOST_EARLY)
        self._last_position: NDArray[np.float64] | None = None
        self._hidden = missions_dir / f"{RECORDING_PREFIX}{self.name}"
        self._hidden.mkdir()
        self._lock = _try_lock(self._hidden)  # tells `recover` that the writer is alive
        noted = None if sensors is None else asdict(sensors)
        self._writer = MissionWriter(
            self._hidden / self.name, name=self.name, modality=modality, sensors=noted, gates=asdict(gates)
        )

    @property
    def bytes_written(self) -> int:
        """Size of the bag so far."""
        return self._writer.bytes_written

    def add_fix(self, fix: Fix, serialized: bytes | None = None, *, is_caught: bool = False) -> None:
        """Write a fix, and the frames that now lie between two; `serialized` is the NavSatFix it came in.

        Those of a receiver that `is_caught` in a lie place no frame.
        """
        if serialized is not None:
            self._writer.write_serialized(self._writer.fix_topic, NAV_SAT_FIX, fix.stamp_ns, serialized)
        else:
            variance = None if math.isnan(fix.sigma_m) else fix.sigma_m**2
            self._writer.write_fix(
                fix.stamp_ns, fix.latitude, fix.longitude, fix.altitude, status=fix.status, variance_m2=variance
            )
        if not is_caught:
            self._fixes.append(fix)
            if not fault_of(fix, self._gates):
                self._good_ns.append(fix.stamp_ns)
        self._write_decided()

    def add_frame(self, stamp_ns: int, encoded: bytes) -> None:
        """Take a frame; it is written, or refused, when its fixes are known."""
        self._pending.append((stamp_ns, encoded))
        # The time is that of the last frame, not the latest ever: one stamp from the future must not end the flight.
        self._now_ns = stamp_ns
        while self._early:
            self.add_reading(*self._early.popleft())
        self._write_decided()

    def add_reading(self, topic: str, message_type: str, stamp_ns: int, data: bytes) -> None:
        """Write what an instrument says, as it came; before the first frame nobody knows what time it is."""
        if not self._now_ns:
            self._early.append((topic, message_type, stamp_ns, data))
            return
        is_foreign = abs(stamp_ns - self._now_ns) > FOREIGN_NS
        self._writer.write_serialized(topic, message_type, self._now_ns if is_foreign else stamp_ns, data)

    def finish(self) -> Path | None:
        """Close the bag and give it its name among the missions; None if it holds no frame, then it is deleted."""
        try:
            self._write_decided(last=True)
        except MissionError as error:
            log.error("%s", error)
        try:
            self._writer.close()
        finally:
            path = _publish(self._hidden / self.name, self._missions_dir) if self.frames else None
            shutil.rmtree(self._hidden, ignore_errors=True)
            os.close(self._lock)
        return path

    def _write_decided(self, last: bool = False) -> None:
        """Write or refuse the frames whose fixes are all there, or will not come any more."""
        wait_ns = self._gates.max_gap_s * 1e9
        decided = []
        while self._pending:
            stamp_ns = self._pending[0][0]
            enclosed = len(self._good_ns) > 1 and self._good_ns[-1] >= stamp_ns
            overdue = abs(self._now_ns - stamp_ns) > wait_ns
            if not (enclosed or last or overdue or len(self._pending) > MOST_PENDING):
                break
            decided.append(self._pending.popleft())
        if not decided:
            return
        positions, reasons = Track(self._fixes, self._gates, self._grid.projection).at(
            [stamp_ns for stamp_ns, _ in decided], self._grid
        )
        for (stamp_ns, encoded), position, reason in zip(decided, positions, reasons):
            if not reason and self._is_near(position):
                reason = TOO_CLOSE
            if reason in (TOO_CLOSE, OUTSIDE_MAP):
                self.refused[reason] += 1
                continue
            self._writer.write_image(stamp_ns, encoded)
            self.frames += 1
            if reason:
                self.without_fix += 1
            else:
                self._last_position = position
        oldest_ns = min([stamp_ns for stamp_ns, _ in self._pending], default=self._now_ns) - 2 * wait_ns
        while self._fixes and self._fixes[0].stamp_ns < oldest_ns:
            self._fixes.popleft()
        while self._good_ns and self._good_ns[0] < oldest_ns:
            self._good_ns.popleft()

    def _is_near(self, position: NDArray[np.float64]) -> bool:
        if self._last_position is None or self.spacing_m <= 0.0:
            return False
        return math.hypot(*(position - self._last_position)) < self.spacing_m


def encode_frame(source: ImageSource, size_px: int, quality: int, most_pixels: int = MOST_PIXELS) -> bytes:
    """A frame as JPEG, its longer side at most `size_px`; a JPEG that is small enough stays as it is, bit by bit."""
    given = source if isinstance(source, bytes) else source()
    if isinstance(given, bytes):
        image = decode_compressed(given, most_pixels=most_pixels, enough_px=size_px)
        if given.startswith(JPEG_SIGNATURE) and max(size_of(given)) <= size_px:
            return given
    else:
        image = given
    height, width = image.shape[:2]
    scale = size_px / max(height, width)
    if scale < 1.0:
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        image = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
    whole, data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not whole:
        raise MissionError(f"an image of {width} × {height} pixels cannot be encoded as JPEG")
    return data.tobytes()


def recover(missions_dir: Path) -> list[Path]:
    """Give their names to missions whose recorder was killed; they are whole up to the last chunk."""
    recovered = []
    for hidden in sorted(missions_dir.glob(f"{RECORDING_PREFIX}*")):
        lock = _try_lock(hidden)
        if lock < 0:
            continue  # another process is recording it
        try:
            unreadable = False
            for bag in list(hidden.iterdir()):
                frames = _has_frames(bag)
                if frames:
                    recovered.append(_publish(bag, missions_dir))
                    log.warning("%s: recovered from a recorder that was killed", recovered[-1])
                elif frames is None:
                    log.error("%s: left by a recorder that was killed, and cannot be read; it stays there", bag)
                    unreadable = True
            if not unreadable:
                shutil.rmtree(hidden, ignore_errors=True)
        finally:
            os.close(lock)
    return recovered


def missions_being_recorded(missions_dir: Path) -> list[str]:
    """Names of missions that a living recorder has open; only hidden folders are looked at."""
    names = []
    for hidden in sorted(missions_dir.glob(f"{RECORDING_PREFIX}*")):
        try:
            lock = _try_lock(hidden)
        except OSError:
            continue  # it has just ended
        if lock < 0:
            names.append(hidden.name.removeprefix(RECORDING_PREFIX))
        else:
            os.close(lock)
    return names


def _has_frames(bag: Path) -> bool | None:
    """Whether a bag holds frames; None if it cannot be read, though more was written than the start of a file."""
    try:
        return any("image" in topic for topic in open_bag(bag).counts)
    except MissionError:
        begun = all(file.stat().st_size <= JUST_BEGUN_BYTES for file in bag.glob("*") if file.is_file())
        return False if begun else None


def _publish(bag: Path, missions_dir: Path) -> Path:
    path = missions_dir / bag.name
    bag.rename(path)
    fsync_directory(missions_dir)
    return path


def _free_name(missions_dir: Path) -> str:
    """The time now, which sorts; a second mission of the same second gets a number."""
    start = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H-%M-%S")
    name, number = start, 1
    while (missions_dir / name).exists() or (missions_dir / f"{RECORDING_PREFIX}{name}").exists():
        number += 1
        name = f"{start}-{number}"
    return name


def _try_lock(folder: Path) -> int:
    """A descriptor that holds the lock on a folder, or -1 if another process has it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return -1
    return descriptor
