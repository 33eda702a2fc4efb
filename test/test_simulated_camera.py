"""The camera under somebody else's simulator: where it hangs and looks, from what MAVLink says."""

import math

import pytest
from pymavlink.dialects.v20 import ardupilotmega as mavlink

from aerial_vpr_cl.geo.projection import Projection
from aerial_vpr_cl.nodes.simulated_camera_node import VehiclePose

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
