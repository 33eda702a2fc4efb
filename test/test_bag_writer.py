"""Missions are written as rosbag2 directories that others can read."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml
from bag_support import FRAMES, assert_whole_flight
from mcap.reader import make_reader
from mission_support import GRID, fly, jpeg, picture, place, stamp
from rclpy.serialization import deserialize_message, serialize_message
from rosbags.interfaces import QosReliability
from rosbags.rosbag2 import Reader
from sensor_msgs.msg import NavSatFix

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.images import decode_raw
from aerial_vpr_cl.mission import messages
from aerial_vpr_cl.mission.bag_writer import MissionWriter
from aerial_vpr_cl.mission.mission import read_mission


@pytest.fixture(scope="module")
def flown(tmp_path_factory) -> Path:
    return fly(tmp_path_factory.mktemp("bags") / "sortie", FRAMES, name="JHT-01", modality="IR")


def test_a_mission_comes_back_as_it_was_written(flown):
    mission = read_mission(flown, GRID)
    assert (mission.name, mission.modality, len(mission), mission.refused) == ("JHT-01", "IR", FRAMES, {})
    assert mission.path == flown
    assert_whole_flight(mission)
    assert [frame.image for frame in mission.frames] == [jpeg(index) for index in range(FRAMES)]
    np.testing.assert_array_equal(mission.labels(GRID), GRID.class_of(mission.positions))
    assert mission.frames[3].decode().shape == (48, 64, 3)


def test_our_bags_open_with_rosbags(flown):
    with Reader(flown) as reader:
        offered = {c.topic: (c.msgtype, c.msgcount, c.ext.offered_qos_profiles) for c in reader.connections}
        assert reader.message_count == 4 * FRAMES == len(list(reader.messages()))
        for connection, _, data in reader.messages():
            assert messages.type_store().deserialize_cdr(data, connection.msgtype).header.stamp.sec >= 1_700_000_000
    assert {topic: entry[:2] for topic, entry in offered.items()} == {
        "/fix": (messages.NAV_SAT_FIX, 2 * FRAMES),
        "/camera/image/compressed": (messages.COMPRESSED_IMAGE, FRAMES),
        "/ground_truth/fix": (messages.NAV_SAT_FIX, FRAMES),
    }
    assert offered["/camera/image/compressed"][2][0].reliability == QosReliability.BEST_EFFORT
    assert offered["/fix"][2][0].reliability == QosReliability.RELIABLE


def test_our_bags_open_with_mcap(flown):
    with (flown / "sortie_0.mcap").open("rb") as stream:
        reader = make_reader(stream, validate_crcs=True)
        entries = [(schema.name, channel.topic, message) for schema, channel, message in reader.iter_messages()]
        records = {record.name: record.metadata for record in reader.iter_metadata()}
        assert reader.get_header().profile == "ros2"
    assert len(entries) == 4 * FRAMES
    assert records["aerial_vpr_cl"] == {"mission_name": "JHT-01", "mission_modality": "IR"}
    inner = yaml.safe_load(records["rosbag2"]["serialized_metadata"])
    outer = yaml.safe_load((flown / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert inner == outer
    assert (outer["version"], outer["storage_identifier"], outer["message_count"]) == (8, "mcap", 4 * FRAMES)
    assert outer["duration"]["nanoseconds"] == (FRAMES - 0.5) * 1e9


def test_messages_of_ros_nodes_are_recorded_as_they_came(tmp_path):
    fix = NavSatFix(latitude=48.0, longitude=11.5)
    with MissionWriter(tmp_path / "bag") as writer:
        writer.write_serialized("/fix", messages.NAV_SAT_FIX, 7, serialize_message(fix))
        with pytest.raises(MissionError, match="/fix holds sensor_msgs/msg/NavSatFix, not sensor_msgs/msg/Image"):
            writer.write_serialized("/fix", messages.IMAGE, 8, b"")
        with pytest.raises(MissionError, match="px4_msgs/msg/Odd is not known"):
            writer.write_serialized("/odd", "px4_msgs/msg/Odd", 8, b"")
    with Reader(tmp_path / "bag") as reader:
        ((_, received_ns, data),) = reader.messages()
    assert (received_ns, deserialize_message(bytes(data), NavSatFix)) == (7, fix)


def test_bytes_written_follows_the_size_on_disk(tmp_path):
    with MissionWriter(tmp_path / "bag") as writer:
        sizes = [writer.bytes_written]
        for second in range(10):
            writer.write_image(stamp(second), jpeg(second, (480, 640)))
            sizes.append(writer.bytes_written)
    on_disk = sum(file.stat().st_size for file in (tmp_path / "bag").iterdir())
    assert (np.diff(sizes) >= len(jpeg(0, (480, 640))) * 0.9).all()
    assert sizes[-1] == pytest.approx(on_disk, rel=0.1)
    assert writer.bytes_written == on_disk


def test_the_writer_refuses_what_cannot_be_right(tmp_path, flown):
    with pytest.raises(MissionError, match="exists already"):
        MissionWriter(flown)
    with pytest.raises(MissionError, match="modality 'RGB' is unknown; choose one of VIS, IR"):
        MissionWriter(tmp_path / "a", modality="RGB")
    with pytest.raises(MissionError, match="compression 'zip' is unknown"):
        MissionWriter(tmp_path / "a", compression="zip")
    with MissionWriter(tmp_path / "b") as writer:
        with pytest.raises(MissionError, match="neither a JPEG nor a PNG"):
            writer.write_image(1, b"no image")
        with pytest.raises(MissionError, match="neither RGB"):
            writer.write_raw_image(1, np.zeros((4, 4, 2), np.uint8))
    writer.close()
    with pytest.raises(MissionError, match="closed"):
        writer.write_image(2, jpeg(1))
    with pytest.raises(MissionError, match="cannot be created"):
        MissionWriter(flown / "metadata.yaml" / "c")


def test_raw_and_thermal_frames_are_kept_as_lossless_png(tmp_path):
    thermal = np.linspace(29_000, 31_000, 48 * 64).reshape(48, 64).astype(np.uint16)
    png = cv2.imencode(".png", thermal)[1].tobytes()
    for name, write in {
        "rgb": lambda writer, ns: writer.write_raw_image(ns, picture(1)),
        "mono16": lambda writer, ns: writer.write_raw_image(ns, thermal),
        "png16": lambda writer, ns: writer.write_image(ns, png),
    }.items():
        with MissionWriter(tmp_path / name, modality="IR") as writer:
            for second in range(3):
                writer.write_fix(stamp(second), *place(second))
                write(writer, stamp(second))
        image = read_mission(tmp_path / name, GRID).frames[0].image
        shown = cv2.cvtColor(cv2.imdecode(np.frombuffer(image, np.uint8), cv2.IMREAD_UNCHANGED), cv2.COLOR_BGR2RGB)
        expected = picture(1) if name == "rgb" else decode_raw(48, 64, "mono16", 128, 0, thermal.tobytes())
        np.testing.assert_array_equal(shown, expected)
