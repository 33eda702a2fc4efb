"""Which topics of a bag are the camera, the GNSS and the other instruments, when nobody says."""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.mission.bag_reader import Bag
from aerial_vpr_cl.mission.bag_writer import TRUTH, TRUTH_TOPIC
from aerial_vpr_cl.mission.gnss import OWN_HEIGHT_VARIANCE_M2
from aerial_vpr_cl.mission.messages import COMPRESSED_IMAGE, IMAGE, NAV_SAT_FIX, deserialize
from aerial_vpr_cl.mission.readings import ImuReading
from aerial_vpr_cl.mission.sensor_messages import CAMERA_INFO, FLOAT64, IMU, ODOMETRY, RANGE, reading_of

log = logging.getLogger(__name__)

IMAGE_TYPES = (IMAGE, COMPRESSED_IMAGE)

_AMBIGUOUS_SHARE = 0.5
"""A second topic with at least this share of the messages of the first makes the choice the user's."""
_HEIGHTS = ("height", "rel_alt", "agl", "down", "rangefinder", "range_finder", "lidar", "altimeter")
"""What a topic with the height above ground may be called; a Float64 may be anything and must be called so."""


class SensorTopics(NamedTuple):
    """The topics of the drone's instruments in a bag; none where it has none."""

    imu: str | None = None
    height: str | None = None
    camera_info: str | None = None
    odometry: str | None = None


def image_topic_of(bag: Bag, wanted: str | None = None) -> str:
    """The topic with the frames; of a camera's raw and compressed topics the one with more messages."""
    if wanted is not None:
        return _named(bag, wanted, IMAGE_TYPES, "--image-topic")
    candidates = [name for name in _of_types(bag, IMAGE_TYPES) if not name.endswith("/compressedDepth")]
    if not candidates:
        raise MissionError(
            f"{bag.path}: no images in the bag ({_summary(bag)}); "
            "record a topic of type sensor_msgs/Image or sensor_msgs/CompressedImage"
        )
    cameras: dict[str, str] = {}
    for name in candidates:  # most messages first; a tie goes to the compressed one
        cameras.setdefault(name.removesuffix("/compressed"), name)
    return _clear_choice(bag, list(cameras.values()), "camera", "--image-topic")


def fix_topic_of(bag: Bag, wanted: str | None = None) -> str:
    """The topic with the GNSS fixes: never the simulator's truth, never this package's own estimates."""
    if wanted is not None:
        return _named(bag, wanted, (NAV_SAT_FIX,), "--fix-topic")
    candidates = _instruments(bag, NAV_SAT_FIX)
    if not candidates:
        raise MissionError(
            f"{bag.path}: no GNSS in the bag ({_summary(bag)}); record a topic of type sensor_msgs/NavSatFix: "
            "without positions a flight cannot be learnt from"
        )
    return _clear_choice(bag, candidates, "GNSS", "--fix-topic")


def has_fix_topic(bag: Bag) -> bool:
    """Whether there is GNSS in a bag."""
    return bool(_instruments(bag, NAV_SAT_FIX))


def answer_topic_of(bag: Bag) -> str | None:
    """The topic with a node's own positions in a bag of nothing but answers; None for a bag with images."""
    own = [name for name in _of_types(bag, (NAV_SAT_FIX,)) if _holds_own_estimates(bag, name)]
    return own[0] if own and not _of_types(bag, IMAGE_TYPES) else None


def truth_topic_of(bag: Bag) -> str:
    """The topic with the true positions of a simulated flight."""
    if not bag.counts.get(TRUTH_TOPIC):
        raise MissionError(f"{bag.path}: no {TRUTH_TOPIC}: only simulated bags hold the truth; use the GNSS positions")
    return TRUTH_TOPIC


def sensor_topics_of(bag: Bag, image_topic: str) -> SensorTopics:
    """The instruments of a bag: an IMU that knows its orientation, a height, the camera's calibration, odometry."""
    return SensorTopics(
        imu=_likeliest(bag, IMU, [name for name in _instruments(bag, IMU) if _has_orientation(bag, name)]),
        height=_likeliest(bag, "height", _heights(bag)),
        camera_info=_likeliest(bag, CAMERA_INFO, _calibrations(bag, image_topic)),
        odometry=_likeliest(bag, ODOMETRY, _instruments(bag, ODOMETRY)),
    )


def _instruments(bag: Bag, message_type: str) -> list[str]:
    names = _of_types(bag, (message_type,))
    return [name for name in names if not name.startswith(TRUTH) and not _holds_own_estimates(bag, name)]


def _holds_own_estimates(bag: Bag, topic: str) -> bool:
    """Whether this package published a topic: nothing may be learnt from its own answers, whatever they are called."""
    for raw in islice(bag.kept.get(topic) or bag.messages(topic), 1):
        with suppress(MissionError):
            if raw.message_type == NAV_SAT_FIX:
                return deserialize(raw.data, NAV_SAT_FIX).position_covariance[8] == OWN_HEIGHT_VARIANCE_M2
            if raw.message_type == ODOMETRY:
                return deserialize(raw.data, ODOMETRY).pose.covariance[14] == OWN_HEIGHT_VARIANCE_M2
    return False


def _has_orientation(bag: Bag, topic: str) -> bool:
    """By the first message: cameras have IMUs too, whose drivers know no orientation."""
    try:
        raw = next(iter(bag.messages(topic)))
        reading = reading_of(raw.message_type, raw.data, raw.received_ns)
    except (StopIteration, MissionError):
        return False
    return isinstance(reading, ImuReading) and reading.orientation is not None


def _heights(bag: Bag) -> list[str]:
    """Range finders, best one that is called after the height; else a number that is."""
    ranges, numbers = _instruments(bag, RANGE), _instruments(bag, FLOAT64)
    named = [name for name in [*ranges, *numbers] if any(word in name.lower() for word in _HEIGHTS)]
    return named or (ranges if len(ranges) == 1 else [])


def _calibrations(bag: Bag, image_topic: str) -> list[str]:
    """That of the same camera, by its name space; another's only if it is the only one."""
    names = _instruments(bag, CAMERA_INFO)
    camera = image_topic.removesuffix("/compressed").rpartition("/")[0]
    return [name for name in names if name.rpartition("/")[0] == camera] or (names if len(names) == 1 else [])


def _likeliest(bag: Bag, what: str, names: list[str]) -> str | None:
    if len(names) > 1:
        log.info("%s: of %s the first is used for %s", bag.path, ", ".join(names), what)
    return names[0] if names else None


def _of_types(bag: Bag, types: Collection[str]) -> list[str]:
    names = [name for name, message_type in bag.types.items() if message_type in types]
    return sorted(names, key=lambda name: (-bag.counts[name], bag.types[name] != COMPRESSED_IMAGE, name))


def _named(bag: Bag, wanted: str, types: Collection[str], option: str) -> str:
    name = "/" + wanted.strip("/")
    if bag.types.get(name) not in types:
        fitting = ", ".join(_of_types(bag, types)) or "none"
        found = f"is of type {bag.types[name]}" if name in bag.types else "is not in the bag"
        raise MissionError(f"{bag.path}: topic {name} {found}; {option} can be: {fitting}")
    return name


def _clear_choice(bag: Bag, names: list[str], what: str, option: str) -> str:
    first, *others = names
    if others and bag.counts[others[0]] >= _AMBIGUOUS_SHARE * bag.counts[first]:
        listed = ", ".join(f"{name} ({bag.counts[name]} messages)" for name in names)
        raise MissionError(f"{bag.path}: more than one {what} topic: {listed}; choose one with {option}")
    return first


def _summary(bag: Bag) -> str:
    if not bag.counts:
        return "it is empty"
    return "it holds " + ", ".join(f"{count} × {name}" for name, count in sorted(bag.counts.items()))
