"""Missions written one after the other within a budget of disk, and what is told of them meanwhile."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from aerial_vpr_cl.errors import AerialVprError, MissionError
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.mission.gnss import Fix, GnssGates
from aerial_vpr_cl.mission.open_mission import ImageSource, Recording, encode_frame
from aerial_vpr_cl.mission.recorder_settings import RecorderSettings
from aerial_vpr_cl.mission.sensor_settings import SensorSettings

log = logging.getLogger(__name__)

OFF, RECORDING, FAILED = "off", "recording", "failed"

BAD_IMAGE = "bad image"
BAD_STAMP = "bad stamp"

END_OF_TIME_NS = 2**31 * 10**9
"""ROS counts seconds from 1970 in 31 bits, and a bag knows no time before."""


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


class ImageItem(NamedTuple):
    """A frame."""

    stamp_ns: int
    source: ImageSource


class FixItem(NamedTuple):
    """A fix, and the NavSatFix it came in."""

    fix: Fix
    serialized: bytes | None
    is_caught: bool = False  # the receiver was caught in a lie


class ReadingItem(NamedTuple):
    """What an instrument says, as it came."""

    topic: str
    message_type: str
    stamp_ns: int
    data: bytes


Item = ImageItem | FixItem | ReadingItem


class BudgetedMissions:
    """Used by one thread, but for `status` and `count_lost`."""

    def __init__(
        self, missions_dir: Path, grid: Grid, gates: GnssGates, sensors: SensorSettings | None, most_pixels: int
    ) -> None:
        self.status = RecorderStatus()
        self._missions_dir = missions_dir
        self._grid = grid
        self._gates = gates
        self._sensors = sensors
        self._most_pixels = most_pixels
        self._recording: Recording | None = None
        self._others_bytes = 0
        self._counting = threading.Lock()
        self._lost: Counter[str] = Counter()

    @property
    def is_open(self) -> bool:
        """Whether there is a mission to write into."""
        return self._recording is not None

    def count_lost(self, reason: str) -> None:
        """Something was offered and will not be in the mission; any thread may say so."""
        with self._counting:
            self._lost[reason] += 1

    def begin(self, settings: RecorderSettings) -> str:
        """Name of the mission that is open from now on; one that is open already goes on."""
        if self._recording is None:
            self._others_bytes = _size_of(self._missions_dir)
            if self.is_budget_used(settings):
                raise self._problem(
                    f"the missions waiting in {self._missions_dir} take {self._others_bytes / 1e6:.0f} MB, and "
                    f"recording.budget_mb is {settings.budget_mb:.0f}; adapt to them or raise the budget"
                )
            try:
                self._recording = Recording(
                    self._missions_dir, self._grid, self._gates, modality=settings.modality, sensors=self._sensors
                )
            except (OSError, AerialVprError) as error:
                raise self._problem(f"{self._missions_dir}: recording cannot begin: {error}") from error
            log.info("recording mission %s", self._recording.name)
        self._report(self._recording)
        return self._recording.name

    def write(self, item: Item, settings: RecorderSettings) -> None:
        """Write into the open mission."""
        recording = self._recording
        assert recording is not None
        recording.spacing_m = settings.spacing_m
        stamp_ns = item.fix.stamp_ns if isinstance(item, FixItem) else item.stamp_ns
        if not 0 <= stamp_ns < END_OF_TIME_NS:
            self.count_lost(BAD_STAMP)
        elif isinstance(item, FixItem):
            recording.add_fix(item.fix, item.serialized, is_caught=item.is_caught)
        elif isinstance(item, ReadingItem):
            recording.add_reading(*item)
        else:
            try:
                encoded = encode_frame(item.source, settings.size_px, settings.jpeg_quality, self._most_pixels)
            except MissionError:
                self.count_lost(BAD_IMAGE)
            else:
                recording.add_frame(item.stamp_ns, encoded)
        self._report(recording)

    def is_budget_used(self, settings: RecorderSettings) -> bool:
        """Whether all waiting missions together, with the open one, take the space they may."""
        written = self._recording.bytes_written if self._recording is not None else 0
        return self._others_bytes + written >= settings.budget_mb * 1e6

    def finish(self) -> Path | None:
        """Close the open mission; its bag, whole and durable, or None if there is none with a frame."""
        recording, self._recording = self._recording, None
        if recording is None:
            return None
        try:
            path = recording.finish()
        finally:
            with self._counting:
                self._lost.clear()
        self.status = RecorderStatus(
            OFF, path.name if path else "", recording.frames, recording.without_fix, 0.0, dict(recording.refused)
        )
        log.info("mission %s: %d frames", path or recording.name, recording.frames)
        return path

    def end_for_budget(self, settings: RecorderSettings) -> None:
        """Close the open mission, as there is no more space for it."""
        self.finish()
        self._problem(f"recording ended: the budget of {settings.budget_mb:.0f} MB is used up", state=OFF)

    def fail(self, error: Exception) -> None:
        """The disk is full or gone: what was written is kept."""
        try:
            self.finish()
        except Exception:
            log.exception("the mission could not be closed")
        self._problem(f"recording ended: {error}")

    def _report(self, recording: Recording) -> None:
        with self._counting:
            refused = dict(recording.refused + self._lost)
        size_mb = recording.bytes_written / 1e6
        self.status = RecorderStatus(
            RECORDING, recording.name, recording.frames, recording.without_fix, size_mb, refused
        )

    def _problem(self, words: str, state: str = FAILED) -> MissionError:
        log.error("%s", words)
        self.status = RecorderStatus(state, problem=words)
        return MissionError(words)


def _size_of(folder: Path) -> int:
    """Bytes of all files below a folder; a learner may be deleting some of them meanwhile."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += (Path(root) / name).stat().st_size
    return total
