"""What the autopilot is told: positions that the localization has published, and nothing it has not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pymavlink.dialects.v20 import ardupilotmega as mavlink

from aerial_vpr_cl.autopilot.axes import frd_to_flu, ned_to_enu, ros_to_aeronautical
from aerial_vpr_cl.geo.rotation import from_quaternion

UNKNOWN = math.nan
WRAP_S = 86_400.0
"""A 32-bit float keeps 8 ms within a day. ArduPilot takes the beginning anew for half a second of delay: not hourly."""
UNKNOWN_ANGLE = math.pi**2
"""Variance of an angle of which nothing is said, rad²."""
LONGEST_TEXT = 50
"""Characters of a STATUSTEXT."""


@dataclass(frozen=True, eq=False)
class Position:
    """A published position: when the image was taken, where, and the horizontal covariance in m², east and north."""

    stamp_ns: int
    latitude: float
    longitude: float
    covariance: NDArray[np.float64]

    @property
    def sigma_m(self) -> float:
        """Standard deviation along the worst direction."""
        return float(np.sqrt(np.linalg.eigvalsh(self.covariance).max()))


def global_position_sensor(
    position: Position, sensor_id: int, target_system: int, now_ns: int, now_there_us: int
) -> Any:
    """GLOBAL_POSITION_SENSOR: sent now, measured when the image was taken. The altitude is not ours to tell."""
    age_us = min(max((now_ns - position.stamp_ns) // 1_000, 0), 2**32 - 1)
    return mavlink.MAVLink_global_position_sensor_message(
        target_system,
        0,
        sensor_id,
        now_there_us,
        age_us,
        mavlink.GLOBAL_POSITION_SRC_VISION,
        0,
        round(position.latitude * 1e7),
        round(position.longitude * 1e7),
        UNKNOWN,
        UNKNOWN,
        position.sigma_m,
        UNKNOWN,
    )


def external_position_estimate(position: Position, target_system: int, now_ns: int) -> Any:
    """ArduPilot's MAV_CMD_EXTERNAL_POSITION_ESTIMATE: a reset of the horizontal position, without a gate."""
    transmitted_s = (now_ns / 1e9) % WRAP_S
    return mavlink.MAVLink_command_int_message(
        target_system,
        mavlink.MAV_COMP_ID_AUTOPILOT1,
        mavlink.MAV_FRAME_GLOBAL,
        mavlink.MAV_CMD_EXTERNAL_POSITION_ESTIMATE,
        0,
        0,
        transmitted_s,
        (now_ns - position.stamp_ns) / 1e9,
        position.sigma_m,
        0.0,
        round(position.latitude * 1e7),
        round(position.longitude * 1e7),
        UNKNOWN,
    )


def odometry(
    stamp_us: int,
    enu_m: NDArray[np.float64],
    velocity: NDArray[np.float64],
    quaternion: NDArray[np.float64],
    covariance: NDArray[np.float64],
) -> Any:
    """ODOMETRY for ArduPilot's external navigation: metres north, east, down of the filter's origin.

    It reads no other frames than these two, and adds the variances of the three axes up, and those of the angles: one
    that is NaN, as the definition has it for what is unknown, spoils all. Height, velocity and attitude are the
    filter's own: a filter that had no position for seven seconds sets its velocity to the one that comes with the next,
    or to zero if none does.
    """
    north, east, down = ned_to_enu(enu_m)
    forward_left_up = from_quaternion(quaternion).T @ velocity
    pose = np.full(21, UNKNOWN)
    pose[0], pose[1], pose[6], pose[11] = covariance[1, 1], covariance[0, 1], covariance[0, 0], 0.0
    pose[[15, 18, 20]] = UNKNOWN_ANGLE
    return mavlink.MAVLink_odometry_message(
        stamp_us,
        mavlink.MAV_FRAME_LOCAL_FRD,
        mavlink.MAV_FRAME_BODY_FRD,
        north,
        east,
        down,
        ros_to_aeronautical(quaternion).tolist(),
        *frd_to_flu(forward_left_up).tolist(),
        *(UNKNOWN,) * 3,
        pose.tolist(),
        [UNKNOWN] * 21,
        0,
        mavlink.MAV_ESTIMATOR_TYPE_VISION,
        0,
    )


def set_origin(target_system: int, latitude: float, longitude: float) -> Any:
    """SET_GPS_GLOBAL_ORIGIN: where a filter that has none puts its origin; at sea level, heights are not ours."""
    return mavlink.MAVLink_set_gps_global_origin_message(
        target_system, round(latitude * 1e7), round(longitude * 1e7), 0
    )


def status_text(text: str, *, is_warning: bool) -> Any:
    """A line in the operator's ground station."""
    severity = mavlink.MAV_SEVERITY_WARNING if is_warning else mavlink.MAV_SEVERITY_INFO
    return mavlink.MAVLink_statustext_message(severity, text.encode("ascii", "replace")[:LONGEST_TEXT])


def message_interval(target_system: int, message_id: int, rate_hz: float) -> Any:
    """Ask the autopilot to send a message at a rate."""
    return mavlink.MAVLink_command_long_message(
        target_system,
        mavlink.MAV_COMP_ID_AUTOPILOT1,
        mavlink.MAV_CMD_SET_MESSAGE_INTERVAL,
        0,
        message_id,
        1e6 / rate_hz,
        *(0.0,) * 5,
    )
