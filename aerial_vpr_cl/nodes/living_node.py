"""A managed node that starts by itself, says once a second how it is, and goes on whatever happens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.qos import QoSDurabilityPolicy, QoSProfile

from aerial_vpr_cl.nodes.diagnostics import diagnostic_array
from aerial_vpr_cl.nodes.parameters import NodeSettings

LATCHED = QoSProfile(depth=1, durability=QoSDurabilityPolicy.TRANSIENT_LOCAL)
"""Who comes late hears the last message all the same."""
UNCONFIGURED, INACTIVE, ACTIVE, FINALIZED = "unconfigured", "inactive", "active", "finalized"


class LivingNode(LifecycleNode):
    """State, autostart, health and shutdown; what a node does stands in `connect`, `disconnect` and `pause`."""

    def __init__(
        self, name: str, parameters: Mapping[str, Sequence[type]], fixed: Sequence[str], **options: Any
    ) -> None:
        super().__init__(name, automatically_declare_parameters_from_overrides=True, **options)
        self.settings = NodeSettings(self, parameters, fixed=fixed, changed=self.settings_changed)
        self.state = UNCONFIGURED
        self.starts_itself = any(getattr(self.settings[cls], "autostart", False) for cls in parameters[""])
        self._starting = threading.Lock()
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        # Loading takes seconds and closing a bag may: neither may hold up the diagnostics.
        self.slow = MutuallyExclusiveCallbackGroup()
        ticking = MutuallyExclusiveCallbackGroup()
        self.steady = Clock(clock_type=ClockType.STEADY_TIME)  # simulated time may stand still
        self._first_look = self.create_timer(0.0, self._look_at_once, callback_group=self.slow, clock=self.steady)
        self.create_timer(1.0, self._tell, callback_group=ticking, clock=self.steady)

    # What a node adds

    def connect(self) -> None:
        """Make publishers, subscriptions and all that is needed to work; may raise."""

    def disconnect(self) -> None:
        """Close what `connect` made, or the part of it that there is."""

    def pause(self) -> None:
        """End what is under way: the node is no longer active."""

    def settings_changed(self) -> None:
        """Parameters were set."""

    def health(self) -> tuple[bytes, str]:
        """Level and words of the diagnostics."""
        return DiagnosticStatus.OK, self.state

    def facts(self) -> dict[str, Any]:
        """What the diagnostics of every such node say."""
        return {"state": self.state}

    def values(self) -> dict[str, Any]:
        """What the diagnostics say besides."""
        return {}

    def note_problem(self, words: str) -> None:
        """Why the node cannot be configured."""

    def note_error(self, what: str, error: Exception) -> None:
        """Something went wrong that should not."""
        self.get_logger().error(f"{what}: unexpected {error!r}", throttle_duration_sec=5.0)

    # Life cycle

    @property
    def is_active(self) -> bool:
        """Whether the node does its work."""
        return self.state == ACTIVE

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Connect; where that is impossible stay unconfigured and say why."""
        try:
            self._take_up()
        except Exception as error:
            words = str(error) or repr(error)
            self.note_problem(words)
            self.get_logger().error(f"cannot be configured: {words}")
            self._give_up()
            return TransitionCallbackReturn.FAILURE
        self.state = INACTIVE
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Begin to work."""
        result = super().on_activate(state)
        self.state = ACTIVE
        return result

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Work no more, but stay ready."""
        self.state = INACTIVE
        self.pause()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Disconnect, until a lifecycle manager asks again."""
        self.starts_itself = False
        return self._end(UNCONFIGURED, super().on_cleanup, state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Finish for good."""
        self.starts_itself = False
        return self._end(FINALIZED, super().on_shutdown, state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """A transition failed halfway: begin again from nothing."""
        return self._end(UNCONFIGURED, super().on_error, state)

    def close(self) -> None:
        """Finish before the process ends."""
        self.state, self.starts_itself = FINALIZED, False
        self.pause()
        self._give_up()

    def start(self) -> None:
        """As far towards active as it goes."""
        with self.edge("start"), self._starting:
            if self.state == UNCONFIGURED:
                self.trigger_configure()
            if self.state == INACTIVE:
                self.trigger_activate()

    def _end(self, state: str, transition: Callable[[LifecycleState], Any], before: LifecycleState) -> Any:
        self.state = state
        self.pause()
        result = transition(before)
        self._give_up()
        return result

    def _take_up(self) -> None:
        self.connect()

    def _give_up(self) -> None:
        self.disconnect()

    def _look_at_once(self) -> None:
        self.destroy_timer(self._first_look)
        if self.starts_itself:
            self.start()

    def _tell(self) -> None:
        with self.edge("diagnostics"):
            level, words = self.health()
            stamp, name = self.get_clock().now().to_msg(), self.get_fully_qualified_name()
            self._diagnostics.publish(diagnostic_array(stamp, name, level, words, {**self.facts(), **self.values()}))

    @contextmanager
    def edge(self, what: str) -> Iterator[None]:
        """Nothing that goes wrong inside leaves: it is logged and counted."""
        try:
            yield
        except Exception as error:
            self.note_error(what, error)
