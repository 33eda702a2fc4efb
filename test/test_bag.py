"""Missions are rosbag2 directories that others can read, and so are theirs; damage costs no more than its part."""

import logging
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml
from builtin_interfaces.msg import Time
from mcap.reader import make_reader
from mission_support import GRID, ORIGIN, START_NS, fly, jpeg, picture, place, stamp
from nav_msgs.msg import Odometry
from rclpy.serialization import deserialize_message, serialize_message
from rosbags.interfaces import QosReliability
from rosbags.rosbag2 import CompressionFormat, CompressionMode, Reader, StoragePlugin, Writer
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, Imu, NavSatFix, Range

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.images import decode_raw
from aerial_vpr_cl.mission import messages, sensor_messages
from aerial_vpr_cl.mission.bag_writer import MissionWriter
from aerial_vpr_cl.mission.gnss import OWN_HEIGHT_VARIANCE_M2
from aerial_vpr_cl.mission.mission import mission_facts, read_mission
from aerial_vpr_cl.mission.readings import CameraReading, HeightReading, ImuReading, OdometryReading

FRAMES = 20


@pytest.fixture(scope="module")
def flown(tmp_path_factory) -> Path:
    return fly(tmp_path_factory.mktemp("bags") / "sortie", FRAMES, name="JHT-01", modality="IR")


def foreign(path, storage, raw=False, compression=None, unstamped=False):
    """The same flight as another recorder would write it, by rosbags' own writer."""
    writer = Writer(path, version=9, storage_plugin=storage)
    if compression:
        writer.set_compression(compression, CompressionFormat.ZSTD)
    with writer:
        store = messages.type_store()
        kind = messages.IMAGE if raw else messages.COMPRESSED_IMAGE
        camera = writer.add_connection("/cam0/image_raw", kind, typestore=store)
        gnss = writer.add_connection("/mavros/global_position/raw/fix", messages.NAV_SAT_FIX, typestore=store)
        for half_second in range(2 * FRAMES):
            time = half_second / 2
            header = 0 if unstamped else stamp(time)
            writer.write(gnss, stamp(time), messages.nav_sat_fix(header, *place(time), 500.0))
            if half_second % 2 == 0:
                index = half_second // 2
                image = messages.raw_image(header, picture(index)) if raw else None
                writer.write(camera, stamp(time), image or messages.compressed_image(header, jpeg(index)))
    return path


def assert_whole_flight(mission):
    np.testing.assert_array_equal(mission.stamps_ns, [stamp(second) for second in range(len(mission))])
    np.testing.assert_allclose(mission.positions - ORIGIN, [[20.0 * s, 0] for s in range(len(mission))], atol=1e-3)


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


def assert_same_cdr(ours, message, message_type):
    """Equal but for alignment bytes, which ROS leaves undefined and we set to zero."""
    theirs = serialize_message(message)
    assert len(ours) == len(theirs)
    assert deserialize_message(ours, type(message)) == message
    assert messages.serialize(messages.deserialize(theirs, message_type), message_type) == ours


def test_our_cdr_is_that_of_ros_both_ways():
    time = Time(sec=1_700_000_000, nanosec=5)
    cov = [4.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 4.0]
    fix = NavSatFix(latitude=48.0, longitude=11.5, altitude=500.0, position_covariance=cov, position_covariance_type=2)
    fix.status.status, fix.status.service = -1, 1
    fix.header.frame_id, fix.header.stamp = "gnss", time
    ours = messages.nav_sat_fix(START_NS + 5, 48.0, 11.5, 500.0, status=-1, variance_m2=4.0)
    assert_same_cdr(ours, fix, messages.NAV_SAT_FIX)

    compressed = CompressedImage(format="jpeg", data=jpeg(1))
    compressed.header.frame_id, compressed.header.stamp = "camera", time
    assert_same_cdr(messages.compressed_image(START_NS + 5, jpeg(1)), compressed, messages.COMPRESSED_IMAGE)

    pixels = picture(2)
    raw = Image(height=48, width=64, encoding="rgb8", step=192, data=pixels.tobytes())
    raw.header.frame_id, raw.header.stamp = "camera", time
    ours = messages.raw_image(START_NS + 5, pixels)
    assert_same_cdr(ours, raw, messages.IMAGE)
    theirs = deserialize_message(ours, Image)
    decoded = decode_raw(theirs.height, theirs.width, theirs.encoding, theirs.step, theirs.is_bigendian, theirs.data)
    np.testing.assert_array_equal(decoded, pixels)


HALF_TURN = (0.0, 0.0, 1.0, 0.0)


def headed(message, frame_id):
    message.header.frame_id, message.header.stamp = frame_id, Time(sec=1_700_000_000, nanosec=5)
    return message


def turned(quaternion):
    quaternion.x, quaternion.y, quaternion.z, quaternion.w = HALF_TURN


def test_readings_of_instruments_are_those_of_ros_both_ways():
    not_given = [-1.0, *[0.0] * 8]
    imu = headed(Imu(angular_velocity_covariance=not_given, linear_acceleration_covariance=not_given), "base_link")
    turned(imu.orientation)
    tilt, heading = np.radians(2.0) ** 2, np.radians(5.0) ** 2
    imu.orientation_covariance = [tilt, 0.0, 0.0, 0.0, tilt, 0.0, 0.0, 0.0, heading]
    blind = headed(Imu(orientation_covariance=not_given), "base_link")
    blind.angular_velocity_covariance = blind.linear_acceleration_covariance = np.array(not_given)
    height = Range(radiation_type=1, min_range=0.5, max_range=600.0, range=300.0, variance=225.0)
    k = [250.0, 0.0, 159.5, 0.0, 260.0, 119.5, 0.0, 0.0, 1.0]
    camera = CameraInfo(width=320, height=240, distortion_model="plumb_bob", d=[0.1, -0.2, 0.0, 0.0, 0.0], k=k)
    camera.r, camera.p = np.eye(3).reshape(-1), [250.0, 0.0, 159.5, 0.0, 0.0, 260.0, 119.5, 0.0, 0.0, 0.0, 1.0, 0.0]
    odometry = headed(Odometry(child_frame_id="base_link"), "odom")
    position = odometry.pose.pose.position
    position.x, position.y, position.z = 1.0, 2.0, 3.0
    turned(odometry.pose.pose.orientation)
    time = START_NS + 5
    distortion = (0.1, -0.2, 0.0, 0.0, 0.0)
    for message, reading in [
        (imu, ImuReading(time, HALF_TURN, 5.0, 2.0)),
        (blind, ImuReading(time, None)),
        (headed(height, "range_finder"), HeightReading(time, 300.0, 15.0, 0.5, 600.0)),
        (headed(camera, "camera"), CameraReading(time, 320, 240, 250.0, 260.0, 159.5, 119.5, distortion)),
        (odometry, OdometryReading(time, (1.0, 2.0, 3.0), HALF_TURN)),
    ]:
        message_type, ours = sensor_messages.serialized(reading)
        assert_same_cdr(ours, message, message_type)
        again = type(reading).from_message(message)
        for ours, theirs in zip(again, reading):  # each field by itself: orientations are tuples, or missing
            assert ours == (theirs if isinstance(theirs, str | None) else pytest.approx(theirs, nan_ok=True))


def test_a_binned_part_of_the_sensor_has_the_intrinsics_of_what_is_sent():
    message = CameraInfo(width=640, height=480, binning_x=2, binning_y=2)
    message.k = np.array([500.0, 0.0, 319.5, 0.0, 500.0, 239.5, 0.0, 0.0, 1.0])
    message.roi.x_offset, message.roi.y_offset, message.roi.width, message.roi.height = 160, 120, 320, 240
    reading = CameraReading.from_message(message, 7)
    assert reading == CameraReading(7, 160, 120, 250.0, 250.0, 79.5, 59.5)


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


@pytest.mark.parametrize("storage", [StoragePlugin.SQLITE3, StoragePlugin.MCAP])
@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("compression", [None, CompressionMode.MESSAGE, CompressionMode.FILE])
def test_bags_of_other_recorders_are_read(tmp_path, storage, raw, compression):
    mission = read_mission(foreign(tmp_path / "flight.7", storage, raw, compression), GRID)
    assert (mission.name, mission.modality, len(mission)) == ("flight.7", "unknown", FRAMES)
    assert_whole_flight(mission)
    if raw:
        np.testing.assert_array_equal(mission.frames[5].decode(), picture(5))
        assert mission.frames[5].image.startswith(messages.PNG_SIGNATURE)
    else:
        assert mission.frames[5].image == jpeg(5)


@pytest.mark.parametrize("storage", [StoragePlugin.SQLITE3, StoragePlugin.MCAP])
def test_bags_without_metadata_and_bare_files_are_read(tmp_path, storage):
    bag = foreign(tmp_path / "bag", storage)
    (bag / "metadata.yaml").unlink()
    assert_whole_flight(read_mission(bag, GRID))
    (file,) = bag.iterdir()
    assert_whole_flight(read_mission(file, GRID, modality="IR"))


def test_chunks_compressed_by_zstd_or_lz4_are_read(tmp_path):
    zstd = foreign(tmp_path / "zstd", StoragePlugin.MCAP, raw=True, compression=CompressionMode.STORAGE)
    assert_whole_flight(read_mission(zstd, GRID))
    assert_whole_flight(read_mission(fly(tmp_path / "lz4", compression="lz4"), GRID))


def test_images_without_stamp_get_the_time_they_were_received(tmp_path):
    assert_whole_flight(read_mission(foreign(tmp_path / "bag", StoragePlugin.MCAP, unstamped=True), GRID))


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


def test_frames_without_a_good_position_are_refused_and_counted(tmp_path):
    with MissionWriter(tmp_path / "bag") as writer:
        for second in range(30):
            bad = {"status": -1} if 5 <= second < 10 else {"variance_m2": 900.0} if 12 <= second < 17 else {}
            if not 20 <= second < 24:
                writer.write_fix(stamp(second), *place(second), 500.0, **bad)
            writer.write_image(stamp(second + 0.5), jpeg(second))
        writer.write_image(stamp(3.5), jpeg(3))
        writer.write_image(stamp(3.25), jpeg(3)[:200])
    mission = read_mission(tmp_path / "bag", GRID)
    counts = {"no fix": 6, "covariance": 6, "gap": 5, "duplicate": 1, "damaged image": 1}
    assert mission.refused == counts
    assert len(mission) == 30 - 17
    assert (np.diff(mission.stamps_ns) > 0).all()


def test_time_running_backwards_is_sorted_and_said(tmp_path, caplog):
    with MissionWriter(tmp_path / "bag") as writer:
        for second in [5, 6, 7, 0, 1, 2, 3, 4]:
            writer.write_fix(stamp(second), *place(second))
            writer.write_image(stamp(second), jpeg(second))
    mission = read_mission(tmp_path / "bag", GRID)
    assert_whole_flight(mission)
    assert [frame.image for frame in mission.frames] == [jpeg(second) for second in range(8)]
    assert "time runs backwards 1 times" in caplog.text


def test_own_answers_never_become_labels_whatever_their_topic_is_called(tmp_path):
    def answer(second):
        return messages.nav_sat_fix(stamp(second), *place(second), 0.0, variance_m2=OWN_HEIGHT_VARIANCE_M2)

    with MissionWriter(tmp_path / "bag") as writer:
        for second in range(10):
            writer.write_serialized("/eyes/fix", messages.NAV_SAT_FIX, stamp(second), answer(second))
            writer.write_image(stamp(second), jpeg(second))
            if second < 3:
                writer.write_fix(stamp(second), *place(second))
    assert len(read_mission(tmp_path / "bag", GRID)) < 5
    with pytest.raises(MissionError, match="an answer of this package"):
        read_mission(tmp_path / "bag", GRID, fix_topic="/eyes/fix")


def test_truth_is_used_only_when_asked_for(tmp_path):
    with MissionWriter(tmp_path / "bag") as writer:
        for second in range(10):
            writer.write_truth(stamp(second), *place(second))
            writer.write_truth(stamp(second + 0.5), *place(second + 0.5))
            writer.write_fix(stamp(second), *place(second + 2))  # 40 m off, and fewer than the truth
            writer.write_image(stamp(second), jpeg(second))
    gnss, truth = (read_mission(tmp_path / "bag", GRID, positions=kind) for kind in ("gnss", "truth"))
    np.testing.assert_allclose(gnss.positions - truth.positions, [[40.0, 0.0]] * 10, atol=1e-3)
    assert_whole_flight(truth)
    with pytest.raises(MissionError, match="choose gnss or truth"):
        read_mission(tmp_path / "bag", GRID, positions="visual")


def test_topics_are_chosen_by_type_and_number_or_by_name(tmp_path, flown):
    with MissionWriter(tmp_path / "bag") as writer:
        for second in range(10):
            fix = messages.nav_sat_fix(stamp(second), *place(second), 500.0)
            writer.write_serialized("/fix", messages.NAV_SAT_FIX, stamp(second), fix)
            for tenth in range(10):  # our own estimates, more of them than of the receiver's
                writer.write_serialized(
                    "/drone/localization/fix", messages.NAV_SAT_FIX, stamp(second + tenth / 10), fix
                )
            writer.write_raw_image(stamp(second), picture(second))  # the same camera twice
            writer.write_image(stamp(second), jpeg(second))
            front = messages.compressed_image(stamp(second), jpeg(50 + second))
            writer.write_serialized("/front/compressed", messages.COMPRESSED_IMAGE, stamp(second), front)
            if second < 3:
                writer.write_serialized("/gnss2", messages.NAV_SAT_FIX, stamp(second), fix)
    with pytest.raises(MissionError, match=r"/camera/image/compressed \(10 .*/front/compressed \(10 .*--image-topic"):
        read_mission(tmp_path / "bag", GRID)
    assert read_mission(tmp_path / "bag", GRID, image_topic="front/compressed").frames[0].image == jpeg(50)
    down = read_mission(tmp_path / "bag", GRID, image_topic="/camera/image/compressed")
    assert down.frames[0].image == jpeg(0)
    assert_whole_flight(down)
    with pytest.raises(MissionError, match="/odd is not in the bag; --fix-topic can be: /drone"):
        read_mission(tmp_path / "bag", GRID, image_topic="/camera/image", fix_topic="odd")
    with pytest.raises(MissionError, match=r"/fix is of type .*NavSatFix; --image-topic can be: /camera"):
        read_mission(flown, GRID, image_topic="/fix")


def test_of_a_cameras_raw_and_compressed_topics_one_is_taken(tmp_path):
    with MissionWriter(tmp_path / "bag") as writer:
        for second in range(5):
            writer.write_fix(stamp(second), *place(second))
            writer.write_raw_image(stamp(second), picture(second))
            writer.write_image(stamp(second), jpeg(second))
    assert read_mission(tmp_path / "bag", GRID).frames[0].image == jpeg(0)


def test_bags_that_cannot_be_used_say_why(tmp_path, flown):
    def refused(match, path, **options):
        with pytest.raises(MissionError, match=match) as caught:
            read_mission(path, GRID, **options)
        assert str(path) in str(caught.value)

    refused("no such bag", tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    refused("holds no .mcap or .db3", tmp_path / "folder")
    for name, match in {"old.bag": "rosbags-convert", "notes.txt": "not a rosbag2", "x.mcap": "not an MCAP"}.items():
        (tmp_path / name).write_text("something else entirely")
        refused(match, tmp_path / name)
    (tmp_path / "y.mcap").touch()
    refused("file is empty", tmp_path / "y.mcap")
    (tmp_path / "z.db3").write_text("not a database")
    refused("nothing of it can be read", tmp_path / "z.db3")

    with MissionWriter(tmp_path / "empty"):
        pass
    refused("no images in the bag .it is empty", tmp_path / "empty")
    with MissionWriter(tmp_path / "blind") as writer:
        writer.write_fix(1, *place(0))
    refused(r"no images in the bag \(it holds 1 × /fix\)", tmp_path / "blind")
    with MissionWriter(tmp_path / "lost") as writer:
        writer.write_image(1, jpeg(1))
        writer.write_truth(1, *place(0))
    refused("no GNSS in the bag", tmp_path / "lost")
    refused("only simulated bags", foreign(tmp_path / "foreign", StoragePlugin.MCAP), positions="truth")

    with MissionWriter(tmp_path / "jammed") as writer:
        for second in range(4):
            writer.write_fix(stamp(second), *place(second), status=-1)
            writer.write_image(stamp(second), jpeg(second))
    refused("none of the 4 images .* 4 no fix", tmp_path / "jammed")
    with MissionWriter(tmp_path / "clocks") as writer:
        for second in range(4):
            writer.write_fix(stamp(second), *place(second))
            writer.write_image(stamp(second) - START_NS + 1, jpeg(second))
    refused("the same clock", tmp_path / "clocks")


def cut(bag: Path, folder: Path, share: float, keep_metadata: bool) -> Path:
    copy = shutil.copytree(bag, folder)
    (file,) = (entry for entry in copy.iterdir() if entry.suffix in (".mcap", ".db3"))
    with file.open("r+b") as stream:
        stream.truncate(int(file.stat().st_size * share))
    if not keep_metadata:
        (copy / "metadata.yaml").unlink()
    return copy


@pytest.mark.parametrize("keep_metadata", [True, False])
def test_bags_cut_anywhere_are_read_up_to_the_last_whole_chunk(tmp_path, flown, caplog, keep_metadata):
    size = (flown / "sortie_0.mcap").stat().st_size
    lengths = []
    for number, share in enumerate([0.21, 0.4, 0.5, 0.66, 0.8, 0.95, 1 - 1 / size]):
        caplog.clear()
        copy = cut(flown, tmp_path / str(number), share, keep_metadata)
        mission = read_mission(copy, GRID)
        assert_whole_flight(mission)
        assert (mission.name, mission.modality) == ("JHT-01", "IR")
        assert "could be read" in caplog.text
        lengths.append(len(mission))
    assert lengths == sorted(lengths)
    assert lengths[0] >= 2
    assert lengths[-1] == FRAMES
    with pytest.raises(MissionError, match="nothing of it can be read"):
        read_mission(cut(flown, tmp_path / "stump", 100 / size, keep_metadata), GRID)


def test_a_cut_sqlite_bag_gives_what_is_readable_or_says_so(tmp_path, caplog):
    bag = foreign(tmp_path / "bag", StoragePlugin.SQLITE3)
    mission = read_mission(cut(bag, tmp_path / "most", 0.7, True), GRID)
    assert 0 < len(mission) < FRAMES
    assert "could be read" in caplog.text
    with pytest.raises(MissionError, match="cut short or damaged"):
        read_mission(cut(bag, tmp_path / "stump", 0.01, True), GRID)


def test_a_flipped_bit_costs_one_chunk_and_no_more(tmp_path, flown, caplog):
    copy = shutil.copytree(flown, tmp_path / "copy")
    data = bytearray((copy / "sortie_0.mcap").read_bytes())
    data[data.index(jpeg(9)) + 300] ^= 4
    (copy / "sortie_0.mcap").write_bytes(data)
    mission = read_mission(copy, GRID)
    assert len(mission) >= FRAMES - 3
    assert "chunk is damaged" in caplog.text
    assert stamp(9) not in mission.stamps_ns


def test_a_missing_part_of_a_bag_is_said_and_the_rest_read(tmp_path, flown, caplog):
    copy = shutil.copytree(flown, tmp_path / "copy")
    metadata = (copy / "metadata.yaml").read_text()
    listed = "relative_file_paths:\n  - sortie_0.mcap\n"
    assert listed in metadata
    (copy / "metadata.yaml").write_text(metadata.replace(listed, listed + "  - sortie_1.mcap\n"))
    assert_whole_flight(read_mission(copy, GRID))
    assert "sortie_1.mcap is missing" in caplog.text


WRITE_FOR_EVER = """
import itertools, sys
from pathlib import Path
sys.path[:0] = [sys.argv[2], str(Path(sys.argv[2]).parent)]
from mission_support import jpeg, place, stamp
from aerial_vpr_cl.mission.bag_writer import MissionWriter
writer = MissionWriter(Path(sys.argv[1]), name="LSZ-06", modality="VIS")
for index in itertools.count():
    time = index / 2
    writer.write_fix(stamp(time), *place(time))
    writer.write_image(stamp(time), jpeg(index))
    print(index, flush=True)
"""


def test_a_writer_killed_in_flight_loses_no_more_than_its_last_chunk(tmp_path, caplog):
    child = subprocess.Popen(
        [sys.executable, "-c", WRITE_FOR_EVER, str(tmp_path / "bag"), str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
        text=True,
    )
    written = 0
    for line in child.stdout:
        written = int(line) + 1
        if written >= 60:
            break
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert not (tmp_path / "bag" / "metadata.yaml").exists()
    with caplog.at_level(logging.WARNING):
        mission = read_mission(tmp_path / "bag", GRID)
    assert len(mission) >= written - 3  # a chunk is one second of flight, two frames here
    assert "could be read" in caplog.text
    assert (mission.name, mission.modality) == ("LSZ-06", "VIS") == mission_facts(tmp_path / "bag")
    np.testing.assert_array_equal(mission.stamps_ns, [stamp(index / 2) for index in range(len(mission))])
    assert [frame.image for frame in mission.frames[-2:]] == [jpeg(len(mission) - 2), jpeg(len(mission) - 1)]


FILL_THE_DISK = """
import resource, sys
from pathlib import Path
sys.path[:0] = [sys.argv[2], str(Path(sys.argv[2]).parent)]
from mission_support import jpeg, place, stamp
from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.mission.bag_writer import MissionWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
with MissionWriter(Path(sys.argv[1])) as writer:
    try:
        for index in range(1000):
            writer.write_fix(stamp(index), *place(index))
            writer.write_image(stamp(index), jpeg(index))
    except MissionError as error:
        print(error)
    try:
        writer.write_fix(stamp(index), *place(index))
    except MissionError as error:
        print(error)
"""


def test_a_full_disk_is_said_and_what_was_written_stays_readable(tmp_path):
    child = subprocess.run(
        [sys.executable, "-c", FILL_THE_DISK, str(tmp_path / "bag"), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=True,
    )
    first, second = child.stdout.splitlines()
    assert "cannot be written" in first
    assert "free some space" in first
    assert "earlier write failed" in second
    mission = read_mission(tmp_path / "bag", GRID)
    assert_whole_flight(mission)
    assert sum(len(frame.image) for frame in mission.frames) > 40_000
