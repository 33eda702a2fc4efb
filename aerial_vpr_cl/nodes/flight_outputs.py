"""What the localization node publishes of an answer: positions where there is one, and NO_FIX where there is none."""

from __future__ import annotations

import math
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseWithCovarianceStamped
from nav_msgs.msg import Odometry
from rclpy.lifecycle import LifecycleNode
from rclpy.qos import QoSProfile
from sensor_msgs.msg import NavSatFix
from std_msgs.msg import Bool
from visualization_msgs.msg import MarkerArray

from aerial_vpr_cl.localization.estimate import Estimate, Estimator, Rejection
from aerial_vpr_cl.nodes import messages
from aerial_vpr_cl.nodes.frames import Frames
from aerial_vpr_cl.nodes.living_node import LATCHED
from aerial_vpr_cl.nodes.node_settings import FlightSettings

Heading = tuple[float, float]
"""Degrees clockwise from the grid's north, and sigma."""

TRUST_LAPSES_S = 5
"""How long GNSS is called trusted after the last position that it could be compared with."""


class FlightOutputs:
    """Publishers of a managed node, silent while it is not active."""

    def __init__(self, node: LifecycleNode, settings: FlightSettings, frames: Frames) -> None:
        self._node, self._settings, self._frames = node, settings, frames
        self._altitude = 0.0 if settings.zero_altitude else math.nan
        self._publishers: list[Any] = []
        self._geo_pose_type = messages.geo_pose_type()
        self._fix = self._publisher(NavSatFix, "~/fix")
        self._pose = self._publisher(PoseWithCovarianceStamped, "~/pose")
        self._odometry = self._publisher(Odometry, "~/odometry")
        self._cells = self._publisher(MarkerArray, "~/cells")
        self._state = self._publisher(DiagnosticStatus, "~/state")
        self._trusted = self._publisher(Bool, "~/gnss_trusted", LATCHED)
        self._geo_pose = self._publisher(self._geo_pose_type, "~/geo_pose") if self._geo_pose_type else None
        self._told_trust: bool | None = None
        self._unconfirmed_s = 0

    def publish(
        self, stamp_ns: int, camera_frame: str, answer: Estimate, estimator: Estimator, heading: Heading
    ) -> None:
        """A position of that time."""
        fix_header = messages.header_of(stamp_ns, self._settings.fix_frame_id or camera_frame)
        map_header, frames = messages.header_of(stamp_ns, self._frames.map_id), self._frames
        there, (heading_deg, sigma_deg) = frames.local(answer), heading
        yaw_rad = frames.yaw_rad(heading_deg)
        self._fix.publish(messages.fix_message(fix_header, answer, estimator, self._altitude))
        self._pose.publish(messages.pose_message(map_header, there))
        self._odometry.publish(messages.odometry_message(map_header, frames.base_id, there, yaw_rad, sigma_deg))
        if self._geo_pose is not None:
            self._geo_pose.publish(messages.geo_pose_message(self._geo_pose_type, fix_header, answer, estimator))
        if self._cells.get_subscription_count():
            self._cells.publish(messages.cells_message(map_header, answer, estimator.grid, frames.datum))

    def publish_silence(self, stamp_ns: int, camera_frame: str, estimator: Estimator) -> None:
        """Say that there is no answer: whoever waits for this image need not wait longer."""
        header = messages.header_of(stamp_ns, self._settings.fix_frame_id or camera_frame)
        self._fix.publish(messages.no_fix_message(header, estimator, self._altitude))
        if self._cells.get_subscription_count():
            self._cells.publish(messages.no_cells_message(messages.header_of(stamp_ns, self._frames.map_id)))

    def publish_state(self, stamp_ns: int, state: str, answer: Estimate | Rejection) -> None:
        """What the tracker does, and why it is silent if it is."""
        reason, radius, z = answer.reason if isinstance(answer, Rejection) else "", "", math.nan
        if isinstance(answer, Estimate):
            radius, z = f"{answer.radius_m:.0f}", answer.z
        stamp = f"{stamp_ns // 10**9}.{stamp_ns % 10**9:09d}"
        values = {"confidence": f"{answer.confidence:.3f}", "radius (m)": radius, "z": f"{z:.2f}", "stamp": stamp}
        self._state.publish(messages.state_message(self._node.get_fully_qualified_name(), state, reason, values))

    def publish_trust(self, trusted: bool | None) -> None:
        """Each second: whether the GNSS goes together with the track, when that has changed.

        Trust that nothing bears out any more, as there is no track, lapses: the topic is latched.
        """
        self._unconfirmed_s = 0 if trusted is not None else self._unconfirmed_s + 1
        if self._unconfirmed_s > TRUST_LAPSES_S and self._told_trust:
            trusted = False
        if trusted is not None and trusted != self._told_trust:
            self._told_trust = trusted
            self._trusted.publish(Bool(data=trusted))

    def close(self) -> None:
        """Publish no more."""
        while self._publishers:
            self._node.destroy_lifecycle_publisher(self._publishers.pop())

    def _publisher(self, kind: Any, topic: str, qos: QoSProfile | int = 10) -> Any:
        publisher = self._node.create_lifecycle_publisher(kind, topic, qos)
        self._publishers.append(publisher)
        return publisher
