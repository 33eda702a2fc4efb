"""The learner node: after landing, Learn-and-Dispose on the missions that wait, when the operator asks for it.

    fix, landed  ─►  learner  ─►  ~/progress  ~/generation  /diagnostics;   services ~/adapt  ~/cancel  ~/rollback

Learning has a process of its own: the node answers meanwhile, and whatever becomes of that process, the generation
that served goes on serving until the next one is durable. The answer of ~/adapt is read from the store.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import NavSatFix
from std_msgs.msg import Bool, UInt64
from std_srvs.srv import Trigger

from aerial_vpr_cl.errors import AerialVprError, StoreError
from aerial_vpr_cl.knowledge.draft import Generation
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.learning.adapt_settings import AdaptSettings
from aerial_vpr_cl.learning.update import CANCEL_PATIENCE_S, Outcome, RunningUpdate
from aerial_vpr_cl.learning.update_process import UpdateLimits
from aerial_vpr_cl.mission.gnss import Fix, GnssGates
from aerial_vpr_cl.mission.open_mission import missions_being_recorded
from aerial_vpr_cl.nodes.interlock import Interlock
from aerial_vpr_cl.nodes.living_node import LATCHED
from aerial_vpr_cl.nodes.managed_node import ManagedNode
from aerial_vpr_cl.nodes.node_settings import LearnerSettings
from aerial_vpr_cl.nodes.progress_messages import progress_message, words_of
from aerial_vpr_cl.nodes.running import run_node

ANSWER_S = 0.3
"""How long the executor may take to send an answer that a callback has returned."""
PARAMETERS = {"": (LearnerSettings, AdaptSettings), "limits": (UpdateLimits,), "gnss": (GnssGates,)}
FIXED = ("store", "autostart", "gnss")
"""Read-only parameters; the others count from the next ~/adapt on."""


class LearnerNode(ManagedNode[Generation]):
    """Takes orders while it is active."""

    def __init__(self, **options: Any) -> None:
        super().__init__("learner", PARAMETERS, FIXED, _newest, **options)
        self._lock = threading.Lock()  # held while it is decided whether an order is taken
        self._idle = threading.Event()
        self._idle.set()
        self._update: RunningUpdate | None = None
        self._last: Outcome | None = None
        self._interlock: Interlock | None = None
        self._subscriptions_of_flight: list[Any] = []
        self._told: int | None = None  # the generation that was published last
        waiting = ReentrantCallbackGroup()
        self._progress_out = self.create_publisher(DiagnosticStatus, "~/progress", 10)
        self._generation_out = self.create_publisher(UInt64, "~/generation", LATCHED)
        self.create_service(Trigger, "~/adapt", self._on_adapt, callback_group=waiting)
        self.create_service(Trigger, "~/cancel", self._on_cancel, callback_group=waiting)
        self.create_service(Trigger, "~/rollback", self._on_rollback, callback_group=waiting)

    @property
    def _learner(self) -> LearnerSettings:
        return self.settings[LearnerSettings]

    @property
    def _name(self) -> str:
        return self.get_fully_qualified_name()

    # Life cycle

    def connect(self) -> None:
        """Listen to the signs of flight."""
        self._interlock = Interlock(open_map(self.watch.path).grid.projection, self.settings[GnssGates])
        # An autopilot bridge may say `landed` over and over, or once and latched: one subscription cannot hear both.
        self._subscriptions_of_flight = [
            self.create_subscription(NavSatFix, "fix", self._on_fix, qos_profile_sensor_data),
            self.create_subscription(Bool, "landed", self._on_landed, qos_profile_sensor_data),
            self.create_subscription(Bool, "landed", self._on_landed, LATCHED),
        ]
        self._tell_generation()

    def disconnect(self) -> None:
        """Hear of nothing any more."""
        while self._subscriptions_of_flight:
            self.destroy_subscription(self._subscriptions_of_flight.pop())
        self._interlock = None

    def pause(self) -> None:
        """An update that runs is cancelled, and whoever waits for it gets an answer."""
        with self._lock:
            update = self._update
        if update is not None:
            update.cancel()
        self._idle.wait(2 * CANCEL_PATIENCE_S)

    def close(self) -> None:
        """Finish before the process ends."""
        was_idle = self._idle.is_set()
        super().close()
        if not was_idle:
            time.sleep(ANSWER_S)

    # Orders

    def _on_adapt(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return self._obey(self._start_update, self._await_update, response)

    def _on_rollback(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return self._obey(self._require_ground, self._roll_back, response)

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
            outcome = Outcome(False, _words_of_error(error), self.watch.number)
        with self._lock:
            self._last, self._update = outcome, None
            self._idle.set()
        if outcome.success or outcome.cancelled:  # two lines, as a call of the ROS logger may not change its severity
            self.get_logger().info(outcome.message)
        else:
            self.get_logger().error(outcome.message)
        response.success, response.message = outcome.success, outcome.message
        return response

    def _require_idle(self) -> None:
        if not self.is_active:
            raise StoreError(f"the learner is {self.state}; activate it first. {self.watch.problem}".strip())
        if not self._idle.is_set():
            raise StoreError(f"busy: {words_of(self._update)}; wait for its end, or call ~/cancel first")

    def _start_update(self) -> None:
        self._require_ground()
        self._require_whole_missions()
        store = GenerationStore(self.watch.path)
        self._update = RunningUpdate(store, self.settings[AdaptSettings], self.settings[UpdateLimits])

    def _require_ground(self) -> None:
        if (sign := self._flight()) and not self._learner.allow_while_flying:
            raise StoreError(f"the drone flies: {sign}; land first (or set allow_while_flying on the desk)")

    def _require_whole_missions(self) -> None:
        """What is still being recorded would be left out, and the operator would believe it learnt."""
        missions = missions_being_recorded(GenerationStore(self.watch.path).missions_dir)
        if missions:
            raise StoreError(
                f"mission {', '.join(missions)} is still being recorded; wait until the recorder has noticed that the "
                "drone landed (recording.stop_after_s), or end it with ~/record of the localization node, data: false"
            )

    def _await_update(self) -> Outcome:
        assert self._update is not None
        outcome = self._update.wait()
        assert outcome is not None
        self._progress_out.publish(progress_message(self._name, self._update.stage, outcome))
        self._take_over()
        return outcome

    def _roll_back(self) -> Outcome:
        store = GenerationStore(self.watch.path)
        before = store.newest().number
        now = store.rollback().number
        self._take_over()
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

    def _take_over(self) -> None:
        """The store has changed by an order: say at once what serves."""
        with suppress(AerialVprError):  # then it is in the diagnostics
            self.watch.load()
        self._tell_generation()

    def each_second(self) -> None:
        """Publish how far an update is, and the generation that serves when it is another one."""
        if (update := self._update) and update.wait(0.0) is None:
            self._progress_out.publish(progress_message(self._name, update.stage))
        self._tell_generation()

    def _tell_generation(self) -> None:
        if self.watch.number is not None and self.watch.number != self._told:
            self._told = self.watch.number
            self._generation_out.publish(UInt64(data=self._told))

    def values(self) -> dict[str, Any]:
        """What the diagnostics say besides state and store."""
        is_open = self.watch.known is not None
        return {
            "missions waiting": len(GenerationStore(self.watch.path).waiting_missions()) if is_open else "",
            "busy": "" if self._idle.is_set() else words_of(self._update),
            "signs of flight": self._flight(),
            "last answer": self._last.message if self._last else "",
        }

    def health(self) -> tuple[bytes, str]:
        """Level and words of the diagnostics."""
        if self.watch.problem:
            return DiagnosticStatus.ERROR, self.watch.problem
        if not self.is_active:
            return DiagnosticStatus.WARN, self.state
        if not self._idle.is_set():
            if sign := self._flight():
                return DiagnosticStatus.WARN, f"learning while the drone flies: {sign}"
            return DiagnosticStatus.OK, f"busy: {words_of(self._update)}"
        if self._last is not None and not self._last.success and not self._last.cancelled:
            return DiagnosticStatus.WARN, self._last.message
        return DiagnosticStatus.OK, f"ready; generation {self.watch.number} serves"


def _newest(store: Path, _: Generation | None) -> tuple[int, Generation]:
    generation = GenerationStore(store).newest()
    return generation.number, generation


def _words_of_error(error: Exception) -> str:
    return str(error) if isinstance(error, AerialVprError) else f"unexpected {error!r}"


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(LearnerNode, args)
