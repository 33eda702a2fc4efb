"""What we write into bags is what ROS would have written, byte for byte, and what it writes we read."""

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from mission_support import START_NS, jpeg, picture
from nav_msgs.msg import Odometry
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, Imu, NavSatFix, Range

from aerial_vpr_cl.images import decode_raw
from aerial_vpr_cl.mission import messages, sensor_messages
from aerial_vpr_cl.mission.readings import (
    ABOVE_HOME,
    SLANT,
    VERTICAL,
    CameraReading,
    HeightReading,
    ImuReading,
    OdometryReading,
)


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
    height = {"radiation_type": 1, "min_range": 0.5, "max_range": 600.0, "range": 300.0, "variance": 225.0}
    heights = [
        (headed(Range(**height), kind), HeightReading(START_NS + 5, 300.0, 15.0, 0.5, 600.0, kind))
        for kind in (SLANT, VERTICAL, ABOVE_HOME)
    ]
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
        *heights,
        (headed(camera, "camera"), CameraReading(time, 320, 240, 250.0, 260.0, 159.5, 119.5, distortion)),
        (odometry, OdometryReading(time, (1.0, 2.0, 3.0), HALF_TURN)),
    ]:
        message_type, ours = sensor_messages.serialized(reading)
        assert_same_cdr(ours, message, message_type)
        again = type(reading).from_message(message)
        for ours, theirs in zip(again, reading):  # each field by itself: orientations are tuples, or missing
            assert ours == (theirs if isinstance(theirs, str | None) else pytest.approx(theirs, nan_ok=True))


@pytest.mark.parametrize("frame_id", ["", "base_link", "lidar"])
def test_a_range_in_any_other_frame_is_one_along_the_body(frame_id):
    assert HeightReading.from_message(headed(Range(range=80.0), frame_id)).kind == SLANT


def test_a_binned_part_of_the_sensor_has_the_intrinsics_of_what_is_sent():
    message = CameraInfo(width=640, height=480, binning_x=2, binning_y=2)
    message.k = np.array([500.0, 0.0, 319.5, 0.0, 500.0, 239.5, 0.0, 0.0, 1.0])
    message.roi.x_offset, message.roi.y_offset, message.roi.width, message.roi.height = 160, 120, 320, 240
    reading = CameraReading.from_message(message, 7)
    assert reading == CameraReading(7, 160, 120, 250.0, 250.0, 79.5, 59.5)
