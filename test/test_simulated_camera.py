"""The camera under somebody else's simulator: where it hangs and looks, from what MAVLink says."""

import math
import time

import cv2
import numpy as np
import pytest
from autopilot_support import Vehicle, free_port
from pymavlink.dialects.v20 import ardupilotmega as mavlink
from rclpy.qos import qos_profile_sensor_data
from ros_support import NodeProcess, Peer
from sensor_msgs.msg import CameraInfo, CompressedImage, NavSatFix

from aerial_vpr_cl.geo.projection import Projection
from aerial_vpr_cl.nodes.simulated_camera_node import VehiclePose
from aerial_vpr_cl.simulation.camera import Pose, develop, take_picture
from aerial_vpr_cl.simulation.scenario import load_scenario

PROJECTION = Projection(32614)
HEIGHT = mavlink.MAVLink_global_position_int_message(0, 0, 0, 0, 120_000, 0, 0, 0, 0)


def ardupilot(roll=0.1, pitch=-0.05, yaw=1.5):
    return mavlink.MAVLink_simstate_message(roll, pitch, yaw, *[0.0] * 6, 470_000_000, -990_000_000)


def test_the_pose_is_the_simulators_true_one():
    vehicle = VehiclePose(PROJECTION.to_utm)
    vehicle.take(HEIGHT, 0)
    vehicle.take(ardupilot(), 7)
    assert vehicle.stamp_ns == 7
    assert vehicle.pose.position == pytest.approx(PROJECTION.to_utm(47.0, -99.0))
    assert vehicle.pose.altitude_m == 120.0
    angles = (vehicle.pose.heading_deg, vehicle.pose.pitch_deg, vehicle.pose.roll_deg)
    assert angles == pytest.approx([math.degrees(angle) for angle in (1.5, -0.05, 0.1)])


def test_the_height_is_the_simulators_above_home():
    vehicle = VehiclePose(PROJECTION.to_utm)
    vehicle.take(mavlink.MAVLink_global_position_int_message(0, 0, 0, 620_000, 120_000, 0, 0, 0, 0), 0)  # home: 500 m
    floats = [4.7e8, -9.9e8, 623.0, 0.0, 0.0, 0.0, 0.0, 0.0]  # ArduPilot's latitude and longitude are no degrees
    state = mavlink.MAVLink_sim_state_message(*[0.0] * 13, *floats, lat_int=470_000_000, lon_int=-990_000_000)
    vehicle.take(state, 0)
    assert vehicle.pose.position == pytest.approx(PROJECTION.to_utm(47.0, -99.0))
    assert vehicle.pose.altitude_m == pytest.approx(123.0)


def test_without_a_height_and_on_the_ground_there_is_no_picture():
    vehicle = VehiclePose(PROJECTION.to_utm)
    vehicle.take(ardupilot(), 0)
    assert vehicle.pose is None
    vehicle.take(mavlink.MAVLink_global_position_int_message(0, 0, 0, 0, 1_000, 0, 0, 0, 0), 0)
    vehicle.take(ardupilot(), 0)
    assert vehicle.pose is None


def test_what_the_autopilot_believes_does_not_move_the_camera():
    vehicle = VehiclePose(PROJECTION.to_utm)
    vehicle.take(HEIGHT, 0)
    vehicle.take(ardupilot(), 0)
    before = vehicle.pose
    vehicle.take(mavlink.MAVLink_global_position_int_message(0, 480_000_000, -980_000_000, 0, 120_000, 0, 0, 0, 0), 0)
    assert vehicle.pose is before


# The node as a process: MAVLink over real UDP on one side, real DDS on the other

SCENARIO = """
world: {seed: 3, width_m: 900, height_m: 900, resolution_m: 3, epsg: 32614, west: 500000, south: 5205000}
missions:
  - {name: one, frames: 2, camera: {width_px: 96, height_px: 72, hfov_deg: 60, noise: 0.0, jpeg_quality: 95}}
"""
CENTRE = (500_450.0, 5_205_450.0)


@pytest.fixture
def camera(tmp_path):
    """The node, the simulator that it follows, and a ROS node beside it."""
    port = free_port()
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    parameters = {"scenario": str(tmp_path / "scenario.yaml"), "autopilot": f"udp:127.0.0.1:{port}", "rate_hz": 10.0}
    with (
        NodeProcess("simulated_camera_node", log=tmp_path / "log", parameters=parameters) as node,
        Peer() as peer,
    ):
        vehicle = Vehicle(port)
        yield node, vehicle, peer
        vehicle.close()


def fly(peer, vehicle, place, until, limit_s=240.0):
    """The simulator says again and again that the vehicle hangs level at a place, 200 m up, its nose to the north."""
    latitude, longitude = (round(float(value) * 1e7) for value in PROJECTION.to_wgs84(np.array(place)))
    end_s = time.monotonic() + limit_s
    while not until() and time.monotonic() < end_s:
        vehicle.beat()
        vehicle.send(mavlink.MAVLink_global_position_int_message(vehicle.boot_ms, 0, 0, 200_000, 200_000, 0, 0, 0, 0))
        vehicle.send(mavlink.MAVLink_simstate_message(0.0, 0.0, 0.0, *[0.0] * 6, latitude, longitude))
        peer.spin(0.05)
        vehicle.heard()
    assert until()


def test_any_simulator_that_speaks_mavlink_flies_over_our_worlds(camera, tmp_path):
    _, vehicle, peer = camera
    images = peer.listen(CompressedImage, "image", qos_profile_sensor_data)
    infos = peer.listen(CameraInfo, "camera_info", qos_profile_sensor_data)
    truths = peer.listen(NavSatFix, "simulated_camera/truth")
    fly(peer, vehicle, CENTRE, lambda: images and infos and truths)
    scenario = load_scenario(tmp_path / "scenario.yaml")
    (spec,) = scenario.missions
    ground = scenario.world_of(spec).ground(spec.appearance, spec.modality)
    expected = develop(
        take_picture(ground, spec.camera, Pose(np.array(CENTRE), 200.0, 0.0, 0.0, 0.0)),
        spec.camera,
        np.random.default_rng(0),
    )
    seen = cv2.cvtColor(cv2.imdecode(np.frombuffer(images[-1].data, np.uint8), 1), cv2.COLOR_BGR2RGB)
    assert np.abs(seen.astype(int) - expected).mean() < 5.0 < expected.std()
    assert (infos[-1].width, infos[-1].height) == (96, 72)
    assert infos[-1].k[0] == pytest.approx(48.0 / math.tan(math.radians(30.0)))
    truth = next(truth for truth in truths if truth.header.stamp in [image.header.stamp for image in images])
    assert PROJECTION.to_utm(truth.latitude, truth.longitude) == pytest.approx(CENTRE, abs=0.1)


def test_beyond_the_world_there_is_no_picture(camera):
    node, vehicle, peer = camera
    images = peer.listen(CompressedImage, "image", qos_profile_sensor_data)
    beyond = (CENTRE[0] + 2000.0, CENTRE[1])
    fly(peer, vehicle, beyond, lambda: "beyond the world" in node.log)
    assert not images
    assert node.stop() == 0
