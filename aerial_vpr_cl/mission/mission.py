"""Reading a flight: the frames of a bag that have a position worth learning from, or all of them."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.errors import MissionError, SettingsError
from aerial_vpr_cl.geo.grid import NO_CLASS, Grid
from aerial_vpr_cl.geo.terrain import Terrain
from aerial_vpr_cl.mission.bag_metadata import GATES_KEY, MODALITY_KEY, NAME_KEY, clean_text
from aerial_vpr_cl.mission.bag_reader import Bag, facts_of, faults_named, open_bag
from aerial_vpr_cl.mission.bag_sensors import BagSensors
from aerial_vpr_cl.mission.bag_writer import MODALITIES, TRUTH_TOPIC
from aerial_vpr_cl.mission.frames import DAMAGED_IMAGE, DUPLICATE, Frame, read_frames
from aerial_vpr_cl.mission.gnss import GAP, REASONS, Fix, GnssGates, Track
from aerial_vpr_cl.mission.messages import NAV_SAT_FIX, deserialize
from aerial_vpr_cl.mission.sensor_settings import SensorSettings
from aerial_vpr_cl.mission.situation import Situation
from aerial_vpr_cl.mission.topics import fix_topic_of, has_fix_topic, image_topic_of, truth_topic_of
from aerial_vpr_cl.settings import load_settings

log = logging.getLogger(__name__)

_WORDS = {
    **REASONS,
    DAMAGED_IMAGE: "the image could not be decoded",
    DUPLICATE: "another frame has the same stamp",
}


@dataclass(frozen=True, eq=False)
class Mission:
    """The usable frames of a flight in time order, and how many were refused for what reason."""

    path: Path
    name: str
    modality: str
    frames: tuple[Frame, ...] = field(repr=False)
    refused: dict[str, int] = field(default_factory=dict)
    begins_ns: int = field(default=0, kw_only=True)  # stamp of its first image, whether that can be used or not

    def __len__(self) -> int:
        return len(self.frames)

    @cached_property
    def stamps_ns(self) -> NDArray[np.int64]:
        """(n,) times of the frames."""
        return np.array([frame.stamp_ns for frame in self.frames], np.int64)

    @cached_property
    def positions(self) -> NDArray[np.float64]:
        """(n, 2) easting and northing of the frames."""
        return np.array([frame.position for frame in self.frames], np.float64).reshape(-1, 2)

    def labels(self, grid: Grid) -> NDArray[np.int64]:
        """(n,) classes of the frames."""
        return grid.class_of(self.positions)


@dataclass(frozen=True, eq=False)
class Flight(Mission):
    """All frames of a flight in time order: where their position is not known it is NaN."""

    fixes: tuple[Fix, ...] = field(default=(), repr=False)  # what GNSS said, good or bad, in time order
    positions_from: str = ""  # truth, gnss, or nothing

    def over(self, grid: Grid) -> Mission:
        """The frames whose position is known and on the map."""
        return self._placed(self.positions, grid)

    def by_gnss(self, grid: Grid) -> Mission:
        """The frames where GNSS put them, as a learner sees them: without those it said nothing good of."""
        return self._placed(Track(self.fixes, gates_of(self.path), grid.projection).at(self.stamps_ns, grid)[0], grid)

    def _placed(self, positions: NDArray[np.float64], grid: Grid) -> Mission:
        known = np.flatnonzero(np.isfinite(positions).all(axis=1))
        known = known[grid.class_of(positions[known]) != NO_CLASS]
        frames = tuple(replace(self.frames[row], position=positions[row]) for row in known)
        return Mission(self.path, self.name, self.modality, frames)


@faults_named
def read_mission(
    path: str | Path,
    grid: Grid,
    *,
    gates: GnssGates | None = None,
    image_topic: str | None = None,
    fix_topic: str | None = None,
    positions: str = "gnss",
    modality: str | None = None,
    sensors: SensorSettings | None = None,
    terrain: Terrain | None = None,
) -> Mission:
    """Read a rosbag2 into frames with positions; raise MissionError if not one of them can be used.

    Topics are found by type unless they are named. `positions="truth"` takes the simulator's true positions instead of
    the GNSS fixes, for evaluation. `modality`, `sensors` and `gates` override what the bag says about itself.
    """
    if positions not in ("gnss", "truth"):
        raise MissionError(f"{path}: positions '{positions}' are unknown; choose gnss or truth")
    bag = open_bag(path, keep=(NAV_SAT_FIX,))
    image_topic = image_topic_of(bag, image_topic)
    fix_topic = truth_topic_of(bag) if positions == "truth" else fix_topic_of(bag, fix_topic)
    fixes = _fixes(bag, fix_topic)
    track = Track(fixes, gates or gates_of(path), grid.projection)
    told = fixes if positions == "gnss" else _fixes(bag, fix_topic_of(bag)) if has_fix_topic(bag) else []
    instruments = BagSensors(bag, image_topic, sensors, north_deg=grid.north_deg, terrain=terrain, fixes=told)
    frames, refused, stamps = read_frames(bag, image_topic, lambda ns: _place(track, ns, grid), instruments)
    if not frames:
        raise MissionError(_why_none(bag, image_topic, fix_topic, refused, stamps, fixes))
    if refused:
        log.info("%s: %d frames, refused: %s", path, len(frames), _in_words(refused))
    name, noted = mission_facts(path)
    return Mission(bag.path, name, modality or noted, frames, dict(refused), begins_ns=min(stamps))


@faults_named
def read_flight(
    path: str | Path,
    grid: Grid,
    *,
    gates: GnssGates | None = None,
    image_topic: str | None = None,
    fix_topic: str | None = None,
    modality: str | None = None,
    sensors: SensorSettings | None = None,
    terrain: Terrain | None = None,
) -> Flight:
    """Read all frames of a rosbag2, also where GNSS was jammed or the drone was off the map: for localizing them.

    Positions are the simulator's true ones where the bag has them, else those of GNSS where they pass the gates.
    Frames that are tested must not know their places: which terrain lies under them is not used.
    """
    bag = open_bag(path, keep=(NAV_SAT_FIX,))
    image_topic = image_topic_of(bag, image_topic)
    has_truth, has_fixes = bool(bag.counts.get(TRUTH_TOPIC)), fix_topic is not None or has_fix_topic(bag)
    fixes = _fixes(bag, fix_topic_of(bag, fix_topic)) if has_fixes else []
    known = _fixes(bag, TRUTH_TOPIC) if has_truth else fixes
    track = Track(known, gates or gates_of(path), grid.projection)
    instruments = BagSensors(bag, image_topic, sensors, north_deg=grid.north_deg, terrain=terrain, fixes=fixes)
    frames, refused, stamps = read_frames(
        bag, image_topic, lambda ns: (_place(track, ns)[0], ""), instruments, places_are_known=False
    )
    if not frames:
        raise MissionError(f"{path}: none of the images on {image_topic} can be used: {_in_words(refused)}")
    name, noted = mission_facts(path)
    source = "truth" if has_truth else "gnss" if has_fixes else ""
    fixes.sort(key=lambda fix: fix.stamp_ns)
    told = dict(refused), tuple(fixes), source
    return Flight(bag.path, name, modality or noted, frames, *told, begins_ns=min(stamps))


@faults_named
def situations_at(
    path: str | Path,
    grid: Grid,
    positions: Mapping[int, NDArray[np.float64]],
    *,
    image_topic: str | None = None,
    fix_topic: str | None = None,
    terrain: Terrain | None = None,
) -> dict[int, Situation]:
    """What the drone knew at the frames of a bag whose positions, by their stamps, are found by now: over terrain its
    height is that above the ground beneath it."""
    bag = open_bag(path, keep=(NAV_SAT_FIX,))
    image_topic = image_topic_of(bag, image_topic)
    fixes = _fixes(bag, fix_topic_of(bag, fix_topic)) if fix_topic is not None or has_fix_topic(bag) else []
    instruments = BagSensors(bag, image_topic, north_deg=grid.north_deg, terrain=terrain, fixes=fixes)
    nowhere = np.full(2, np.nan)
    frames, _, _ = read_frames(
        bag, image_topic, lambda ns: (positions[ns], "") if ns in positions else (nowhere, GAP), instruments
    )
    return {frame.stamp_ns: frame.situation for frame in frames}


def gates_of(path: str | Path) -> GnssGates:
    """The GNSS gates that a mission was recorded with; the defaults for bags of others."""
    noted = facts_of(path).get(GATES_KEY)
    if noted is None:
        return GnssGates()
    try:
        return load_settings(GnssGates, json.loads(noted))
    except (ValueError, TypeError, SettingsError) as error:
        log.warning("%s: the GNSS gates noted in it cannot be read (%s); the defaults count", path, error)
        return GnssGates()


def mission_facts(path: str | Path) -> tuple[str, str]:
    """Name and modality of a mission without reading it: as its writer noted them, else its file name and "unknown"."""
    facts = facts_of(path)
    modality = facts.get(MODALITY_KEY, "unknown")
    default = Path(path).stem if Path(path).is_file() else Path(path).resolve().name
    return facts.get(NAME_KEY) or clean_text(default), modality if modality in MODALITIES else "unknown"


def _place(track: Track, stamp_ns: int, grid: Grid | None = None) -> tuple[NDArray[np.float64], str]:
    (position,), (reason,) = track.at([stamp_ns], grid)
    return position, reason


def _fixes(bag: Bag, topic: str) -> list[Fix]:
    fixes = []
    for raw in bag.kept.get(topic, []):
        try:
            fixes.append(Fix.from_message(deserialize(raw.data, NAV_SAT_FIX), raw.received_ns))
        except MissionError as error:
            log.warning("%s: a message on %s is left out: %s", bag.path, topic, error)
    return fixes


def _why_none(
    bag: Bag, image_topic: str, fix_topic: str, refused: Counter[str], stamps: list[int], fixes: list[Fix]
) -> str:
    text = f"{bag.path}: none of the {sum(refused.values())} images on {image_topic} can be used with {fix_topic}: "
    text += _in_words(refused)
    times = [fix.stamp_ns for fix in fixes]
    if times and stamps and (min(times) > max(stamps) or max(times) < min(stamps)):
        apart_s = max(min(times) - max(stamps), min(stamps) - max(times)) / 1e9
        return text + f"; their stamps lie {apart_s:.0f} s apart: give camera and GNSS the same clock"
    return text + "; check the receiver, the gates and whether this is the map the flight was over"


def _in_words(refused: Counter[str]) -> str:
    return ", ".join(f"{count} {reason} ({_WORDS[reason]})" for reason, count in refused.most_common() if count)
