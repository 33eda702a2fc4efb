"""Where the drone is said to be, as markers: the ellipse that holds it, and the state in words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from std_msgs.msg import ColorRGBA, Header
from visualization_msgs.msg import Marker

from aerial_vpr_cl.localization.estimate import RADIUS_SIGMAS
from aerial_vpr_cl.nodes.viewer.ground import point_message

CORNERS = 48
SURE, UNSURE = ColorRGBA(r=0.2, g=0.9, b=0.3, a=1.0), ColorRGBA(r=1.0, g=0.7, b=0.1, a=1.0)
TEXT_M = 25.0


def ellipse_message(header: Header, position: NDArray[np.float64], covariance: NDArray[np.float64]) -> Marker:
    """The line around 95 % of a Gaussian in the frame `map`."""
    marker = Marker(header=header, ns="ellipse", type=Marker.LINE_STRIP, action=Marker.ADD)
    marker.pose.orientation.w, marker.scale.x, marker.color = 1.0, 2.0, SURE
    angles = np.linspace(0.0, 2.0 * np.pi, CORNERS + 1)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    variances, axes = np.linalg.eigh(covariance)
    around = position + RADIUS_SIGMAS * (circle * np.sqrt(variances)) @ axes.T
    marker.points = [point_message(corner) for corner in around]
    return marker


def no_ellipse_message(header: Header) -> Marker:
    """There is no position any more."""
    return Marker(header=header, ns="ellipse", action=Marker.DELETE)


def state_message(header: Header, position: NDArray[np.float64], words: str, *, sure: bool) -> Marker:
    """What the tracker does, beside where the drone was last seen."""
    marker = Marker(header=header, ns="state", type=Marker.TEXT_VIEW_FACING, action=Marker.ADD, text=words)
    marker.pose.position, marker.pose.orientation.w = point_message(position, 10.0), 1.0
    marker.pose.position.y += 2.0 * TEXT_M
    marker.scale.z, marker.color = TEXT_M, SURE if sure else UNSURE
    return marker
