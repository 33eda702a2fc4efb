"""What the managed nodes of this package share: a life cycle, an eye on the store, and their health once a second."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn

from aerial_vpr_cl.errors import AerialVprError
from aerial_vpr_cl.nodes.diagnostics import diagnostic_array
from aerial_vpr_cl.nodes.generation_watch import GenerationWatch, Known
from aerial_vpr_cl.nodes.node_settings import ManagedSettings
from aerial_vpr_cl.nodes.parameters import NodeSettings

UNCONFIGURED, INACTIVE, ACTIVE, FINALIZED = "unconfigured", "inactive", "active", "finalized"


class ManagedNode(LifecycleNode, Generic[Known]):
    """Starts by itself unless told otherwise, follows the generations of its store, and goes on whatever happens.

    A node connects when a generation is loaded and disconnects when it is given up; `Known` is what it makes of one.
    """

    def __init__(
        self,
        name: str,
        parameters: Mapping[str, Sequence[type]],
        fixed: Sequence[str],
        load: Callable[[Path, Known | None], tuple[int, Known]],
        **options: Any,
    ) -> None:
        super().__init__(name, automatically_declare_parameters_from_overrides=True, **options)
        self.settings = NodeSettings(self, parameters, fixed=fixed, changed=self.settings_changed)
        managed: ManagedSettings = self.settings[next(c for c in parameters[""] if issubclass(c, ManagedSettings))]
        self.watch = GenerationWatch(managed.store, load)
        self.state = UNCONFIGURED
        self._store = managed.store
        self._starts_itself = managed.autostart
        self._starting = threading.Lock()
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        # Loading takes seconds and closing a bag may: neither may hold up the diagnostics.
        self.slow = MutuallyExclusiveCallbackGroup()
        ticking = MutuallyExclusiveCallbackGroup()
        steady = Clock(clock_type=ClockType.STEADY_TIME)  # simulated time may stand still
        self._first_look = self.create_timer(0.0, self._look_at_once, callback_group=self.slow, clock=steady)
        self.create_timer(1.0, self._look_at_store, callback_group=self.slow, clock=steady)
        self.create_timer(1.0, self._tell, callback_group=ticking, clock=steady)

    # What a node adds

    def connect(self) -> None:
        """Make publishers, subscriptions and all that needs a generation; may raise."""

    def disconnect(self) -> None:
        """Close what `connect` made, or the part of it that there is."""

    def pause(self) -> None:
        """End what is under way: the node is no longer active."""

    def each_second(self) -> None:
        """Called after a change in the store was taken into use."""

    def settings_changed(self) -> None:
        """Parameters were set."""

    def health(self) -> tuple[bytes, str]:
        """Level and words of the diagnostics."""
        raise NotImplementedError

    def values(self) -> dict[str, Any]:
        """What the diagnostics say besides state and store."""
        return {}

    def note_error(self, what: str, error: Exception) -> None:
        """Something went wrong that should not."""
        self.get_logger().error(f"{what}: unexpected {error!r}", throttle_duration_sec=5.0)

    # Life cycle

    @property
    def is_active(self) -> bool:
        """Whether the node does its work."""
        return self.state == ACTIVE

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load the newest generation and connect; without a usable store stay unconfigured and say why."""
        try:
            self.watch.load()
            self.connect()
        except Exception as error:
            self.watch.problem = str(error) or repr(error)
            self.get_logger().error(f"cannot be configured: {self.watch.problem}")
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
        """Forget the generation and disconnect, until a lifecycle manager or ~/reload asks again."""
        self._starts_itself = False
        return self._end(UNCONFIGURED, super().on_cleanup, state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Finish for good."""
        self._starts_itself = False
        return self._end(FINALIZED, super().on_shutdown, state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """A transition failed halfway: begin again from nothing."""
        return self._end(UNCONFIGURED, super().on_error, state)

    def close(self) -> None:
        """Finish before the process ends."""
        self.state, self._starts_itself = FINALIZED, False
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

    def _give_up(self) -> None:
        self.disconnect()
        self.watch.forget()

    # Once a second

    def _look_at_once(self) -> None:
        self.destroy_timer(self._first_look)
        if self._starts_itself:
            self.start()

    def _look_at_store(self) -> None:
        with self.edge("store"):
            if self.watch.has_changed():
                self._follow()
            self.each_second()

    def _follow(self) -> None:
        if self.state == UNCONFIGURED:
            if self._starts_itself:
                self.start()
            return
        try:
            self.watch.load()
        except AerialVprError as error:
            self.get_logger().error(f"the new generation is not used: {error}")

    def _tell(self) -> None:
        with self.edge("diagnostics"):
            level, words = self.health()
            values = {
                "state": self.state,
                "store": self._store,
                "store problem": self.watch.problem,
                "generation": "" if self.watch.number is None else self.watch.number,
                **self.values(),
            }
            stamp = self.get_clock().now().to_msg()
            self._diagnostics.publish(diagnostic_array(stamp, self.get_fully_qualified_name(), level, words, values))

    @contextmanager
    def edge(self, what: str) -> Iterator[None]:
        """Nothing that goes wrong inside leaves: it is logged and counted."""
        try:
            yield
        except Exception as error:
            self.note_error(what, error)
