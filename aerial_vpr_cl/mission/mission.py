"""Reading a mission: the frames of a bag that have a position worth learning from."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.images import check_encoded, decode_compressed, decode_raw, is_kept_as_it_is
from aerial_vpr_cl.mission.bag_metadata import MODALITY_KEY, NAME_KEY
from aerial_vpr_cl.mission.bag_reader import Bag, RawMessage, facts_of, open_bag
from aerial_vpr_cl.mission.bag_writer import MODALITIES, TRUTH_TOPIC
from aerial_vpr_cl.mission.gnss import REASONS, Fix, GnssGates, Track
from aerial_vpr_cl.mission.messages import COMPRESSED_IMAGE, NAV_SAT_FIX, deserialize, stamp_of
from aerial_vpr_cl.mission.topics import fix_topic_of, image_topic_of, truth_topic_of

log = logging.getLogger(__name__)

DAMAGED_IMAGE = "damaged image"
DUPLICATE = "duplicate"
_WORDS = {
    **REASONS,
    DAMAGED_IMAGE: "the image could not be decoded",
    DUPLICATE: "another frame has the same stamp",
}


@dataclass(frozen=True, eq=False)
class Frame:
    """One image of a mission and where it was taken: easting and northing in the grid's metres.

    The image is encoded: JPEG and 8-bit PNG are as they lay in the bag, everything else (raw, 16 bit) became 8-bit RGB
    as `image_decoding` makes it, in a lossless PNG.
    """

    stamp_ns: int
    position: NDArray[np.float64]
    image: bytes = field(repr=False)

    def decode(self) -> NDArray[np.uint8]:
        """The image as (H, W, 3) uint8 RGB."""
        return decode_compressed(self.image)


@dataclass(frozen=True, eq=False)
class Mission:
    """The usable frames of a flight in time order, and how many were refused for what reason."""

    path: Path
    name: str
    modality: str
    frames: tuple[Frame, ...] = field(repr=False)
    refused: dict[str, int] = field(default_factory=dict)

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


def read_mission(
    path: str | Path,
    grid: Grid,
    *,
    gates: GnssGates | None = None,
    image_topic: str | None = None,
    fix_topic: str | None = None,
    positions: str = "gnss",
    modality: str | None = None,
) -> Mission:
    """Read a rosbag2 into frames with positions; raise MissionError if not one of them can be used.

    Topics are found by type unless they are named. `positions="truth"` takes the simulator's true positions instead of
    the GNSS fixes, for evaluation. `modality` overrides what the bag says about itself.
    """
    if positions not in ("gnss", "truth"):
        raise MissionError(f"{path}: positions '{positions}' are unknown; choose gnss or truth")
    bag = open_bag(path, keep=(NAV_SAT_FIX,))
    image_topic = image_topic_of(bag, image_topic)
    fix_topic = truth_topic_of(bag) if positions == "truth" else fix_topic_of(bag, fix_topic)
    fixes = _fixes(bag, fix_topic)
    frames, refused, stamps = _frames(bag, image_topic, Track(fixes, gates or GnssGates(), grid.projection), grid)
    if not frames:
        raise MissionError(_why_none(bag, image_topic, fix_topic, refused, stamps, fixes))
    if refused:
        log.info("%s: %d frames, refused: %s", path, len(frames), _in_words(refused))
    name, noted = mission_facts(path)
    return Mission(bag.path, name, modality or noted, tuple(frames), dict(refused))


def read_for_test(path: str | Path, grid: Grid) -> tuple[Mission, str]:
    """A mission with its true positions ("truth"), or those of GNSS where the truth was not recorded ("gnss")."""
    positions = "truth" if open_bag(path).counts.get(TRUTH_TOPIC) else "gnss"
    return read_mission(path, grid, positions=positions), positions


def mission_facts(path: str | Path) -> tuple[str, str]:
    """Name and modality of a mission without reading it: as its writer noted them, else its file name and "unknown"."""
    facts = facts_of(path)
    modality = facts.get(MODALITY_KEY, "unknown")
    default = Path(path).stem if Path(path).is_file() else Path(path).resolve().name
    return facts.get(NAME_KEY) or default, modality if modality in MODALITIES else "unknown"


def _fixes(bag: Bag, topic: str) -> list[Fix]:
    fixes = []
    for raw in bag.kept.get(topic, []):
        try:
            fixes.append(Fix.from_message(deserialize(raw.data, NAV_SAT_FIX), raw.received_ns))
        except MissionError as error:
            log.warning("%s: a message on %s is left out: %s", bag.path, topic, error)
    return fixes


def _frames(bag: Bag, topic: str, track: Track, grid: Grid) -> tuple[list[Frame], Counter[str], list[int]]:
    """Frames in time order, refusals by reason, and all image stamps. Images are decoded only if their GNSS is good."""
    frames: list[Frame] = []
    refused: Counter[str] = Counter()
    stamps: dict[int, None] = {}
    for raw in bag.messages(topic):
        try:
            message = deserialize(raw.data, raw.message_type)
            stamp_ns = stamp_of(message) or raw.received_ns
            if stamp_ns in stamps:
                refused[DUPLICATE] += 1
                continue
            stamps[stamp_ns] = None
            (position,), (reason,) = track.at([stamp_ns], grid)
            if reason:
                refused[reason] += 1
                continue
            frames.append(Frame(stamp_ns, position, _encoded(message, raw)))
        except MissionError as error:
            if not refused[DAMAGED_IMAGE]:
                log.warning("%s: an image on %s is left out: %s", bag.path, topic, error)
            refused[DAMAGED_IMAGE] += 1
    times = list(stamps)
    if backwards := sum(later < earlier for earlier, later in pairwise(times)):
        log.warning("%s: time runs backwards %d times on %s; frames are sorted", bag.path, backwards, topic)
    frames.sort(key=lambda frame: frame.stamp_ns)
    return frames, refused, times


def _encoded(message: Any, raw: RawMessage) -> bytes:
    """The image as it is kept in a frame."""
    if raw.message_type == COMPRESSED_IMAGE:
        data = message.data.tobytes()
        if is_kept_as_it_is(data):
            check_encoded(data)
            return data
        image = decode_compressed(data, message.format)
    else:
        image = decode_raw(
            message.height, message.width, message.encoding, message.step, message.is_bigendian, message.data
        )
    # Fast compression: a frame is written once and read a few times.
    whole, png = cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_PNG_COMPRESSION, 1])
    if not whole:
        raise MissionError(f"an image of {image.shape[1]} × {image.shape[0]} pixels cannot be encoded")
    return png.tobytes()


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
