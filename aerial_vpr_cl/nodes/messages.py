"""Estimates as standard messages. Stamps are those of the image; what is not known is NaN with a large variance."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from geometry_msgs.msg import PoseWithCovarianceStamped, Quaternion
from nav_msgs.msg import Odometry
from numpy.typing import NDArray
from sensor_msgs.msg import NavSatFix, NavSatStatus
from std_msgs.msg import ColorRGBA, Header
from visualization_msgs.msg import Marker, MarkerArray

from aerial_vpr_cl.geo.datum import Datum
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.localization.estimate import REASONS, Estimate, Estimator
from aerial_vpr_cl.localization.states import LOST, STATES, TRACKING
from aerial_vpr_cl.mission.gnss import OWN_HEIGHT_VARIANCE_M2
from aerial_vpr_cl.nodes.node_settings import SINGLE_FRAME

UNKNOWN_RAD2 = math.pi**2
"""Variance of an angle that is not known."""


def geo_pose_type() -> Any | None:
    """GeoPoseWithCovarianceStamped where geographic_msgs is installed."""
    try:
        return importlib.import_module("geographic_msgs.msg").GeoPoseWithCovarianceStamped
    except (ImportError, AttributeError):
        return None


def header_of(stamp_ns: int, frame_id: str) -> Header:
    """A time in nanoseconds and a frame."""
    sec, nanosec = divmod(stamp_ns, 1_000_000_000)
    return Header(stamp=Time(sec=sec, nanosec=nanosec), frame_id=frame_id)


def fix_message(header: Header, estimate: Estimate, estimator: Estimator, altitude: float = math.nan) -> NavSatFix:
    """A position; its altitude is not known, whatever number stands there."""
    position, covariance = estimate.position, estimate.covariance
    return _nav_sat_fix(header, NavSatStatus.STATUS_FIX, position, covariance, estimator, altitude)


def no_fix_message(header: Header, estimator: Estimator, altitude: float = math.nan) -> NavSatFix:
    """STATUS_NO_FIX, for those who read it; the rest says, for those who do not: somewhere above the map."""
    return _nav_sat_fix(header, NavSatStatus.STATUS_NO_FIX, *estimator.ignorance, estimator, altitude)


def pose_message(header: Header, estimate: Estimate) -> PoseWithCovarianceStamped:
    """A place in the frame `map`; height and heading are not known, and their variances say so."""
    message = PoseWithCovarianceStamped(header=header)
    message.pose.pose.position.x, message.pose.pose.position.y = (float(value) for value in estimate.position)
    message.pose.covariance = covariance_6x6(estimate.covariance)
    return message


def odometry_message(
    header: Header, child_frame_id: str, estimate: Estimate, yaw_rad: float, heading_sigma_deg: float
) -> Odometry:
    """A place and yaw in the frame `map`; height, tilt and speed are not known, and their variances say so."""
    message = Odometry(header=header, child_frame_id=child_frame_id)
    pose = message.pose.pose
    pose.position.x, pose.position.y = (float(value) for value in estimate.position)
    pose.orientation = about_up(yaw_rad)
    covariance = covariance_6x6(estimate.covariance)
    covariance[35] = min(math.radians(heading_sigma_deg) ** 2, UNKNOWN_RAD2)
    message.pose.covariance = covariance
    message.twist.covariance = np.diag([OWN_HEIGHT_VARIANCE_M2] * 6).reshape(-1)
    return message


def state_message(node_name: str, state: str, reason: str, values: Mapping[str, Any]) -> DiagnosticStatus:
    """What the tracker does and why a position is withheld; `state` is the first of the values."""
    levels = {SINGLE_FRAME: DiagnosticStatus.OK, TRACKING: DiagnosticStatus.OK, LOST: DiagnosticStatus.ERROR}
    pairs = {"state": state, "reason": reason, **values}
    return DiagnosticStatus(
        level=levels.get(state, DiagnosticStatus.WARN),
        name=f"{node_name}: state",
        message=REASONS.get(reason, reason) or STATES.get(state, state),
        hardware_id="aerial_vpr_cl",
        values=[KeyValue(key=key, value=str(value)) for key, value in pairs.items()],
    )


def geo_pose_message(message_type: Any, header: Header, estimate: Estimate, estimator: Estimator) -> Any:
    """A geographic_msgs/GeoPoseWithCovarianceStamped: its covariance has the latitude (north) first."""
    message = message_type(header=header)
    latitude, longitude = estimator.grid.projection.to_wgs84(estimate.position)
    position = message.pose.pose.position
    position.latitude, position.longitude, position.altitude = float(latitude), float(longitude), math.nan
    message.pose.covariance = covariance_6x6(estimate.covariance[::-1, ::-1])
    return message


def cells_message(header: Header, estimate: Estimate, grid: Grid, datum: Datum) -> MarkerArray:
    """The most probable cells as flat boxes in the frame `map`, the more opaque the more probable."""
    side, centres = grid.cell_side_m, datum.to_map(grid.centres[estimate.cells])
    markers = no_cells_message(header).markers
    for rank, (centre, probability) in enumerate(zip(centres, estimate.probabilities)):
        marker = Marker(header=header, ns="cells", id=rank, type=Marker.CUBE, action=Marker.ADD)
        marker.pose.position.x, marker.pose.position.y = (float(value) for value in centre)
        marker.pose.orientation = about_up(datum.grid_yaw_rad)
        marker.scale.x, marker.scale.y, marker.scale.z = side, side, 1.0
        marker.color = ColorRGBA(r=0.1, g=0.6, b=0.2 if rank else 0.9, a=float(0.1 + 0.8 * probability))
        marker.text = f"{probability:.3f}"
        markers.append(marker)
    return MarkerArray(markers=markers)


def no_cells_message(header: Header) -> MarkerArray:
    """What was shown before is not true any more."""
    return MarkerArray(markers=[Marker(header=header, action=Marker.DELETEALL)])


def about_up(yaw_rad: float) -> Quaternion:
    """A level orientation, counter-clockwise from the x axis."""
    return Quaternion(z=math.sin(yaw_rad / 2.0), w=math.cos(yaw_rad / 2.0))


def covariance_6x6(horizontal: NDArray[np.float64]) -> NDArray[np.float64]:
    """(36,) row by row: the two horizontal axes, height and the three angles."""
    covariance = np.diag([0.0, 0.0, OWN_HEIGHT_VARIANCE_M2, UNKNOWN_RAD2, UNKNOWN_RAD2, UNKNOWN_RAD2])
    covariance[:2, :2] = horizontal
    return covariance.reshape(-1)


def _nav_sat_fix(
    header: Header,
    status: int,
    position: NDArray[np.float64],
    horizontal: NDArray[np.float64],
    estimator: Estimator,
    altitude: float,
) -> NavSatFix:
    latitude, longitude = estimator.grid.projection.to_wgs84(position)
    covariance = np.diag([0.0, 0.0, OWN_HEIGHT_VARIANCE_M2])
    covariance[:2, :2] = horizontal
    message = NavSatFix(header=header, latitude=float(latitude), longitude=float(longitude), altitude=altitude)
    message.status.status = status
    message.position_covariance = covariance.reshape(-1)
    message.position_covariance_type = NavSatFix.COVARIANCE_TYPE_KNOWN
    return message
