"""What the localization node records over real DDS: frames, fixes and instruments, until the drone has landed."""

import shutil
import signal

import numpy as np
import pytest
import store_support
from flight_support import Flight
from nav_msgs.msg import Odometry
from sensor_msgs.msg import CameraInfo, Imu
from std_msgs.msg import Bool, Float64
from std_srvs.srv import SetBool

from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.mission.bag_reader import open_bag
from aerial_vpr_cl.mission.mission import read_mission
from aerial_vpr_cl.nodes.living_node import LATCHED


@pytest.fixture(scope="module")
def flight(tmp_path_factory):
    with Flight(tmp_path_factory.mktemp("flight"), "recorded") as running:
        yield running.ready()


def test_instruments_are_heard_recorded_and_told_apart_when_they_fail(flight, tmp_path):
    """Remapped as in flight; without any of them the node goes on, and says what it does without."""
    store = flight.store
    parameters = {"height_message": "Float64", "sensors.horizontal_fov_deg": 60.0}
    with Flight(tmp_path, "equipped", store=store, **parameters) as equipped:
        equipped.ready()
        values = equipped.status(lambda values: values["state"] == "active")[2]
        assert values["input imu"] == "missing: level flight is assumed, the heading is unknown"
        assert values["input camera_info"] == "missing: horizontal_fov_deg of 60° is used"
        peer = equipped.peer
        imu, height = peer.publisher(Imu, "imu", 10), peer.publisher(Float64, "height", 10)
        odometry, calibration = peer.publisher(Odometry, "odometry", 10), peer.publisher(CameraInfo, "camera_info", 10)
        peer.wait_matched()
        assert peer.call(SetBool, "equipped/record", SetBool.Request(data=True)).success
        stamps, points = store_support.track(8)
        for row, image in enumerate(store_support.view(store, points)):
            attitude, moved = Imu(), Odometry()
            attitude.orientation.z = attitude.orientation.w = float(np.sqrt(0.5))  # the nose points north
            for message in (attitude, moved):
                message.header.stamp.sec, message.header.stamp.nanosec = divmod(int(stamps[row]), 10**9)
            moved.pose.pose.position.x, moved.pose.pose.orientation.w = 20.0 * row, 1.0
            imu.publish(attitude)
            height.publish(Float64(data=260.0))
            odometry.publish(moved)
            calibration.publish(CameraInfo())  # not calibrated: no K
            peer.spin(0.05)
            equipped.fix(stamps[row], *open_map(store).grid.projection.to_wgs84(points[row]))
            assert equipped.ask(image, stamps[row]).status.status == 0
        values = equipped.status(lambda values: values["input odometry"] == "alive")[2]
        assert values["input imu"] == "alive" and values["input camera_info"].startswith("alive, but")
        mission = peer.call(SetBool, "equipped/record", SetBool.Request(data=False)).message.removeprefix("mission ")
        recorded = open_bag(mission)
        assert {"/imu", "/height", "/odometry", "/camera/camera_info"} <= set(recorded.counts)
        assert recorded.types["/height"] == "std_msgs/msg/Float64"
        values = equipped.status(lambda values: values["input imu"].startswith("stale"))[2]
        assert "level flight is assumed" in values["input imu"]
        assert equipped.process.stop(signal.SIGINT) == 0
        shutil.rmtree(mission)


def test_a_recorded_flight_is_to_learning_the_simulators_bag(flight, tmp_path):
    grid = open_map(flight.store).grid
    original = read_mission(store_support.write_flight(flight.store, tmp_path / "original", 20), grid)
    assert flight.set(recording__rate_hz=0.0) == ""
    started = flight.peer.call(SetBool, f"{flight.name}/record", SetBool.Request(data=True))
    assert started.success and "recording mission" in started.message
    stamps, points = store_support.track(40, period_s=0.5)
    latitudes, longitudes = grid.projection.to_wgs84(points)
    for row, stamp_ns in enumerate(stamps):
        flight.fix(stamp_ns, latitudes[row], longitudes[row])
        if row % 2 == 0:
            message = flight.image(np.zeros((2, 2, 3), np.uint8), stamp_ns)
            message.data = original.frames[row // 2].image
            flight.ask_message(message)
        flight.peer.spin(0.005)
    assert flight.status(lambda values: values["recording"] == "recording")[2]["recording: problem"] == ""
    stopped = flight.peer.call(SetBool, f"{flight.name}/record", SetBool.Request(data=False))
    assert stopped.success
    (path,) = GenerationStore(flight.store).waiting_missions()
    assert str(path) in stopped.message
    recorded = read_mission(path, grid)
    assert np.array_equal(recorded.stamps_ns, original.stamps_ns)
    assert np.array_equal(recorded.positions, original.positions)
    assert np.array_equal(recorded.labels(grid), original.labels(grid))
    assert [frame.image for frame in recorded.frames] == [frame.image for frame in original.frames]


def test_what_the_autopilot_says_of_a_landing_ends_the_recording(flight):
    landed = flight.peer.publisher(Bool, "landed", LATCHED)
    flight.peer.wait_matched()
    assert flight.set(recording__mode="auto") == ""
    assert flight.peer.call(SetBool, f"{flight.name}/record", SetBool.Request(data=True)).success
    stamps, points = store_support.track(30, period_s=0.5)
    for stamp_ns, latitude, longitude in zip(stamps, *open_map(flight.store).grid.projection.to_wgs84(points)):
        flight.fix(stamp_ns + 5 * 10**15, latitude, longitude)
        flight.peer.spin(0.02)
    flight.status(lambda values: values["recording"] == "recording")
    landed.publish(Bool(data=True))
    flight.status(lambda values: values["recording"] == "off")
    assert flight.set(recording__mode="service") == ""
