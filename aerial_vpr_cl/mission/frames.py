"""The frames of a bag, one by one: the image, where it was taken, and what the drone knew then."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.geo.terrain import Near
from aerial_vpr_cl.image_headers import is_kept_as_it_is, size_of
from aerial_vpr_cl.images import check_encoded, decode_compressed, decode_raw
from aerial_vpr_cl.mission.bag_reader import Bag, RawMessage
from aerial_vpr_cl.mission.bag_sensors import BagSensors
from aerial_vpr_cl.mission.messages import COMPRESSED_IMAGE, deserialize, stamp_of
from aerial_vpr_cl.mission.situation import Motion, Situation

log = logging.getLogger(__name__)

DAMAGED_IMAGE = "damaged image"
DUPLICATE = "duplicate"

GNSS_SIGMA_M = 2.0
"""How sure a position is of which nobody says it: that of a receiver in the open."""


@dataclass(frozen=True, eq=False)
class Frame:
    """One image of a flight and where it was taken: easting and northing in the grid's metres; NaN: not known.

    The image is encoded: JPEG and 8-bit PNG are as they lay in the bag, everything else (raw, 16 bit) became 8-bit RGB
    as `image_decoding` makes it, in a lossless PNG.
    """

    stamp_ns: int
    position: NDArray[np.float64]
    image: bytes = field(repr=False)
    situation: Situation = field(default_factory=Situation, repr=False)
    motion: Motion | None = field(default=None, repr=False)  # since the frame before this one
    position_sigma_m: float = GNSS_SIGMA_M

    def decode(self) -> NDArray[np.uint8]:
        """The image as (H, W, 3) uint8 RGB."""
        return decode_compressed(self.image)


class FramesRead(NamedTuple):
    """Frames in time order, refusals by reason, and the stamps of all images as they came."""

    frames: tuple[Frame, ...]
    refused: Counter[str]
    stamps_ns: list[int]


Place = Callable[[int], tuple[NDArray[np.float64], str]]
"""Stamp of a frame to its position, and why the frame is refused; no reason: it is kept."""


def read_frames(
    bag: Bag, topic: str, place: Place, sensors: BagSensors, *, places_are_known: bool = True
) -> FramesRead:
    """The frames of a bag. Images are looked at only if they have their place.

    Frames that are to be localized must not know it: their situation is then that of a drone that may be anywhere.
    """
    taken: list[tuple[Frame, int]] = []  # with the time at which it was received
    refused: Counter[str] = Counter()
    stamps: dict[int, None] = {}
    for raw in bag.messages(topic, *sensors.topics):
        if raw.topic != topic:
            sensors.hear(raw)
            continue
        try:
            message = deserialize(raw.data, raw.message_type)
            stamp_ns = stamp_of(message) or raw.received_ns
            if stamp_ns in stamps:
                refused[DUPLICATE] += 1
                continue
            stamps[stamp_ns] = None
            position, reason = place(stamp_ns)
            if reason:
                refused[reason] += 1
                continue
            taken.append((Frame(stamp_ns, position, _encoded(message, raw)), raw.received_ns))
        except MissionError as error:
            if not refused[DAMAGED_IMAGE]:
                log.warning("%s: an image on %s is left out: %s", bag.path, topic, error)
            refused[DAMAGED_IMAGE] += 1
    times = list(stamps)
    if backwards := sum(later < earlier for earlier, later in pairwise(times)):
        log.warning("%s: time runs backwards %d times on %s; frames are sorted", bag.path, backwards, topic)
    taken.sort(key=lambda entry: entry[0].stamp_ns)
    known = sensors.situations(
        [
            (frame.stamp_ns, received_ns, size_of(frame.image), Near(frame.position, 0.0) if places_are_known else None)
            for frame, received_ns in taken
        ]
    )
    frames = (replace(frame, situation=at, motion=by) for (frame, _), (at, by) in zip(taken, known))
    return FramesRead(tuple(frames), refused, times)


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
