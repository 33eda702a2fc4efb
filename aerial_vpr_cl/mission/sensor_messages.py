"""Readings of the drone's instruments as CDR bytes and back, and the topics on which this package's bags hold them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.mission.messages import deserialize, header, make, serialize
from aerial_vpr_cl.mission.readings import (
    CameraReading,
    HeightReading,
    ImuReading,
    OdometryReading,
    Quaternion,
    Reading,
)

IMU = "sensor_msgs/msg/Imu"
RANGE = "sensor_msgs/msg/Range"
FLOAT64 = "std_msgs/msg/Float64"
CAMERA_INFO = "sensor_msgs/msg/CameraInfo"
ODOMETRY = "nav_msgs/msg/Odometry"

TOPICS = {
    ImuReading: "/imu",
    HeightReading: "/height",
    CameraReading: "/camera/camera_info",
    OdometryReading: "/odometry",
}

_READINGS: dict[str, type[ImuReading | HeightReading | CameraReading | OdometryReading]] = {
    IMU: ImuReading,
    RANGE: HeightReading,
    FLOAT64: HeightReading,
    CAMERA_INFO: CameraReading,
    ODOMETRY: OdometryReading,
}
SENSOR_TYPES = tuple(_READINGS)
_NO_VARIANCE = bytes(4)  # what Humble's Range lacks at its end
_NOT_GIVEN = -1.0  # in the first element of a covariance of sensor_msgs/Imu
_UNKNOWN_HEADING_DEG = 180.0
_INFRARED = 1


def serialized(reading: Reading) -> tuple[str, bytes]:
    """Message type and CDR bytes of a reading."""
    if isinstance(reading, ImuReading):
        return IMU, _imu(reading)
    if isinstance(reading, HeightReading):
        return RANGE, _range(reading)
    if isinstance(reading, CameraReading):
        return CAMERA_INFO, _camera_info(reading)
    return ODOMETRY, odometry(reading)


def reading_of(message_type: str, data: bytes, received_ns: int) -> Reading:
    """CDR bytes to a reading; MissionError if they do not fit."""
    try:
        message = deserialize(data, message_type)
    except MissionError:
        if message_type != RANGE:
            raise
        message = deserialize(bytes(data) + _NO_VARIANCE, message_type)
    return _READINGS[message_type].from_message(message, received_ns)


def odometry(reading: OdometryReading, frame_id: str = "odom") -> bytes:
    """A serialized nav_msgs/Odometry; covariances and twist are not given: zero."""
    zero = _vector(0.0, 0.0, 0.0)
    pose = make(
        "geometry_msgs/msg/Pose",
        position=make("geometry_msgs/msg/Point", **dict(zip("xyz", reading.position))),
        orientation=_quaternion(reading.orientation),
    )
    message = make(
        ODOMETRY,
        header=header(reading.stamp_ns, frame_id),
        child_frame_id="base_link",
        pose=make("geometry_msgs/msg/PoseWithCovariance", pose=pose, covariance=np.zeros(36)),
        twist=make(
            "geometry_msgs/msg/TwistWithCovariance",
            twist=make("geometry_msgs/msg/Twist", linear=zero, angular=zero),
            covariance=np.zeros(36),
        ),
    )
    return serialize(message, ODOMETRY)


def _imu(reading: ImuReading) -> bytes:
    """A serialized sensor_msgs/Imu: orientation only, the rates are marked as not given."""
    not_given = np.array([_NOT_GIVEN, *[0.0] * 8])
    covariance = not_given
    if reading.orientation is not None:
        tilt, heading = _variance(reading.tilt_sigma_deg), _variance(reading.heading_sigma_deg)
        covariance = np.diag([tilt, tilt, heading]).reshape(-1)
    message = make(
        IMU,
        header=header(reading.stamp_ns, "base_link"),
        orientation=_quaternion(reading.orientation or (0.0, 0.0, 0.0, 1.0)),
        orientation_covariance=covariance,
        angular_velocity=_vector(0.0, 0.0, 0.0),
        angular_velocity_covariance=not_given,
        linear_acceleration=_vector(0.0, 0.0, 0.0),
        linear_acceleration_covariance=not_given,
    )
    return serialize(message, IMU)


def _range(reading: HeightReading) -> bytes:
    """A serialized sensor_msgs/Range whose frame says how the height was had."""
    message = make(
        RANGE,
        header=header(reading.stamp_ns, reading.kind),
        radiation_type=_INFRARED,
        field_of_view=0.0,
        min_range=reading.lowest_m,
        max_range=reading.highest_m,
        range=reading.height_m,
        variance=0.0 if math.isnan(reading.sigma_m) else reading.sigma_m**2,
    )
    return serialize(message, RANGE)


def _camera_info(reading: CameraReading) -> bytes:
    """A serialized sensor_msgs/CameraInfo of a camera that is not rectified."""
    k = np.array([reading.fx, 0.0, reading.cx, 0.0, reading.fy, reading.cy, 0.0, 0.0, 1.0])
    message = make(
        CAMERA_INFO,
        header=header(reading.stamp_ns, "camera"),
        height=reading.height_px,
        width=reading.width_px,
        distortion_model=reading.distortion_model,
        d=np.array(reading.distortion or [0.0] * 5),
        k=k,
        r=np.eye(3).reshape(-1),
        p=np.column_stack([k.reshape(3, 3), np.zeros(3)]).reshape(-1),
        binning_x=0,
        binning_y=0,
        roi=make("sensor_msgs/msg/RegionOfInterest", x_offset=0, y_offset=0, height=0, width=0, do_rectify=False),
    )
    return serialize(message, CAMERA_INFO)


def _variance(sigma_deg: float) -> float:
    return 0.0 if math.isnan(sigma_deg) else math.radians(min(sigma_deg, _UNKNOWN_HEADING_DEG)) ** 2


def _quaternion(value: Quaternion) -> Any:
    return make("geometry_msgs/msg/Quaternion", **dict(zip("xyzw", value)))


def _vector(x: float, y: float, z: float) -> Any:
    return make("geometry_msgs/msg/Vector3", x=x, y=y, z=z)
