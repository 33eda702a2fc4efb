"""What the autopilot tells, as ROS messages."""

from __future__ import annotations

import math

import numpy as np
from geometry_msgs.msg import Point, Quaternion, Vector3
from nav_msgs.msg import Odometry
from sensor_msgs.msg import Imu, NavSatFix, NavSatStatus, Range
from std_msgs.msg import Header

from aerial_vpr_cl.autopilot.telemetry import Attitude, GnssFix, Height, LocalPosition
from aerial_vpr_cl.mission.readings import ABOVE_HOME, VERTICAL


def imu_message(told: Attitude, frame_id: str, tilt_sigma_deg: float, heading_sigma_deg: float) -> Imu:
    """Orientation and rates of the body; autopilots do not say how good they are."""
    x, y, z, w = told.quaternion
    tilt, heading = math.radians(tilt_sigma_deg) ** 2, math.radians(heading_sigma_deg) ** 2
    imu = Imu(header=_header(told.stamp_ns, frame_id), orientation=Quaternion(x=x, y=y, z=z, w=w))
    imu.orientation_covariance = [tilt, 0.0, 0.0, 0.0, tilt, 0.0, 0.0, 0.0, heading]
    imu.angular_velocity = Vector3(**dict(zip("xyz", told.rates.tolist())))
    imu.linear_acceleration_covariance[0] = -1.0  # not told
    return imu


def height_message(told: Height, frame_id: str) -> Range:
    """Height, and between which heights the instrument can tell it; the frame says how it was had."""
    header = _header(told.stamp_ns, frame_id if told.is_range else ABOVE_HOME if told.is_above_home else VERTICAL)
    return Range(header=header, range=told.height_m, min_range=told.least_m, max_range=told.most_m)


def odometry_message(told: LocalPosition, frame_id: str) -> Odometry:
    """How the body has moved."""
    odometry = Odometry(header=_header(told.stamp_ns, "odom"), child_frame_id=frame_id)
    x, y, z, w = told.quaternion
    odometry.pose.pose.position = Point(**dict(zip("xyz", told.position.tolist())))
    odometry.pose.pose.orientation = Quaternion(x=x, y=y, z=z, w=w)
    return odometry


def fix_message(told: GnssFix) -> NavSatFix:
    """What the receiver says."""
    fix = NavSatFix(latitude=told.latitude, longitude=told.longitude, altitude=told.altitude_m)
    fix.header = _header(told.stamp_ns, "gnss")
    fix.status.status, fix.status.service = told.status, NavSatStatus.SERVICE_GPS
    if math.isfinite(told.sigma_m):
        fix.position_covariance = (np.diag([1.0, 1.0, 4.0]) * told.sigma_m**2).ravel().tolist()
        fix.position_covariance_type = NavSatFix.COVARIANCE_TYPE_APPROXIMATED
    return fix


def _header(stamp_ns: int, frame_id: str) -> Header:
    header = Header(frame_id=frame_id)
    header.stamp.sec, header.stamp.nanosec = divmod(max(stamp_ns, 0), 1_000_000_000)
    return header
