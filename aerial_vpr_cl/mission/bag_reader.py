"""Messages out of any rosbag2, whole or damaged: MCAP and SQLite files, with or without metadata.yaml.

Files are read from front to back and never by their index, so a bag whose writer was killed is read by the same code as
a whole one: up to its last whole chunk. Only bags with rosbag2's own compression go through the rosbags library.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from mcap.exceptions import InvalidMagic, UnsupportedCompressionError
from mcap.records import Channel, Chunk, McapRecord, Message, Metadata, Schema
from mcap.stream_reader import StreamReader, breakup_chunk
from rosbags.rosbag2 import Reader

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.mission.bag_metadata import MISSION_RECORD

log = logging.getLogger(__name__)


class RawMessage(NamedTuple):
    """A message as it lies in the bag: CDR bytes, and the time it was received."""

    topic: str
    message_type: str
    received_ns: int
    data: bytes


class _DamageError(Exception):
    """Raised at the end of a file of which a part could not be read, after all that could."""


@dataclass
class Bag:
    """What a bag holds. `kept` are all messages of the types asked for at opening, by topic."""

    path: Path
    facts: dict[str, str] = field(default_factory=dict)  # custom_data: name and modality of our own bags
    types: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    kept: dict[str, list[RawMessage]] = field(default_factory=dict)

    def messages(self, *topics: str) -> Iterator[RawMessage]:
        """The messages of these topics in the order of the file; damage was reported when the bag was opened."""
        for file in _files_of(self.path):
            try:
                yield from (message for message in _read(file) if message.topic in topics)
            except _DamageError:
                continue


def open_bag(path: str | Path, keep: Collection[str] = ()) -> Bag:
    """Look through a bag once: topics, counts, and the messages of the types in `keep`. Warns of damage."""
    path = Path(path)
    bag = Bag(path, facts_of(path))
    unreadable = []
    for file in _files_of(path):
        in_file = 0
        try:
            for message in _read(file):
                in_file += 1
                bag.types[message.topic] = message.message_type
                bag.counts[message.topic] = bag.counts.get(message.topic, 0) + 1
                if message.message_type in keep:
                    bag.kept.setdefault(message.topic, []).append(message)
        except _DamageError as damage:
            if not in_file:
                unreadable.append(f"{file}: {damage}")
            log.warning("%s: %s; %d messages could be read and are used", file, damage, in_file)
    if unreadable and not bag.counts:
        raise MissionError(f"{'; '.join(unreadable)}; nothing of it can be read: use another copy of the bag")
    return bag


def facts_of(path: str | Path) -> dict[str, str]:
    """Name and modality as MissionWriter noted them; empty for bags of others."""
    path = Path(path)
    custom = _metadata_of(path).get("custom_data")
    if isinstance(custom, dict) and custom:
        return {str(key): str(value) for key, value in custom.items()}
    for file in _files_of(path):
        if file.suffix == ".mcap":
            try:
                for record in _mcap_records(file):
                    if isinstance(record, Metadata) and record.name == MISSION_RECORD:
                        return dict(record.metadata)
                    if isinstance(record, Chunk | Message):
                        break
            except _DamageError:
                continue
    return {}


def _files_of(path: Path) -> list[Path]:
    """The storage files of a bag directory, or the bag directory itself where only rosbags can read it."""
    if not path.exists():
        raise MissionError(f"{path}: no such bag; give a rosbag2 directory")
    if path.is_file():
        if path.suffix in (".mcap", ".db3"):
            return [path]
        remedy = "convert it with rosbags-convert" if path.suffix == ".bag" else "give a rosbag2 directory"
        raise MissionError(f"{path}: not a rosbag2 (.mcap or .db3); {remedy}")
    metadata = _metadata_of(path)
    if str(metadata.get("compression_mode") or "none").lower() in ("file", "message"):
        return [path]
    listed = [path / Path(str(name)).name for name in metadata.get("relative_file_paths") or ()]
    files = [file for file in listed if file.exists()] or sorted([*path.glob("*.mcap"), *path.glob("*.db3")])
    if not files:
        raise MissionError(f"{path}: not a rosbag2 directory, it holds no .mcap or .db3 file; give the bag's directory")
    if missing := [file.name for file in listed if not file.exists()]:
        log.warning("%s: %s is missing; the other files are read", path, ", ".join(missing))
    return files


def _metadata_of(path: Path) -> dict[str, Any]:
    """rosbag2_bagfile_information of metadata.yaml; empty when there is none or it is damaged."""
    try:
        content = yaml.safe_load((path / "metadata.yaml").read_text())
        information = content["rosbag2_bagfile_information"]
        return information if isinstance(information, dict) else {}
    except (OSError, yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError):
        return {}


def _read(file: Path) -> Iterator[RawMessage]:
    try:
        if file.is_dir():
            yield from _read_compressed(file)
        else:
            yield from _read_mcap(file) if file.suffix == ".mcap" else _read_sqlite(file)
    except OSError as error:
        raise MissionError(f"{file}: cannot be read: {error}") from None


def _mcap_records(file: Path) -> Iterator[McapRecord]:
    with file.open("rb") as stream:
        size = file.stat().st_size
        if size == 0:
            raise _DamageError("the file is empty: its writer was killed at once")
        try:
            yield from StreamReader(stream, emit_chunks=True, record_size_limit=size).records
        except InvalidMagic:
            if stream.tell() <= 8:
                raise MissionError(f"{file}: not an MCAP file; record it again or give another bag") from None
            raise _DamageError("its end is damaged") from None
        except Exception as error:  # the library lets whatever it trips over in garbage through
            where = f"after {stream.tell()} of {size} bytes"
            raise _DamageError(f"cut short or damaged {where} ({error or type(error).__name__})") from None


def _read_mcap(file: Path) -> Iterator[RawMessage]:
    schemas: dict[int, str] = {}
    channels: dict[int, tuple[str, str]] = {}
    damaged: list[str] = []
    try:
        for outer in _mcap_records(file):
            for record in _chunk_records(outer, file, damaged) if isinstance(outer, Chunk) else (outer,):
                if isinstance(record, Schema):
                    schemas[record.id] = record.name
                elif isinstance(record, Channel) and record.message_encoding == "cdr":
                    channels[record.id] = (record.topic, schemas.get(record.schema_id, ""))
                elif isinstance(record, Message) and record.channel_id in channels:
                    yield RawMessage(*channels[record.channel_id], record.log_time, record.data)
    except _DamageError as damage:
        damaged.append(str(damage))
    if damaged:
        raise _DamageError("; ".join(dict.fromkeys(damaged)))


def _chunk_records(chunk: Chunk, file: Path, damaged: list[str]) -> list[McapRecord]:
    """The records of a chunk, or none, and a word in `damaged`, if a bit in it has flipped."""
    try:
        if chunk.compression == "zstd":
            chunk = replace(chunk, compression="", data=_unzstd(chunk.data, chunk.uncompressed_size))
        return breakup_chunk(chunk, validate_crc=True)
    except UnsupportedCompressionError as error:
        raise MissionError(f"{file}: {error}; install the Python package of that name") from None
    except Exception as error:
        damaged.append(f"a chunk is damaged ({error})")
        return []


def _unzstd(data: bytes, size: int) -> bytes:
    """rosbags brings one of these packages, depending on its version and Python's."""
    try:
        import zstandard

        return zstandard.decompress(data, size)
    except ImportError:
        from backports import zstd

        return zstd.decompress(data)


def _read_sqlite(file: Path) -> Iterator[RawMessage]:
    connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)
    try:
        # Without it SQLite refuses a file that is shorter than its header says, before any page of it is read.
        connection.execute("PRAGMA writable_schema = ON")
        topics = {
            row[0]: (row[1], row[2])
            for row in connection.execute("SELECT id, name, type FROM topics WHERE serialization_format = 'cdr'")
        }
        for topic_id, received_ns, data in connection.execute("SELECT topic_id, timestamp, data FROM messages"):
            if topic_id in topics:
                yield RawMessage(*topics[topic_id], received_ns, data)
    except sqlite3.Error as error:
        raise _DamageError(f"cut short or damaged ({error})") from None
    finally:
        connection.close()


def _read_compressed(path: Path) -> Iterator[RawMessage]:
    try:
        with Reader(path) as reader:
            for connection, received_ns, data in reader.messages():
                yield RawMessage(connection.topic, connection.msgtype, received_ns, bytes(data))
    except Exception as error:  # ReaderError, zstd's errors, whatever the damage leads to
        raise _DamageError(f"cut short or damaged ({error})") from None
