"""Subscriptions to camera and GNSS, heard by a thread that waits for nothing else.

An rclpy executor builds its wait set anew for every message, from all services and timers of its nodes: some 2 ms for a
managed node. So the inputs have a small node of their own, as the transform listener of tf2 has.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rclpy.executors import ExternalShutdownException, ShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import QoSHistoryPolicy, QoSProfile, QoSReliabilityPolicy, qos_profile_sensor_data
from sensor_msgs.msg import NavSatFix

NEWEST_ONLY = QoSProfile(reliability=QoSReliabilityPolicy.BEST_EFFORT, history=QoSHistoryPolicy.KEEP_LAST, depth=1)
"""Sensor data, depth 1: a stale frame is worth nothing."""


class SensorInputs:
    """Listens to `image` and `fix` of a node, with its name space and remappings; the callbacks must not raise."""

    def __init__(
        self,
        owner: Node,
        image_type: type,
        on_image: Callable[[Any], None],
        on_fix: Callable[[NavSatFix], None],
    ) -> None:
        self._node = Node(
            f"{owner.get_name()}_inputs",
            namespace=owner.get_namespace(),
            context=owner.context,
            use_global_arguments=False,  # topics are resolved by the owner, whose name must stay its own
            start_parameter_services=False,
            enable_rosout=False,
            parameter_overrides=[Parameter("start_type_description_service", value=False)],
        )
        self._node.create_subscription(image_type, owner.resolve_topic_name("image"), on_image, NEWEST_ONLY)
        self._node.create_subscription(NavSatFix, owner.resolve_topic_name("fix"), on_fix, qos_profile_sensor_data)
        self._executor = SingleThreadedExecutor(context=owner.context)
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._spin, name="inputs", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hear no more."""
        self._executor.shutdown(timeout_sec=5.0)
        self._thread.join(5.0)
        self._node.destroy_node()

    def _spin(self) -> None:
        try:
            self._executor.spin()
        except (ShutdownException, ExternalShutdownException):
            return
