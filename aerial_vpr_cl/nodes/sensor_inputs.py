"""The inputs of the localization node, heard by a thread that waits for nothing else.

An rclpy executor builds its wait set anew for every message, from all services and timers of its nodes: some 2 ms for a
managed node. So the inputs belong to a callback group that an executor of its own looks after, and no other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.executors import (
    ExternalShutdownException,
    MultiThreadedExecutor,
    ShutdownException,
    SingleThreadedExecutor,
)
from rclpy.node import Node
from rclpy.qos import QoSHistoryPolicy, QoSProfile, QoSReliabilityPolicy

NEWEST_ONLY = QoSProfile(reliability=QoSReliabilityPolicy.BEST_EFFORT, history=QoSHistoryPolicy.KEEP_LAST, depth=1)
"""Sensor data, depth 1: a stale frame is worth nothing."""


class InputGroup(MutuallyExclusiveCallbackGroup):
    """Callbacks of inputs: left alone by the executor of the node."""


class NodeExecutor(MultiThreadedExecutor):
    """Looks after everything of a node but its inputs."""

    def can_execute(self, entity: Any) -> bool:
        """Whether a callback is this executor's, and may run now."""
        return not isinstance(entity.callback_group, InputGroup) and super().can_execute(entity)


class _InputExecutor(SingleThreadedExecutor):
    """Looks after one group of a node that another executor has."""

    def __init__(self, node: Node, group: InputGroup) -> None:
        super().__init__(context=node.context)
        self._owner, self._group = node, group

    def get_nodes(self) -> list[Node]:
        """The node, though it was not added: a node is given to one executor only."""
        return [self._owner]

    def can_execute(self, entity: Any) -> bool:
        """Whether a callback is this executor's, and may run now."""
        return entity.callback_group is self._group and super().can_execute(entity)


def wrong_type(node: Node, topic: str, wanted: str) -> str:
    """What is published on a topic if it is all of other types than wanted; empty if nothing is, or the right one."""
    types = {info.topic_type for info in node.get_publishers_info_by_topic(topic)}
    return "" if not types or wanted in types else f"{', '.join(sorted(types))} is published on {topic}, not {wanted}"


class SensorInputs:
    """Subscriptions of a node with a thread of their own; the callbacks must not raise."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._group = InputGroup()
        self._subscriptions: list[Any] = []
        self._executor = _InputExecutor(node, self._group)
        self._thread = threading.Thread(target=self._spin, name="inputs", daemon=True)

    def listen(self, message_type: type, topic: str, callback: Callable[[Any], None], qos: QoSProfile) -> None:
        """Hear a topic from `start` on."""
        subscription = self._node.create_subscription(message_type, topic, callback, qos, callback_group=self._group)
        self._subscriptions.append(subscription)

    def start(self) -> None:
        """Begin to hear."""
        self._thread.start()

    def close(self) -> None:
        """Hear no more."""
        self._executor.shutdown(timeout_sec=5.0)
        if self._thread.is_alive():
            self._thread.join(5.0)
        while self._subscriptions:
            self._node.destroy_subscription(self._subscriptions.pop())

    def _spin(self) -> None:
        while self._executor.context.ok():
            try:
                self._executor.spin()
                return
            except (ShutdownException, ExternalShutdownException):
                return
            except Exception as error:  # nothing stops a node in flight
                if not self._executor.context.ok():
                    return
                self._node.get_logger().error(f"unexpected: {error!r}", throttle_duration_sec=5.0)
