"""A replay sends what the instruments said under the names the localization node hears them by."""

import numpy as np
import pytest
from mission_support import GRID, fly, jpeg, place, stamp

from aerial_vpr_cl.mission.bag_reader import open_bag
from aerial_vpr_cl.mission.bag_writer import MissionWriter
from aerial_vpr_cl.mission.mission import read_mission
from aerial_vpr_cl.mission.playback import open_playback
from aerial_vpr_cl.mission.readings import CameraReading, HeightReading, ImuReading, OdometryReading
from aerial_vpr_cl.mission.sensor_messages import CAMERA_INFO, IMU, ODOMETRY, RANGE, reading_of
from aerial_vpr_cl.mission.sensors import FlightSensors

EAST = (0.0, 0.0, 0.0, 1.0)


@pytest.fixture
def bag(tmp_path):
    """A flight due east; frames lie in the file two seconds late, as a recorder that waits for fixes writes them."""
    with MissionWriter(tmp_path / "flight") as writer:
        for tenth in range(80):
            time = tenth / 10
            writer.write_reading(ImuReading(stamp(time), EAST, 3.0, 2.0))
            writer.write_reading(HeightReading(stamp(time), 100.0 + time, 4.0))
            writer.write_reading(OdometryReading(stamp(time), (20.0 * time, 0.0, 0.0), EAST))
            if tenth % 10 == 0:
                writer.write_reading(CameraReading(stamp(time), 64, 48, 60.0, 60.0, 31.5, 23.5))
                writer.write_fix(stamp(time), *place(time), 500.0)
            if tenth >= 20 and tenth % 10 == 0:
                writer.write_image(stamp(time - 2.0), jpeg(tenth // 10))
    return tmp_path / "flight"


def test_instruments_are_played_under_the_names_of_the_node(bag):
    playback = open_playback(bag)
    assert playback.routes["/imu"] == "imu" and playback.routes["/camera/camera_info"] == "camera_info"
    published = playback.published()
    assert [published[name] for name in ("imu", "height", "camera_info", "odometry")] == [
        IMU,
        RANGE,
        CAMERA_INFO,
        ODOMETRY,
    ]
    assert set(open_playback(fly(bag.parent / "old", 3)).published()) == {"image", "fix"}


def test_all_messages_come_once_in_the_order_of_their_receipt(bag):
    cues = list(open_playback(bag))
    assert len(cues) == sum(open_bag(bag).counts.values())
    assert [cue.time_ns for cue in cues] == sorted(cue.time_ns for cue in cues)


def test_a_route_plays_an_instrument_elsewhere(bag):
    published = open_playback(bag, routes=["/odometry:=wheel_odometry"]).published()
    assert published["wheel_odometry"] == ODOMETRY and "odometry" not in published


def test_what_is_played_in_step_tells_a_node_what_the_reader_of_the_bag_knows(bag):
    read = {frame.stamp_ns: frame for frame in read_mission(bag, GRID).frames}
    live = FlightSensors(north_deg=GRID.north_deg)
    compared = 0
    for cue in open_playback(bag):
        if cue.topic in ("imu", "height", "camera_info", "odometry"):
            live.add(reading_of(cue.message_type, cue.data, cue.time_ns))
        elif cue.is_frame:
            situation, motion = live.at(cue.stamp_ns, (64, 48))
            frame = read[cue.stamp_ns]
            compared += 1
            np.testing.assert_allclose(situation.rotation, frame.situation.rotation, atol=1e-9)
            # In flight the newest reading may be one period old.
            assert situation.height_m == pytest.approx(frame.situation.height_m, abs=0.11)
            assert situation.camera == frame.situation.camera
            assert (motion is None) == (frame.motion is None)
            if motion is not None:
                np.testing.assert_allclose(motion.forward_left_m, frame.motion.forward_left_m, atol=1e-6)
    assert compared == 6
