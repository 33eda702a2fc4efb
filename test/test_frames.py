"""Frames as ROS has them: utm → map → odom → base_link fit together, and an operator may speak in either."""

import numpy as np
import pytest
from geometry_msgs.msg import PoseWithCovarianceStamped
from hypothesis import given
from hypothesis import strategies as st

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.geo.datum import Datum
from aerial_vpr_cl.geo.rotation import from_angles, from_quaternion, heading_of
from aerial_vpr_cl.mission.odometer import Place
from aerial_vpr_cl.nodes.frames import Frames, initial_pose_of
from aerial_vpr_cl.nodes.node_settings import FlightSettings

DATUM = Datum(512_300.0, 5_123_400.0, -2.1)
FRAMES = Frames.of(FlightSettings(), DATUM)
metres, degrees = st.floats(-5000.0, 5000.0), st.floats(0.0, 360.0)


def matrix(message):
    """(4, 4) of a TransformStamped."""
    rotation, translation = message.transform.rotation, message.transform.translation
    result = np.eye(4)
    result[:3, :3] = from_quaternion([rotation.x, rotation.y, rotation.z, rotation.w])
    result[:3, 3] = translation.x, translation.y, translation.z
    return result


@given(metres, metres, degrees)
def test_a_pose_in_map_taken_through_the_static_transform_is_the_pose_in_the_grid(east, north, heading):
    """As tf2 does it: what is published in `map` means the same ground and the same direction in `utm`."""
    point = np.array([DATUM.easting_m + east, DATUM.northing_m + north])
    x, y = DATUM.to_map(point)
    in_utm = matrix(FRAMES.map_in_utm(0)) @ [x, y, 0.0, 1.0]
    np.testing.assert_allclose(in_utm[:2], point, atol=1e-6)
    yaw = FRAMES.yaw_rad(heading)
    nose = matrix(FRAMES.map_in_utm(0))[:3, :3] @ [np.cos(yaw), np.sin(yaw), 0.0]
    np.testing.assert_allclose(nose, from_angles(heading)[:, 0], atol=1e-9)


@given(metres, metres, degrees, metres, metres, degrees, st.floats(-20.0, 20.0))
def test_map_to_odom_and_odom_to_base_end_where_the_camera_has_the_drone(x, y, heading, odom_x, odom_y, facing, tilt):
    by = Place(np.array([odom_x, odom_y, 120.0]), from_angles(facing, tilt, -tilt), origin=1)
    yaw = FRAMES.yaw_rad(heading)
    odom_to_base = np.eye(4)
    odom_to_base[:3, :3], odom_to_base[:3, 3] = by.rotation, by.position
    base = matrix(FRAMES.odom_in_map(0, np.array([x, y]), yaw, by)) @ odom_to_base
    np.testing.assert_allclose(base[:3, 3], [x, y, 120.0], atol=1e-6)  # the height is odometry's
    off = (np.radians(90.0 - heading_of(base[:3, :3])) - yaw + np.pi) % (2.0 * np.pi) - np.pi
    assert abs(off) < 1e-9


def test_transforms_name_the_frames_as_the_parameters_do():
    static, moving = FRAMES.map_in_utm(7), FRAMES.odom_in_map(7, np.zeros(2), 0.0, Place(np.zeros(3), np.eye(3), 1))
    assert (static.header.frame_id, static.child_frame_id) == ("utm", "map")
    assert (moving.header.frame_id, moving.child_frame_id, moving.header.stamp.nanosec) == ("map", "odom", 7)


def stated(frame_id, position, covariance):
    message = PoseWithCovarianceStamped()
    message.header.frame_id = frame_id
    message.pose.pose.position.x, message.pose.pose.position.y = map(float, position)
    full = np.zeros((6, 6))
    full[:2, :2] = covariance
    message.pose.covariance = full.reshape(-1)
    return message


@given(metres, metres)
def test_an_operator_may_say_the_same_place_in_either_frame(east, north):
    point = np.array([DATUM.easting_m + east, DATUM.northing_m + north])
    covariance = np.array([[900.0, 100.0], [100.0, 400.0]])
    said = [
        initial_pose_of(stated("utm", point, covariance), FRAMES),
        initial_pose_of(stated("map", DATUM.to_map(point), DATUM.covariance_to_map(covariance)), FRAMES),
        initial_pose_of(stated("", DATUM.to_map(point), DATUM.covariance_to_map(covariance)), FRAMES),
    ]
    for position, spread in said:
        np.testing.assert_allclose(position, point, atol=1e-6)
        np.testing.assert_allclose(spread, covariance, atol=1e-6)


def test_another_frame_or_no_number_is_refused_with_words():
    with pytest.raises(MissionError, match="'odom'; give it in 'map' or 'utm'"):
        initial_pose_of(stated("odom", (0.0, 0.0), np.eye(2)), FRAMES)
    with pytest.raises(MissionError, match="not a number"):
        initial_pose_of(stated("map", (np.nan, 0.0), np.eye(2)), FRAMES)


def test_a_parameter_file_of_before_which_names_utm_gets_eastings_and_northings_as_before():
    before = Frames.of(FlightSettings(map_frame_id="utm"), DATUM)
    point, covariance = np.array([512_345.0, 5_123_456.0]), np.eye(2) * 100.0
    position, _ = initial_pose_of(stated("utm", point, covariance), before)
    assert before.datum.to_map(point).tolist() == position.tolist() == point.tolist()
    assert before.yaw_rad(90.0) == 0.0
