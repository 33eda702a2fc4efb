"""The learner node: after landing, Learn-and-Dispose on the missions that wait, when the operator asks for it.

    fix, landed  ─►  learner  ─►  ~/progress  ~/generation  /diagnostics;   services ~/adapt  ~/cancel  ~/rollback

Learning has a process of its own: the node answers meanwhile, and whatever becomes of that process, the generation
that served goes on serving until the next one is durable. The answer of ~/adapt is read from the store.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.qos import QoSDurabilityPolicy, QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import NavSatFix
from std_msgs.msg import Bool, UInt64
from std_srvs.srv import Trigger

from aerial_vpr_cl.errors import AerialVprError, StoreError
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.knowledge.readiness import what_is_missing
from aerial_vpr_cl.learning.adapt_settings import AdaptSettings
from aerial_vpr_cl.learning.update import CANCEL_PATIENCE_S, Outcome, RunningUpdate
from aerial_vpr_cl.learning.update_process import UpdateLimits
from aerial_vpr_cl.mission.gnss import Fix
from aerial_vpr_cl.nodes.diagnostics import diagnostic_array
from aerial_vpr_cl.nodes.interlock import Interlock
from aerial_vpr_cl.nodes.learner_settings import LearnerSettings
from aerial_vpr_cl.nodes.parameters import NodeSettings
from aerial_vpr_cl.nodes.progress_messages import progress_message, words_of
from aerial_vpr_cl.nodes.running import run_node

LATCHED = QoSProfile(depth=1, durability=QoSDurabilityPolicy.TRANSIENT_LOCAL)
ANSWER_S = 0.3
"""How long the executor may take to send an answer that a callback has returned."""
PARAMETERS = {"": (LearnerSettings, AdaptSettings), "limits": (UpdateLimits,)}
FIXED = ("store", "autostart")
"""Read-only parameters; the others count from the next ~/adapt on."""


class LearnerNode(LifecycleNode):
    """A managed node that, unless told otherwise, starts by itself."""

    def __init__(self, **options: Any) -> None:
        super().__init__("learner", **options)
        self._settings = NodeSettings(self, PARAMETERS, fixed=FIXED)
        self._lock = threading.Lock()  # held while it is decided whether an order is taken
        self._idle = threading.Event()
        self._idle.set()
        self._update: RunningUpdate | None = None
        self._last: Outcome | None = None
        self._store: GenerationStore | None = None
        self._interlock: Interlock | None = None
        self._subscriptions_of_flight: list[Any] = []
        self._problem = ""
        self._is_store_missing = False
        self._seen: list[int] = []  # generations there were when the newest was looked up
        self._generation: int | None = None
        self._is_active = False
        waiting, ticking = ReentrantCallbackGroup(), MutuallyExclusiveCallbackGroup()
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._progress_out = self.create_publisher(DiagnosticStatus, "~/progress", 10)
        self._generation_out = self.create_publisher(UInt64, "~/generation", LATCHED)
        self.create_service(Trigger, "~/adapt", self._on_adapt, callback_group=waiting)
        self.create_service(Trigger, "~/cancel", self._on_cancel, callback_group=waiting)
        self.create_service(Trigger, "~/rollback", self._on_rollback, callback_group=waiting)
        steady = Clock(clock_type=ClockType.STEADY_TIME)  # simulated time may stand still
        self.create_timer(1.0, self._tick, callback_group=ticking, clock=steady)
        if self._learner.autostart:
            self._start_timer = self.create_timer(0.0, self._start, callback_group=ticking, clock=steady)

    @property
    def _learner(self) -> LearnerSettings:
        return self._settings[LearnerSettings]

    @property
    def _name(self) -> str:
        return self.get_fully_qualified_name()

    @property
    def _state(self) -> str:
        return self._state_machine.current_state[1]

    # Life cycle

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Open the store; without a usable one stay unconfigured and say why."""
        try:
            missing = what_is_missing(self._learner.store)
            self._is_store_missing = bool(missing)
            if missing:
                raise StoreError(missing)
            path = Path(self._learner.store).expanduser()
            self._interlock = Interlock(open_map(path).grid.projection)
            self._store, self._problem = GenerationStore(path), ""
        except AerialVprError as error:
            self._problem = str(error)
            self.get_logger().error(f"cannot be configured: {error}")
            return TransitionCallbackReturn.FAILURE
        # An autopilot bridge may say `landed` over and over, or once and latched: one subscription cannot hear both.
        self._subscriptions_of_flight = [
            self.create_subscription(NavSatFix, "fix", self._on_fix, qos_profile_sensor_data),
            self.create_subscription(Bool, "landed", self._on_landed, qos_profile_sensor_data),
            self.create_subscription(Bool, "landed", self._on_landed, LATCHED),
        ]
        self._look_at_store()
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Begin to accept orders."""
        self._is_active = True
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Accept no more orders; an update that runs is cancelled."""
        self._stop()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Forget the store."""
        while self._subscriptions_of_flight:
            self.destroy_subscription(self._subscriptions_of_flight.pop())
        self._store, self._interlock, self._generation, self._seen = None, None, None, []
        return super().on_cleanup(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Finish for good."""
        self._stop()
        return super().on_shutdown(state)

    def close(self) -> None:
        """Finish before the process ends: the update is cancelled, and whoever waits for it gets an answer."""
        was_idle = self._idle.is_set()
        self._stop()
        if not was_idle:
            time.sleep(ANSWER_S)

    def _stop(self) -> None:
        with self._lock:
            self._is_active = False
            update = self._update
        if update is not None:
            update.cancel()
        self._idle.wait(2 * CANCEL_PATIENCE_S)

    def _start(self) -> None:
        self._start_timer.cancel()
        self.trigger_configure()
        if self._state == "inactive":
            self.trigger_activate()

    # Orders

    def _on_adapt(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return self._obey(self._start_update, self._await_update, response)

    def _on_rollback(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return self._obey(lambda: None, self._roll_back, response)

    def _on_cancel(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        with self._lock:
            update = self._update
        if update is None:
            response.success, response.message = False, "nothing is being learnt; there is nothing to cancel"
            return response
        self.get_logger().info("the operator cancels the update")
        update.cancel()
        outcome = update.wait(2 * CANCEL_PATIENCE_S)
        response.success = outcome is not None
        response.message = outcome.message if outcome else f"the update (process {update.pid}) does not end"
        return response

    def _obey(
        self, begin: Callable[[], None], finish: Callable[[], Outcome], response: Trigger.Response
    ) -> Trigger.Response:
        """Carry out an order, one at a time; whatever speaks against it, or goes wrong, becomes the answer."""
        try:
            with self._lock:
                self._require_idle()
                begin()
                self._idle.clear()
        except Exception as error:
            response.success, response.message = False, _words_of_error(error)
            return response
        try:
            outcome = finish()
        except Exception as error:
            outcome = Outcome(False, _words_of_error(error), self._generation)
        with self._lock:
            self._last, self._update = outcome, None
            self._idle.set()
        if outcome.success:  # two lines, as a call of the ROS logger may not change its severity
            self.get_logger().info(outcome.message)
        else:
            self.get_logger().error(outcome.message)
        response.success, response.message = outcome.success, outcome.message
        return response

    def _require_idle(self) -> None:
        if not self._is_active:
            raise StoreError(f"the learner is {self._state}; activate it first. {self._problem}".strip())
        if not self._idle.is_set():
            raise StoreError(f"busy: {words_of(self._update)}; wait for its end, or call ~/cancel first")

    def _start_update(self) -> None:
        assert self._store is not None
        if (sign := self._flight()) and not self._learner.allow_while_flying:
            raise StoreError(f"the drone flies: {sign}; land first (or set allow_while_flying on the desk)")
        self._update = RunningUpdate(self._store, self._settings[AdaptSettings], self._settings[UpdateLimits])

    def _await_update(self) -> Outcome:
        assert self._update is not None
        outcome = self._update.wait()
        assert outcome is not None
        self._progress_out.publish(progress_message(self._name, self._update.stage, outcome))
        self._look_at_store()
        return outcome

    def _roll_back(self) -> Outcome:
        assert self._store is not None
        before = self._store.newest().number
        now = self._store.rollback().number
        self._look_at_store()
        lost = "missions that were deleted when it was learnt do not come back"
        return Outcome(True, f"generation {before} is withdrawn; {lost}. Generation {now} serves.", now)

    # Signs of flight

    def _on_fix(self, message: NavSatFix) -> None:
        if self._interlock is not None:
            self._interlock.add_fix(Fix.from_message(message, self.get_clock().now().nanoseconds))

    def _on_landed(self, message: Bool) -> None:
        if self._interlock is not None:
            self._interlock.set_landed(message.data)

    def _flight(self) -> str:
        return self._interlock.flight(self._learner.flying_speed_mps) if self._interlock else ""

    # Telling

    def _tick(self) -> None:
        """Once a second."""
        try:
            if update := self._update:
                self._progress_out.publish(progress_message(self._name, update.stage))
            if self._is_store_missing and self._learner.autostart and not what_is_missing(self._learner.store):
                self._start()
            self._look_at_store()
            self._publish_diagnostics()
        except Exception as error:
            self.get_logger().error(f"unexpected {error!r}", throttle_duration_sec=5.0)

    def _look_at_store(self) -> None:
        """Publish the generation that serves when it is another one; files are read only when folders changed."""
        store = self._store
        if store is None or (numbers := store.numbers()) == self._seen:
            return
        try:
            number, self._seen, self._problem = store.newest().number, numbers, ""
        except StoreError as error:
            self._problem = str(error)
            return
        if number != self._generation:
            self._generation = number
            self._generation_out.publish(UInt64(data=number))

    def _publish_diagnostics(self) -> None:
        level, words = self._health()
        store = self._store
        values = {
            "state": self._state,
            "store": self._learner.store,
            "generation": "" if self._generation is None else self._generation,
            "missions waiting": len(store.waiting_missions()) if store else "",
            "busy": "" if self._idle.is_set() else words_of(self._update),
            "signs of flight": self._flight(),
            "last answer": self._last.message if self._last else "",
        }
        stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(diagnostic_array(stamp, self._name, level, words, values))

    def _health(self) -> tuple[bytes, str]:
        if self._problem:
            return DiagnosticStatus.ERROR, self._problem
        if not self._is_active:
            return DiagnosticStatus.WARN, self._state
        if not self._idle.is_set():
            if sign := self._flight():
                return DiagnosticStatus.WARN, f"learning while the drone flies: {sign}"
            return DiagnosticStatus.OK, f"busy: {words_of(self._update)}"
        if self._last is not None and not self._last.success:
            return DiagnosticStatus.WARN, self._last.message
        return DiagnosticStatus.OK, f"ready; generation {self._generation} serves"


def _words_of_error(error: Exception) -> str:
    return str(error) if isinstance(error, AerialVprError) else f"unexpected {error!r}"


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(LearnerNode, args)


if __name__ == "__main__":
    sys.exit(main())
