"""Messages out of one file of a rosbag2, whole or damaged: MCAP or SQLite, plain or compressed.

Files are read from front to back and never by their index, so a file whose writer was killed is read by the same code
as a whole one: up to its last whole chunk.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import zstandard
from mcap.exceptions import InvalidMagic, UnsupportedCompressionError
from mcap.records import Channel, Chunk, McapRecord, Message, Metadata, Schema
from mcap.stream_reader import StreamReader, breakup_chunk

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.mission.bag_metadata import MISSION_RECORD
from aerial_vpr_cl.mission.unpacking import UNPACK, Unpacker

LATEST_NS = 2**62
"""Times of reception are held to this, so that they can be subtracted from each other."""


class BagFile(NamedTuple):
    """A storage file of a bag, and whether rosbag2 compressed each message in it."""

    path: Path
    packed_messages: bool = False


class RawMessage(NamedTuple):
    """A message as it lies in the bag: CDR bytes, and the time it was received."""

    topic: str
    message_type: str
    received_ns: int
    data: bytes


class DamageError(Exception):
    """Raised at the end of a file of which a part could not be read, after all that could."""


def read_file(file: BagFile) -> Iterator[RawMessage]:
    """All messages of a file that can be read, then DamageError if there was more; MissionError if it is none."""
    try:
        if file.packed_messages:
            yield from _read_packed_messages(file.path)
        elif file.path.suffix == ".zstd":
            yield from _read_packed_file(file.path)
        else:
            yield from _read_plain(file.path)
    except OSError as error:
        raise MissionError(f"{file.path}: cannot be read: {error}") from None


def metadata_record(file: BagFile) -> dict[str, str]:
    """What MissionWriter noted at the start of an MCAP file about the mission; empty where there is no such note."""
    if file.path.suffix == ".mcap":
        try:
            for record in _mcap_records(file.path):
                if isinstance(record, Metadata) and record.name == MISSION_RECORD:
                    return dict(record.metadata)
                if isinstance(record, Chunk | Message):
                    break
        except DamageError:
            pass  # whoever reads the messages will say it
    return {}


def _read_plain(file: Path) -> Iterator[RawMessage]:
    return _read_mcap(file) if file.suffix == ".mcap" else _read_sqlite(file)


def _mcap_records(file: Path) -> Iterator[McapRecord]:
    with file.open("rb") as stream:
        size = file.stat().st_size
        if size == 0:
            raise DamageError("the file is empty: its writer was killed at once")
        try:
            yield from StreamReader(stream, emit_chunks=True, record_size_limit=size).records
        except InvalidMagic:
            if stream.tell() <= 8:
                raise MissionError(f"{file}: not an MCAP file; record it again or give another bag") from None
            raise DamageError("its end is damaged") from None
        except Exception as error:  # the library lets whatever it trips over in garbage through
            where = f"after {stream.tell()} of {size} bytes"
            raise DamageError(f"cut short or damaged {where} ({error or type(error).__name__})") from None


def _read_mcap(file: Path) -> Iterator[RawMessage]:
    schemas: dict[int, str] = {}
    channels: dict[int, tuple[str, str]] = {}
    damaged: list[str] = []
    unpacker = Unpacker(file)
    try:
        for outer in _mcap_records(file):
            for record in _chunk_records(outer, unpacker, file, damaged) if isinstance(outer, Chunk) else (outer,):
                if isinstance(record, Schema):
                    schemas[record.id] = record.name
                elif isinstance(record, Channel) and record.message_encoding == "cdr":
                    channels[record.id] = (record.topic, schemas.get(record.schema_id, ""))
                elif isinstance(record, Message) and record.channel_id in channels:
                    yield RawMessage(*channels[record.channel_id], min(record.log_time, LATEST_NS), record.data)
    except DamageError as damage:
        damaged.append(str(damage))
    if damaged:
        raise DamageError("; ".join(dict.fromkeys(damaged)))


def _chunk_records(chunk: Chunk, unpacker: Unpacker, file: Path, damaged: list[str]) -> list[McapRecord]:
    """The records of a chunk, or none, and a word in `damaged`, if a bit in it has flipped."""
    try:
        if chunk.compression in UNPACK:
            chunk = replace(chunk, compression="", data=unpacker.unpack(chunk.data, chunk.compression))
        return breakup_chunk(chunk, validate_crc=True)
    except MissionError:
        raise
    except UnsupportedCompressionError as error:
        raise MissionError(f"{file}: {error}; install the Python package of that name") from None
    except Exception as error:
        damaged.append(f"a chunk is damaged ({error})")
        return []


def _read_sqlite(file: Path) -> Iterator[RawMessage]:
    connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)
    connection.text_factory = lambda text: text.decode(errors="replace")
    odd = 0
    try:
        # Without it SQLite refuses a file that is shorter than its header says, before any page of it is read.
        connection.execute("PRAGMA writable_schema = ON")
        for name in ("topics", "messages"):
            _require_table(connection, name)
        topics = {
            row[0]: (row[1], row[2])
            for row in connection.execute("SELECT id, name, type FROM topics WHERE serialization_format = 'cdr'")
            if isinstance(row[1], str) and isinstance(row[2], str)
        }
        for topic_id, received_ns, data in connection.execute("SELECT topic_id, timestamp, data FROM messages"):
            if not isinstance(received_ns, int) or not isinstance(data, bytes):
                odd += 1
            elif topic_id in topics:
                yield RawMessage(*topics[topic_id], min(max(received_ns, 0), LATEST_NS), data)
    except sqlite3.Error as error:
        raise DamageError(f"cut short or damaged ({error})") from None
    finally:
        connection.close()
    if odd:
        raise DamageError(f"{odd} rows are no messages")


def _require_table(connection: sqlite3.Connection, name: str) -> None:
    """Rows must be stored in the file: a view or a column that is computed may have no end."""
    stored = connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ? AND rootpage > 0", [name]
    ).fetchone()
    if not stored:
        raise DamageError(f"cut short or damaged (there is no table '{name}')")
    if any(column[-1] for column in connection.execute(f"PRAGMA table_xinfo({name})")):
        raise DamageError(f"cut short or damaged (table '{name}' computes its columns)")


def _read_packed_messages(file: Path) -> Iterator[RawMessage]:
    """rosbag2's compression_mode MESSAGE."""
    unpacker, damaged = Unpacker(file), 0
    for message in _read_plain(file):
        try:
            yield message._replace(data=unpacker.unpack(message.data, "zstd"))
        except zstandard.ZstdError:
            damaged += 1
    if damaged:
        raise DamageError(f"{damaged} messages cannot be unpacked")


def _read_packed_file(file: Path) -> Iterator[RawMessage]:
    """rosbag2's compression_mode FILE: it is unpacked beside other temporary files, and read as if it were plain."""
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / file.stem
        damage = ""
        with plain.open("wb") as target:
            try:
                Unpacker(file).unpack_to(target)
            except zstandard.ZstdError as error:
                damage = f"cut short or damaged ({error})"
        yield from _read_plain(plain)
        if damage:
            raise DamageError(damage)
