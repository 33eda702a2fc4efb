"""Bags from anywhere: an odd one is read or refused, in bounded time and memory, and holds up no other."""

import os
import sqlite3
from dataclasses import replace

import numpy as np
import pytest
import zstandard
from bag_support import FRAMES, foreign
from mcap.writer import CompressionType, Writer
from mission_support import GRID, fly, place, stamp
from rosbags.rosbag2 import CompressionMode, StoragePlugin
from store_support import make_store, write_flight

from aerial_vpr_cl.cli import main
from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.images import decode_raw
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.learning.adapt_settings import AdaptSettings
from aerial_vpr_cl.learning.update import RunningUpdate
from aerial_vpr_cl.learning.update_process import UpdateLimits
from aerial_vpr_cl.mission import unpacking
from aerial_vpr_cl.mission.bag_writer import MissionWriter
from aerial_vpr_cl.mission.messages import IMAGE, deserialize, raw_image, serialize
from aerial_vpr_cl.mission.mission import mission_facts, read_mission

SQLITE, MCAP = StoragePlugin.SQLITE3, StoragePlugin.MCAP
INFORMATION = "rosbag2_bagfile_information:\n  "


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"5",
        b"\xff\xfe\x00",
        b"[" * 600,
        b"a: &a [*a]",
        b"when: 2026-99-99",
        b"rosbag2_bagfile_information: 5",
        b"rosbag2_bagfile_information: {1: 2, null: [3]}",
        *(
            (INFORMATION + line).encode()
            for line in [
                "relative_file_paths: 5",
                "relative_file_paths: {a: b}",
                'relative_file_paths: [1, null, "a\\0b", {}, ../../etc/passwd]',
                'relative_file_paths: ["\\ud800"]',
                "custom_data: [1]",
                "custom_data: {1: 2, mission_name: [3], mission_modality: {}}",
                "compression_mode: [file]",
            ]
        ),
    ],
)
def test_a_bag_is_read_whatever_its_metadata_says(tmp_path, metadata):
    bag = fly(tmp_path / "bag")
    (bag / "metadata.yaml").write_bytes(metadata)
    assert len(read_mission(bag, GRID)) == FRAMES


def test_a_name_that_is_no_text_is_written_with_a_question_mark(tmp_path):
    bag = fly(tmp_path / os.fsdecode(b"caf\xe9"))
    assert mission_facts(bag)[0] == "caf?"
    (bag / "metadata.yaml").write_text(INFORMATION + 'custom_data: {mission_name: "a\\ud800b"}')
    assert mission_facts(bag)[0] == "a?b"
    foreign(tmp_path / "db3", SQLITE).rename(tmp_path / os.fsdecode(b"d\xe9"))
    assert mission_facts(tmp_path / os.fsdecode(b"d\xe9"))[0] == "d?"


def without_rules(bag):
    """The database of a bag, whose tables now take anything."""
    database = sqlite3.connect(next(bag.glob("*.db3")))
    database.executescript(
        "CREATE TABLE any AS SELECT * FROM messages; DROP TABLE messages; ALTER TABLE any RENAME TO messages"
    )
    return database


def test_rows_without_content_are_left_out(tmp_path, caplog):
    bag = foreign(tmp_path / "bag", SQLITE)
    with without_rules(bag) as database:
        for row in ("(900, 1, 5, NULL)", "(901, 2, NULL, x'00')", "(902, NULL, NULL, NULL)", "(903, 1, 'x', 'y')"):
            database.execute(f"INSERT INTO messages VALUES {row}")
        database.execute("UPDATE messages SET timestamp = -5 WHERE id = 1")
    assert len(read_mission(bag, GRID)) == FRAMES
    assert "4 rows are no messages" in caplog.text


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i"


@pytest.mark.parametrize(
    "change",
    [
        f"DROP TABLE messages; CREATE VIEW messages AS {ENDLESS} AS topic_id, i AS timestamp, x'00' AS data FROM n",
        f"DROP TABLE topics; CREATE VIEW topics AS {ENDLESS} AS id, '/a' AS name, 'b' AS type, "
        "'cdr' AS serialization_format FROM n",
        "DROP TABLE messages; CREATE TABLE messages (topic_id, timestamp, data AS (zeroblob(500000000)));"
        "INSERT INTO messages (topic_id, timestamp) VALUES (1, 1)",
        "DROP TABLE messages",
    ],
)
def test_tables_that_are_computed_are_not_read(tmp_path, change):
    bag = foreign(tmp_path / "bag", SQLITE)
    with sqlite3.connect(next(bag.glob("*.db3"))) as database:
        database.executescript(change)
    with pytest.raises(MissionError, match=r"cut short or damaged \(.*table"):
        read_mission(bag, GRID)


@pytest.mark.parametrize("name", ["a.mcap", "a.db3"])
def test_a_pipe_is_no_bag(tmp_path, name):
    os.mkfifo(tmp_path / name)
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(MissionError, match="not a rosbag2"):
            read_mission(path, GRID)
    os.mkfifo(tmp_path / "metadata.yaml")
    with pytest.raises(MissionError, match="not a rosbag2"):
        read_mission(tmp_path, GRID)


def write_bomb(path, compression, size=300 << 20):
    """A bag of some kilobytes with one message that claims to be large."""
    path.mkdir()
    with (path / "bomb.mcap").open("wb") as stream:
        writer = Writer(stream, compression=compression, chunk_size=1)
        writer.start()
        schema = writer.register_schema("sensor_msgs/msg/Image", "ros2msg", b"")
        channel = writer.register_channel("/image", "cdr", schema)
        writer.add_message(channel, 1, bytes(size), 1)
        writer.finish()
    return path


@pytest.mark.parametrize("compression", [CompressionType.ZSTD, CompressionType.LZ4])
def test_a_chunk_that_unpacks_to_more_than_a_flight_is_not_unpacked(tmp_path, compression, monkeypatch):
    monkeypatch.setattr(unpacking, "MOST_AT_ONCE", 1 << 20)
    bomb = write_bomb(tmp_path / "bomb", compression, size=40 << 20)
    assert (bomb / "bomb.mcap").stat().st_size < 400_000
    with pytest.raises(MissionError, match="unpack to far more than a flight can be"):
        read_mission(bomb, GRID)


def test_many_small_bombs_are_one_large_one(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "MOST_AT_ONCE", 1 << 20)
    packed = tmp_path / "packed"
    packed.write_bytes(bytes(1000))
    unpacker = unpacking.Unpacker(packed)
    part = zstandard.compress(bytes(1 << 20))
    assert len(unpacker.unpack(part, "zstd")) == 1 << 20
    with pytest.raises(MissionError, match="far more than a flight"):
        unpacker.unpack(part, "zstd")


@pytest.mark.parametrize("storage", [SQLITE, MCAP])
def test_a_bag_compressed_as_a_file_is_bounded_too(tmp_path, storage, monkeypatch):
    monkeypatch.setattr(unpacking, "MOST_AT_ONCE", 1 << 20)
    bag = foreign(tmp_path / "bag", storage, compression=CompressionMode.FILE)
    (file,) = bag.glob("*.zstd")
    file.write_bytes(zstandard.compress(bytes(40 << 20)))
    with pytest.raises(MissionError, match="far more than a flight"):
        read_mission(bag, GRID)


@pytest.mark.parametrize("encoding", ["8UC" + "9" * 5000, "16UC" + "1" * 30, "8UC\u0663", "\0", "C" * 100_000])
def test_an_absurd_encoding_is_refused_in_few_words(encoding):
    with pytest.raises(MissionError, match="is not supported") as caught:
        decode_raw(1, 1, encoding, 10, 0, bytes(10))
    assert len(str(caught.value)) < 700


def write_absurd(path):
    """A bag whose images have an encoding that Python cannot make a number of."""
    with MissionWriter(path) as writer:
        for second in range(5):
            writer.write_fix(stamp(second), *place(second))
            image = deserialize(raw_image(stamp(second), np.zeros((4, 4), np.uint8)), IMAGE)
            image = replace(image, encoding="8UC" + "9" * 5000)
            writer.write_serialized("/image", IMAGE, stamp(second), serialize(image, IMAGE))
    return path


def test_bad_missions_hold_up_neither_an_update_nor_adapt(tmp_path, capsys):
    store = GenerationStore(make_store(tmp_path))
    bad = store.missions_dir
    fly(bad / os.fsdecode(b"1-\xff"))  # over another map
    write_bomb(bad / "2-bomb", CompressionType.ZSTD)
    write_absurd(bad / "3-absurd")
    null = foreign(bad / "4-null", SQLITE)
    with without_rules(null) as database:
        database.execute("UPDATE messages SET data = NULL")
    (bad / "5-pipe").mkdir()
    os.mkfifo(bad / "5-pipe" / "a.mcap")
    write_flight(store.root, bad / "9-good", 12, name="9-good", modality="VIS")
    settings = AdaptSettings(cycles=1, views=1, budget=2, threads=1, device="cpu", gate_margin=1.0)
    outcome = RunningUpdate(store, settings, UpdateLimits(nice=0)).wait(240.0)
    assert outcome is not None and "9-good: learnt as generation 1" in outcome.message
    assert outcome.message.count("not learnt: ") == 5
    outcome.message.encode()  # goes out as a ROS message
    assert len(store.waiting_missions()) == 5
    assert main(["adapt", str(store.root), "--device", "cpu"]) == 1
    assert capsys.readouterr().out.count("not learnt: ") == 5
