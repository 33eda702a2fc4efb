"""A ground station in Python: calls what an operator calls, and shows what the learner says meanwhile.

The same as `ros2 service call /learner/adapt std_srvs/srv/Trigger`, for scripts and for computers without ROS's tools.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticStatus
from lifecycle_msgs.srv import GetState
from rcl_interfaces.srv import SetParameters
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions
from std_srvs.srv import SetBool, Trigger

from aerial_vpr_cl.errors import AerialVprError

POLL_S = 0.2


class GroundStation:
    """A node of its own in a context of its own; a context manager."""

    def __init__(self) -> None:
        self._context = rclpy.Context()
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self._node = Node("ground_station", context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._on_progress: Callable[[str], None] = lambda words: None
        self._node.create_subscription(DiagnosticStatus, "/learner/progress", self._progress, 10)

    def wait_until_active(self, node: str, limit_s: float = 120.0) -> None:
        """Return when a managed node is active; AerialVprError when that takes too long."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            answer = self._ask(GetState, f"{node}/get_state", GetState.Request(), limit_s=5.0)
            if answer is not None and answer.current_state.label == "active":
                return
            self._executor.spin_once(timeout_sec=POLL_S)
        raise AerialVprError(f"{node} was not active within {limit_s:.0f} s; its log says why")

    def record(self, on: bool) -> str:
        """Start or stop recording on the localization node."""
        return self._order(SetBool, "/localization/record", SetBool.Request(data=on))

    def set_parameter(self, node: str, name: str, value: str) -> None:
        """Set a text parameter of a node, as `ros2 param set` does."""
        request = SetParameters.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])
        answer = self._ask(SetParameters, f"{node}/set_parameters", request, limit_s=30.0)
        if answer is None or not answer.results[0].successful:
            raise AerialVprError(f"{node} did not take {name}: {answer.results[0].reason if answer else 'no answer'}")

    def adapt(self, on_progress: Callable[[str], None], limit_s: float = 1800.0) -> str:
        """Have the learner learn what waits; returns its summary when the new generation is durable."""
        self._on_progress = on_progress
        return self._order(Trigger, "/learner/adapt", Trigger.Request(), limit_s)

    def start_adapting(self, until: Callable[[str], bool], limit_s: float = 600.0) -> None:
        """Give the order to learn and return as soon as the learner's progress is as wanted, without its answer."""
        reached = [False]

        def watch(words: str) -> None:
            reached[0] = reached[0] or until(words)

        self._on_progress = watch
        client = self._client(Trigger, "/learner/adapt")
        answer = client.call_async(Trigger.Request())
        deadline = time.monotonic() + limit_s
        while not reached[0]:
            if answer.done():
                raise AerialVprError(f"/learner/adapt ended early: {answer.result().message}")
            if time.monotonic() > deadline:
                raise AerialVprError("the learner showed no progress; its log says why")
            self._executor.spin_once(timeout_sec=POLL_S)

    def close(self) -> None:
        """Leave the ROS graph."""
        self._node.destroy_node()
        self._context.try_shutdown()

    def __enter__(self) -> GroundStation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _progress(self, status: DiagnosticStatus) -> None:
        self._on_progress(status.message)

    def _order(self, kind: Any, name: str, request: Any, limit_s: float = 60.0) -> str:
        answer = self._ask(kind, name, request, limit_s)
        if answer is None:
            raise AerialVprError(f"{name} did not answer within {limit_s:.0f} s")
        if not answer.success:
            raise AerialVprError(f"{name}: {answer.message}")
        return str(answer.message)

    def _ask(self, kind: Any, name: str, request: Any, limit_s: float) -> Any:
        future = self._client(kind, name).call_async(request)
        self._executor.spin_until_future_complete(future, timeout_sec=limit_s)
        return future.result() if future.done() else None

    def _client(self, kind: Any, name: str) -> Any:
        client = self._node.create_client(kind, name)
        deadline = time.monotonic() + 60.0
        while not client.service_is_ready() and time.monotonic() < deadline:
            self._executor.spin_once(timeout_sec=POLL_S)
        return client
