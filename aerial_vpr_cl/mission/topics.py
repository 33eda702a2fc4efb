"""Which topics of a bag are the camera and the GNSS, when nobody says."""

from __future__ import annotations

from collections.abc import Collection

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.mission.bag_reader import Bag
from aerial_vpr_cl.mission.bag_writer import TRUTH_TOPIC
from aerial_vpr_cl.mission.messages import COMPRESSED_IMAGE, IMAGE, NAV_SAT_FIX

IMAGE_TYPES = (IMAGE, COMPRESSED_IMAGE)

# What this package publishes itself: labels must never come from its own estimates.
_OWN_OUTPUTS = ("localization/fix", "localization_node/fix")
_AMBIGUOUS_SHARE = 0.5
"""A second topic with at least this share of the messages of the first makes the choice the user's."""


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
    names = _of_types(bag, (NAV_SAT_FIX,))
    candidates = [name for name in names if name != TRUTH_TOPIC and not name.endswith(_OWN_OUTPUTS)]
    if not candidates:
        raise MissionError(
            f"{bag.path}: no GNSS in the bag ({_summary(bag)}); record a topic of type sensor_msgs/NavSatFix: "
            "without positions a flight cannot be learnt from"
        )
    return _clear_choice(bag, candidates, "GNSS", "--fix-topic")


def truth_topic_of(bag: Bag) -> str:
    """The topic with the true positions of a simulated flight."""
    if not bag.counts.get(TRUTH_TOPIC):
        raise MissionError(f"{bag.path}: no {TRUTH_TOPIC}: only simulated bags hold the truth; use the GNSS positions")
    return TRUTH_TOPIC


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
