"""Writing a mission: a rosbag2 directory with one MCAP file, whole up to the last chunk whenever the writer dies.

The `mcap` library writes the file, not `rosbags`: the latter keeps up to a mebibyte and the file's buffer in memory and
says what the bag is only at the end. Here chunks are small and handed to the system at once, and a metadata record at
the start of the file carries the mission's name and modality.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from mcap.exceptions import UnsupportedCompressionError
from mcap.writer import CompressionType
from mcap.writer import Writer as McapWriter
from numpy.typing import NDArray

from aerial_vpr_cl.errors import MissionError, StoreError
from aerial_vpr_cl.files import fsync_directory, replace_file
from aerial_vpr_cl.mission import messages
from aerial_vpr_cl.mission.bag_metadata import (
    GATES_KEY,
    MISSION_RECORD,
    MODALITY_KEY,
    NAME_KEY,
    SENSORS_KEY,
    RecordedTopic,
    bag_information,
    clean_text,
    dump_yaml,
    qos_profiles,
)
from aerial_vpr_cl.mission.readings import OdometryReading, Reading
from aerial_vpr_cl.mission.sensor_messages import ODOMETRY, TOPICS, odometry, serialized

log = logging.getLogger(__name__)

MODALITIES = ("VIS", "IR", "unknown")
TRUTH = "/ground_truth/"
"""Simulated bags keep the truth under this name, apart from what the drone knows; it is never taken for a sensor."""
TRUTH_TOPIC = f"{TRUTH}fix"
TRUE_POSE_TOPIC = f"{TRUTH}odometry"

CHUNK_BYTES = 256 * 1024
CHUNK_NS = 1_000_000_000
"""A chunk is closed when it holds this much data or this much of the flight: what a killed writer may lose."""
SYNC_S = 2.0
"""Chunks reach the system at once (safe against SIGKILL) and the disk this often (a power cut costs this much more)."""

_COMPRESSIONS = {"none": CompressionType.NONE, "lz4": CompressionType.LZ4, "zstd": CompressionType.ZSTD}


class MissionWriter:
    """Writes one mission into a new bag directory; a context manager, for one thread at a time.

    metadata.yaml is written when the writer closes. A bag without it was cut short and is read up to its last chunk.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        name: str | None = None,
        modality: str = "unknown",
        image_topic: str = "/camera/image/compressed",
        fix_topic: str = "/fix",
        compression: str = "none",
        sensors: Mapping[str, Any] | None = None,
        gates: Mapping[str, Any] | None = None,
    ) -> None:
        """Create the directory `path`, which must not exist. Compression is that of chunks; JPEG gains nothing.

        `sensors` are settings of the drone's sensors that no topic tells, such as how the camera is mounted; they are
        noted in the bag, so that its readers need not be told. So are the GNSS gates it was recorded with.
        """
        self.path = Path(path)
        self.name = clean_text(name or self.path.name)
        self.image_topic = image_topic
        self.fix_topic = fix_topic
        if modality not in MODALITIES:
            raise MissionError(f"{path}: modality '{modality}' is unknown; choose one of {', '.join(MODALITIES)}")
        if compression not in _COMPRESSIONS:
            raise MissionError(f"{path}: compression '{compression}' is unknown; choose {', '.join(_COMPRESSIONS)}")
        self._facts = {NAME_KEY: self.name, MODALITY_KEY: modality}
        if sensors:
            self._facts[SENSORS_KEY] = json.dumps(dict(sensors), sort_keys=True)
        if gates:
            self._facts[GATES_KEY] = json.dumps(dict(gates), sort_keys=True)
        self._topics: dict[str, RecordedTopic] = {}
        self._schemas: dict[str, int] = {}
        self._first_ns: int | None = None
        self._last_ns = 0
        self._chunk_first_ns: int | None = None
        self._pending_bytes = 0
        self._synced_s = time.monotonic()
        self._closed = False
        self._broken = False
        try:
            self.path.mkdir(parents=True)
        except FileExistsError:
            raise MissionError(f"{path}: exists already; choose another name or remove it") from None
        except OSError as error:
            raise MissionError(f"{path}: cannot be created: {error}") from None
        self._file_name = clean_text(f"{self.path.name}_0.mcap")
        with self._explained():
            self._stream = (self.path / self._file_name).open("xb")
            try:
                # The library's own limit stays out of reach: chunks are closed here, and flushed as they close.
                self._mcap = McapWriter(self._stream, chunk_size=2**62, compression=_COMPRESSIONS[compression])
            except UnsupportedCompressionError as error:
                self._stream.close()
                raise MissionError(f"{path}: {error}; install it or choose compression 'none'") from None
            self._mcap.start(profile="ros2", library="aerial_vpr_cl")
            self._mcap.add_metadata(MISSION_RECORD, self._facts)
            self._stream.flush()
            os.fsync(self._stream.fileno())
            fsync_directory(self.path)

    def __enter__(self) -> MissionWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def bytes_written(self) -> int:
        """Size of the bag so far, with what waits in the open chunk; for a budget of disk space."""
        if self._closed:
            return sum(entry.stat().st_size for entry in self.path.iterdir())
        return self._stream.tell() + self._pending_bytes

    @property
    def message_count(self) -> int:
        """Messages written so far, on all topics."""
        return sum(topic.count for topic in self._topics.values())

    def write_image(self, stamp_ns: int, encoded: bytes) -> None:
        """A frame as JPEG (or PNG) bytes, as sensor_msgs/CompressedImage."""
        message = messages.compressed_image(stamp_ns, encoded)
        self.write_serialized(self.image_topic, messages.COMPRESSED_IMAGE, stamp_ns, message)

    def write_raw_image(self, stamp_ns: int, image: NDArray[Any]) -> None:
        """A frame as (H, W, 3) uint8 RGB or (H, W) uint8 or uint16 grey, as sensor_msgs/Image.

        By ROS custom the raw topic is the compressed one without its last word.
        """
        message = messages.raw_image(stamp_ns, image)
        topic = self.image_topic.removesuffix("/compressed")
        self.write_serialized(topic, messages.IMAGE, stamp_ns, message)

    def write_fix(
        self,
        stamp_ns: int,
        latitude: float,
        longitude: float,
        altitude: float = 0.0,
        *,
        status: int = 0,
        variance_m2: float | None = 4.0,
    ) -> None:
        """A GNSS fix in degrees and metres; status -1 is NO_FIX; variance None says the receiver gives none."""
        message = messages.nav_sat_fix(
            stamp_ns, latitude, longitude, altitude, status=status, variance_m2=variance_m2, frame_id="gnss"
        )
        self.write_serialized(self.fix_topic, messages.NAV_SAT_FIX, stamp_ns, message)

    def write_truth(self, stamp_ns: int, latitude: float, longitude: float, altitude: float = 0.0) -> None:
        """The true position of a simulated camera, on its own topic."""
        message = messages.nav_sat_fix(stamp_ns, latitude, longitude, altitude, variance_m2=0.0, frame_id="truth")
        self.write_serialized(TRUTH_TOPIC, messages.NAV_SAT_FIX, stamp_ns, message)

    def write_reading(self, reading: Reading) -> None:
        """What an instrument of the drone says, on the topic of its kind."""
        message_type, message = serialized(reading)
        self.write_serialized(TOPICS[type(reading)], message_type, reading.stamp_ns, message)

    def write_true_pose(self, reading: OdometryReading) -> None:
        """The true pose of a simulated drone: easting, northing and height above ground, attitude in ENU."""
        self.write_serialized(TRUE_POSE_TOPIC, ODOMETRY, reading.stamp_ns, odometry(reading, frame_id="utm"))

    def write_serialized(self, topic: str, message_type: str, log_ns: int, data: bytes) -> None:
        """Any message as CDR bytes, for instance as it came from a ROS subscription with raw=True."""
        if self._closed:
            raise MissionError(f"{self.path}: the mission is closed; nothing more can be written")
        if self._broken:
            raise MissionError(f"{self.path}: an earlier write failed; close this mission and begin another")
        with self._explained():
            entry = self._topics.get(topic) or self._add_topic(topic, message_type)
            if entry.message_type != message_type:
                raise MissionError(f"{self.path}: topic {topic} holds {entry.message_type}, not {message_type}")
            self._mcap.add_message(entry.channel, log_ns, bytes(data), log_ns, entry.count)
            entry.count += 1
            self._first_ns = log_ns if self._first_ns is None else min(self._first_ns, log_ns)
            self._last_ns = max(self._last_ns, log_ns)
            self._chunk_first_ns = log_ns if self._chunk_first_ns is None else self._chunk_first_ns
            self._pending_bytes += len(data) + 31
            if self._pending_bytes >= CHUNK_BYTES or abs(log_ns - self._chunk_first_ns) >= CHUNK_NS:
                self._end_chunk()

    def flush(self) -> None:
        """Close the open chunk: everything written so far survives the death of this process."""
        if not self._closed and not self._broken:
            with self._explained():
                self._end_chunk()

    def close(self) -> None:
        """Finish the bag and make it durable; calling it again does nothing."""
        if self._closed:
            return
        self._closed = True
        if self._broken:
            with suppress(OSError):
                self._stream.close()
            log.warning("%s: left without an index after a failed write; what was written can be read", self.path)
            return
        with self._explained():
            span_ns = (self._first_ns, self._last_ns) if self._first_ns is not None else (0, 0)
            information = bag_information(self._file_name, list(self._topics.values()), span_ns, self._facts)
            self._mcap.add_metadata("rosbag2", {"serialized_metadata": dump_yaml(information)})
            self._mcap.finish()
            self._stream.flush()
            os.fsync(self._stream.fileno())
            self._stream.close()
            replace_file(self.path / "metadata.yaml", dump_yaml({"rosbag2_bagfile_information": information}).encode())
            fsync_directory(self.path.parent)

    def _end_chunk(self) -> None:
        self._mcap.flush()
        self._pending_bytes = 0
        self._chunk_first_ns = None
        if time.monotonic() - self._synced_s >= SYNC_S:
            os.fsync(self._stream.fileno())
            self._synced_s = time.monotonic()

    def _add_topic(self, topic: str, message_type: str) -> RecordedTopic:
        store = messages.type_store()
        if message_type not in store.types:
            raise MissionError(f"{self.path}: message type {message_type} is not known, topic {topic} is not recorded")
        if message_type not in self._schemas:
            definition, _ = store.generate_msgdef(message_type, ros_version=2)
            self._schemas[message_type] = self._mcap.register_schema(message_type, "ros2msg", definition.encode())
        is_image = message_type in (messages.IMAGE, messages.COMPRESSED_IMAGE)
        qos, type_hash = qos_profiles(best_effort=is_image), store.hash_rihs01(message_type)
        metadata = {"offered_qos_profiles": qos, "topic_type_hash": type_hash}
        channel = self._mcap.register_channel(topic, "cdr", self._schemas[message_type], metadata)
        self._topics[topic] = RecordedTopic(topic, message_type, channel, qos, type_hash)
        return self._topics[topic]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """After a failed write the file may end in half a chunk: nothing may follow it."""
        try:
            yield
        except (OSError, StoreError) as error:
            self._broken = True
            raise MissionError(
                f"{self.path}: cannot be written: {error}; free some space or choose another disk"
            ) from error
