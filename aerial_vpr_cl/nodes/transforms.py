"""TF of the localization node: utm → map once, and map → odom with every position if that is asked for."""

from __future__ import annotations

import importlib
from typing import Any

from geometry_msgs.msg import TransformStamped
from rclpy.node import Node
from rclpy.qos import QoSProfile

from aerial_vpr_cl.localization.motion_model import LOST_HEADING_DEG
from aerial_vpr_cl.mission.odometer import Place
from aerial_vpr_cl.nodes.frames import Frames
from aerial_vpr_cl.nodes.living_node import LATCHED

NOT_INSTALLED = "tf2_msgs is not installed: no TF; everything else works"
DYNAMIC = QoSProfile(depth=100)


def tf_type() -> Any | None:
    """tf2_msgs/TFMessage where that package is installed."""
    try:
        return importlib.import_module("tf2_msgs.msg").TFMessage
    except (ImportError, AttributeError):
        return None


class Transforms:
    """Publishers of /tf_static and /tf, as tf2_ros has them."""

    def __init__(self, node: Node, frames: Frames, *, follow_odometry: bool) -> None:
        self._node, self._frames = node, frames
        self._type = tf_type()
        self._publishers: list[Any] = []
        self._moving: Any | None = None
        self.note = "" if self._type else NOT_INSTALLED
        if self._type is None:
            return
        if frames.map_id != frames.utm_id:
            self._send(self._publisher("/tf_static", LATCHED), frames.map_in_utm(node.get_clock().now().nanoseconds))
        if follow_odometry:
            self._moving = self._publisher("/tf", DYNAMIC)
            self.note = "map → odom waits for odometry and a heading"

    def follow(self, stamp_ns: int, position: Any, heading: tuple[float, float], by: Place | None) -> None:
        """A position in the grid with its heading and sigma, and where odometry has the drone at the same time."""
        if self._moving is None or by is None or heading[1] > LOST_HEADING_DEG:
            return
        self.note = ""
        there, yaw_rad = self._frames.datum.to_map(position), self._frames.yaw_rad(heading[0])
        self._send(self._moving, self._frames.odom_in_map(stamp_ns, there, yaw_rad, by))

    def close(self) -> None:
        """Publish no more."""
        while self._publishers:
            self._node.destroy_publisher(self._publishers.pop())

    def _publisher(self, topic: str, qos: QoSProfile) -> Any:
        self._publishers.append(self._node.create_publisher(self._type, topic, qos))
        return self._publishers[-1]

    def _send(self, publisher: Any, message: TransformStamped) -> None:
        assert self._type is not None
        publisher.publish(self._type(transforms=[message]))
