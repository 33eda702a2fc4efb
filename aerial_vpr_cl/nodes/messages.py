"""Estimates as standard messages. Stamps are those of the image; everything in them is finite."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseWithCovarianceStamped
from numpy.typing import NDArray
from sensor_msgs.msg import NavSatFix, NavSatStatus
from std_msgs.msg import ColorRGBA, Header
from visualization_msgs.msg import Marker, MarkerArray

from aerial_vpr_cl.localization.estimate import Estimate, Estimator

UNKNOWN_M2 = 1e8
"""Variance of a height that is not known: a standard deviation of 10 km. PX4 would take a missing one for 1 m²."""
UNKNOWN_RAD2 = math.pi**2
"""Variance of an angle that is not known."""


def geo_pose_type() -> Any | None:
    """GeoPoseWithCovarianceStamped where geographic_msgs is installed."""
    try:
        return importlib.import_module("geographic_msgs.msg").GeoPoseWithCovarianceStamped
    except (ImportError, AttributeError):
        return None


def header_of(image_header: Header, frame_id: str) -> Header:
    """The image's stamp in another frame; an empty name keeps the image's."""
    return Header(stamp=image_header.stamp, frame_id=frame_id or image_header.frame_id)


def fix_message(header: Header, estimate: Estimate, estimator: Estimator) -> NavSatFix:
    """A position; its height is 0 m give or take 10 km, as NaN makes robot_localization refuse the whole fix."""
    return _nav_sat_fix(header, NavSatStatus.STATUS_FIX, estimate.position, estimate.covariance, estimator)


def no_fix_message(header: Header, estimator: Estimator) -> NavSatFix:
    """STATUS_NO_FIX, for those who read it; the rest says, for those who do not: somewhere above the map."""
    return _nav_sat_fix(header, NavSatStatus.STATUS_NO_FIX, *estimator.ignorance, estimator)


def pose_message(header: Header, estimate: Estimate) -> PoseWithCovarianceStamped:
    """Easting and northing in the map's UTM frame; height and heading are not known, and their variances say so."""
    message = PoseWithCovarianceStamped(header=header)
    message.pose.pose.position.x, message.pose.pose.position.y = (float(value) for value in estimate.position)
    message.pose.covariance = covariance_6x6(estimate.covariance)
    return message


def geo_pose_message(message_type: Any, header: Header, estimate: Estimate, estimator: Estimator) -> Any:
    """A geographic_msgs/GeoPoseWithCovarianceStamped."""
    message = message_type(header=header)
    latitude, longitude = estimator.grid.projection.to_wgs84(estimate.position)
    position = message.pose.pose.position
    position.latitude, position.longitude, position.altitude = float(latitude), float(longitude), 0.0
    message.pose.covariance = covariance_6x6(estimate.covariance)
    return message


def cells_message(header: Header, estimate: Estimate, estimator: Estimator) -> MarkerArray:
    """The most probable cells as flat boxes, the more opaque the more probable."""
    side = estimator.grid.cell_side_m
    markers = [Marker(header=header, action=Marker.DELETEALL)]
    for rank, (cell, probability) in enumerate(zip(estimate.cells, estimate.probabilities)):
        marker = Marker(header=header, ns="cells", id=rank, type=Marker.CUBE, action=Marker.ADD)
        marker.pose.position.x, marker.pose.position.y = (float(value) for value in estimator.grid.centres[cell])
        marker.pose.orientation.w = 1.0
        marker.scale.x, marker.scale.y, marker.scale.z = side, side, 1.0
        marker.color = ColorRGBA(r=0.1, g=0.6, b=0.2 if rank else 0.9, a=float(0.1 + 0.8 * probability))
        marker.text = f"{probability:.3f}"
        markers.append(marker)
    return MarkerArray(markers=markers)


def covariance_6x6(horizontal: NDArray[np.float64]) -> NDArray[np.float64]:
    """(36,) row by row: x, y, z and the three angles."""
    covariance = np.diag([0.0, 0.0, UNKNOWN_M2, UNKNOWN_RAD2, UNKNOWN_RAD2, UNKNOWN_RAD2])
    covariance[:2, :2] = horizontal
    return covariance.reshape(-1)


def _nav_sat_fix(
    header: Header, status: int, position: NDArray[np.float64], horizontal: NDArray[np.float64], estimator: Estimator
) -> NavSatFix:
    latitude, longitude = estimator.grid.projection.to_wgs84(position)
    covariance = np.diag([0.0, 0.0, UNKNOWN_M2])
    covariance[:2, :2] = horizontal
    message = NavSatFix(header=header, latitude=float(latitude), longitude=float(longitude), altitude=0.0)
    message.status.status = status
    message.position_covariance = covariance.reshape(-1)
    message.position_covariance_type = NavSatFix.COVARIANCE_TYPE_KNOWN
    return message
