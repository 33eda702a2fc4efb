"""Playing a bag again: which of its messages go to which topics, in what order and when."""

from __future__ import annotations

import heapq
import logging
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from aerial_vpr_cl.errors import MissionError, SettingsError
from aerial_vpr_cl.images import decode_compressed
from aerial_vpr_cl.mission import messages
from aerial_vpr_cl.mission.bag_metadata import SENSORS_KEY
from aerial_vpr_cl.mission.bag_reader import Bag, RawMessage, open_bag
from aerial_vpr_cl.mission.bag_sensors import noted_settings
from aerial_vpr_cl.mission.bag_writer import TRUTH_TOPIC
from aerial_vpr_cl.mission.messages import COMPRESSED_IMAGE, IMAGE, NAV_SAT_FIX
from aerial_vpr_cl.mission.sensor_messages import FLOAT64, SENSOR_TYPES
from aerial_vpr_cl.mission.topics import fix_topic_of, image_topic_of, sensor_topics_of

log = logging.getLogger(__name__)

TRANSPORTS = ("as recorded", "raw", "compressed")
DISORDER_NS = 5_000_000_000
"""How far from the order of their times messages may lie in a file: recorders write by buffers of some seconds."""
_FOREVER_NS = 2**63 - 1
_STAMP_OFFSET = 4  # after the CDR encapsulation: a header, where there is one, comes first


class Cue(NamedTuple):
    """A message to publish: `time_ns` is when the bag received it, `stamp_ns` the header's stamp of a frame."""

    topic: str
    message_type: str
    time_ns: int
    data: bytes
    stamp_ns: int
    is_frame: bool


@dataclass(frozen=True)
class Playback:
    """What of a bag is played where. Iterating gives the messages in the order in which the bag received them."""

    bag: Bag
    image_topic: str
    fix_topic: str | None
    routes: dict[str, str]  # topic of the bag → topic it is published on
    transport: str
    span_ns: tuple[int, int]  # first and last moment that is played
    frames: int  # images in the span

    @property
    def image_type(self) -> str:
        """Message type of the frames as they are published."""
        return IMAGE if self.transport == "raw" else self.bag.types[self.image_topic]

    def parameters(self) -> dict[str, Any]:
        """What the localization node has to be told to fly as the drone did: transports, and what was noted of it."""
        height = next((topic for topic, name in self.routes.items() if name == "height"), None)
        is_number = height is not None and self.bag.types[height] == FLOAT64
        noted = asdict(noted_settings(self.bag)) if SENSORS_KEY in self.bag.facts else {}
        return {
            "image_transport": self.transport,
            "height_message": "Float64" if is_number else "Range",
            **{f"sensors.{name}": value for name, value in noted.items()},
        }

    def published(self) -> dict[str, str]:
        """Published topic → message type."""
        types = {self.routes[topic]: self.bag.types[topic] for topic in self.routes}
        return {**types, self.routes[self.image_topic]: self.image_type}

    def __iter__(self) -> Iterator[Cue]:
        large = [self.bag.messages(topic) for topic in self.routes if self.bag.types[topic] not in SENSOR_TYPES]
        small = [topic for topic in self.routes if self.bag.types[topic] in SENSOR_TYPES]
        # Of one moment the readings come first: the frame may use them.
        streams = [_in_order(self.bag.messages(*small)), *large] if small else large
        for raw in heapq.merge(*streams, key=lambda raw: raw.received_ns):
            if self.span_ns[0] <= raw.received_ns <= self.span_ns[1]:
                yield from self._cue(raw)

    def references(self) -> Iterator[RawMessage]:
        """The fixes and true positions of the bag, against which answers can be judged."""
        for topic in (self.fix_topic, TRUTH_TOPIC):
            if topic is not None:
                yield from self.bag.kept.get(topic, [])

    def _cue(self, raw: RawMessage) -> Iterator[Cue]:
        is_frame = raw.topic == self.image_topic
        data = raw.data
        try:
            if is_frame and self.image_type != raw.message_type:
                data = _decompressed(raw)
            stamp_ns = header_stamp_ns(data) if is_frame else 0
            if is_frame and not stamp_ns:
                # A driver that sets no stamp: answers could not be told apart. read_mission takes the same time for it.
                stamp_ns, data = raw.received_ns, with_header_stamp(data, raw.received_ns)
        except MissionError as error:
            log.warning("%s: a message on %s is not played: %s", self.bag.path, raw.topic, error)
            return
        message_type = self.image_type if is_frame else raw.message_type
        yield Cue(self.routes[raw.topic], message_type, raw.received_ns, data, stamp_ns, is_frame)


def open_playback(
    path: str | Path,
    *,
    image_topic: str | None = None,
    fix_topic: str | None = None,
    routes: Sequence[str] = (),
    transport: str = "as recorded",
    start_s: float = 0.0,
    duration_s: float = 0.0,
) -> Playback:
    """Look through a bag and decide what is played where.

    The camera's images go to the topic `image`, the fixes to `fix` and what the instruments said to `imu`, `height`,
    `camera_info` and `odometry`, as the localization node calls its inputs. A route "A:=B" plays topic A of the bag
    as B instead, or besides. A bag without GNSS is played without. `duration_s` 0 is up to the end.
    """
    if transport not in TRANSPORTS:
        raise SettingsError(f"image transport '{transport}' is unknown; choose one of {', '.join(TRANSPORTS)}")
    bag = open_bag(path, keep=(NAV_SAT_FIX,))
    camera = image_topic_of(bag, image_topic)
    if transport == "compressed" and bag.types[camera] != COMPRESSED_IMAGE:
        raise MissionError(f"{path}: {camera} holds raw images, which are not compressed here; play them as recorded")
    if transport == "as recorded":
        transport = "compressed" if bag.types[camera] == COMPRESSED_IMAGE else "raw"
    fixes = _fix_topic_or_none(bag, fix_topic)
    table = {camera: "image"}
    if fixes is not None:
        table[fixes] = "fix"
    instruments = sensor_topics_of(bag, camera)._asdict()
    table |= {topic: name for name, topic in instruments.items() if topic is not None}
    for route in routes:
        source, target = _route(bag, route)
        table[source] = target
    span_ns, frames = _span(bag, camera, start_s, duration_s)
    return Playback(bag, camera, fixes, table, transport, span_ns, frames)


def header_stamp_ns(data: bytes) -> int:
    """Stamp of a serialized message that begins with a std_msgs/Header, without touching the rest of it."""
    if len(data) < _STAMP_OFFSET + 8:
        raise MissionError(f"{len(data)} bytes are too few for a message with a header")
    sec, nanosec = struct.unpack_from(_stamp_format(data), data, _STAMP_OFFSET)
    return int(sec) * 1_000_000_000 + int(nanosec)


def with_header_stamp(data: bytes, stamp_ns: int) -> bytes:
    """The same serialized message with another stamp in its header."""
    stamp = struct.pack(_stamp_format(data), *divmod(stamp_ns, 1_000_000_000))
    return data[:_STAMP_OFFSET] + stamp + data[_STAMP_OFFSET + len(stamp) :]


def _in_order(messages: Iterator[RawMessage]) -> Iterator[RawMessage]:
    """Small messages of several topics by the time they were received; a recorder writes them nearly so."""
    waiting: list[tuple[int, int, RawMessage]] = []
    for number, raw in enumerate(messages):
        heapq.heappush(waiting, (raw.received_ns, number, raw))
        while raw.received_ns - waiting[0][0] > DISORDER_NS:
            yield heapq.heappop(waiting)[-1]
    while waiting:
        yield heapq.heappop(waiting)[-1]


class Pace:
    """When messages are due: the bag's time at `rate`, counted from the first message asked for."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._start: tuple[float, int] | None = None

    def seconds_until(self, time_ns: int) -> float:
        """Seconds to wait for a moment of the bag; 0 if it is past, or if the rate is 0: as fast as possible."""
        if self._rate <= 0.0:
            return 0.0
        if self._start is None:
            self._start = (self._clock(), time_ns)
        began_s, first_ns = self._start
        return max(0.0, began_s + (time_ns - first_ns) / 1e9 / self._rate - self._clock())

    def bag_time_ns(self) -> int:
        """The moment of the bag that is now; 0 before the first message."""
        if self._start is None:
            return 0
        began_s, first_ns = self._start
        return first_ns + round((self._clock() - began_s) * self._rate * 1e9)


def _stamp_format(data: bytes) -> str:
    return "<iI" if data[1] & 1 else ">iI"


def _fix_topic_or_none(bag: Bag, wanted: str | None) -> str | None:
    held = [topic for topic, kind in bag.types.items() if kind == NAV_SAT_FIX and topic != TRUTH_TOPIC]
    return fix_topic_of(bag, wanted) if wanted or held else None


def _route(bag: Bag, route: str) -> tuple[str, str]:
    source, separator, target = route.partition(":=")
    if not (separator and source and target):
        raise SettingsError(f"'{route}' is no remapping; write BAG_TOPIC:=TOPIC, for instance /odom:=odometry")
    source = "/" + source.strip("/")
    if source not in bag.types:
        raise MissionError(f"{bag.path}: topic {source} is not in the bag; it holds: {', '.join(sorted(bag.types))}")
    return source, target


def _span(bag: Bag, camera: str, start_s: float, duration_s: float) -> tuple[tuple[int, int], int]:
    """First and last moment to play, counted from the first image, and the number of images between them."""
    if start_s <= 0.0 and duration_s <= 0.0:
        return (0, _FOREVER_NS), bag.counts[camera]
    times = [raw.received_ns for raw in bag.messages(camera)]
    first_ns = times[0] + round(start_s * 1e9)
    last_ns = first_ns + round(duration_s * 1e9) if duration_s > 0.0 else _FOREVER_NS
    frames = sum(first_ns <= moment <= last_ns for moment in times)
    if not frames:
        raise MissionError(f"{bag.path}: no images {start_s:g} s after the first; begin earlier")
    return (first_ns, last_ns), frames


def _decompressed(raw: RawMessage) -> bytes:
    message = messages.deserialize(raw.data, raw.message_type)
    image = decode_compressed(message.data, message.format)
    return messages.raw_image(messages.stamp_of(message), image, message.header.frame_id)
