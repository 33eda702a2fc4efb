"""The localization node: camera images in, geographic poses out, the sortie recorded for learning.

    image, fix  ─►  localization  ─►  ~/fix  ~/pose  ~/geo_pose  ~/cells  /diagnostics;   services ~/record  ~/reload

Images are answered one at a time by a thread of their own, the newest first. GNSS gives labels to recorded frames and
an error to the diagnostics; it never touches a published position. Whatever arrives, the node goes on.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PoseWithCovarianceStamped
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.serialization import serialize_message
from sensor_msgs.msg import CompressedImage, Image, NavSatFix
from std_srvs.srv import SetBool, Trigger
from visualization_msgs.msg import MarkerArray

from aerial_vpr_cl.errors import AerialVprError, MissionError, StoreError
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.localization.estimate import Estimate, Rejection
from aerial_vpr_cl.localization.localizer import Localizer, LocalizerSettings
from aerial_vpr_cl.mission.gnss import Fix, GnssGates
from aerial_vpr_cl.mission.messages import stamp_of
from aerial_vpr_cl.mission.recorder import MissionRecorder, RecorderStatus
from aerial_vpr_cl.mission.recorder_settings import NEVER, RecorderSettings
from aerial_vpr_cl.nodes import messages
from aerial_vpr_cl.nodes.diagnostics import (
    BAD_IMAGE,
    INTERNAL_ERROR,
    NO_IMAGE_S,
    FlightCounters,
    diagnostic_array,
    recording_values,
)
from aerial_vpr_cl.nodes.flight_settings import COMPRESSED, FlightSettings
from aerial_vpr_cl.nodes.frame_worker import FrameWorker
from aerial_vpr_cl.nodes.generation_watch import GenerationWatch
from aerial_vpr_cl.nodes.gnss_monitor import GnssMonitor
from aerial_vpr_cl.nodes.image_messages import decode_compressed_image, pick_decoder
from aerial_vpr_cl.nodes.parameters import NodeSettings
from aerial_vpr_cl.nodes.running import run_node
from aerial_vpr_cl.nodes.sensor_inputs import SensorInputs

JUMP_NS = 1_000_000_000
"""Stamps that fall back by more than this are a jump of time, less is the disorder of a network."""
PARAMETERS = {"": (FlightSettings, LocalizerSettings), "gnss": (GnssGates,), "recording": (RecorderSettings,)}
FIXED = (*(field.name for field in dataclasses.fields(FlightSettings)), "gnss")
"""Read-only parameters; the others may change in flight."""


class _Frame(NamedTuple):
    message: Any  # Image or CompressedImage
    stamp_ns: int
    received_s: float  # monotonic


class LocalizationNode(LifecycleNode):
    """A managed node that, unless told otherwise, starts by itself."""

    def __init__(self, **options: Any) -> None:
        super().__init__("localization", **options)
        self._settings = NodeSettings(self, PARAMETERS, fixed=FIXED, changed=self._apply_settings)
        self._counters = FlightCounters()
        self._gnss = GnssMonitor(self._settings[GnssGates])
        self._generations = GenerationWatch(self._flight.store, self._flight.device)
        self._recorder: MissionRecorder | None = None
        self._is_active = False
        self._starts_itself = self._flight.autostart
        self._newest_ns = {"image": 0, "fix": 0}
        self._starting = threading.Lock()
        self._decoder_name, self._decode_raw = pick_decoder()
        self._decode: Callable[[Any], Any] = self._decode_raw
        self._geo_pose_type = messages.geo_pose_type()
        self._inputs: SensorInputs | None = None
        self._outputs: list[Any] = []
        self._worker: FrameWorker[_Frame] = FrameWorker(self._answer)
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        # Loading takes seconds and closing a bag may: neither may hold up images, nor the diagnostics.
        slow, ticking = MutuallyExclusiveCallbackGroup(), MutuallyExclusiveCallbackGroup()
        self.create_service(SetBool, "~/record", self._on_record, callback_group=slow)
        self.create_service(Trigger, "~/reload", self._on_reload, callback_group=slow)
        steady = Clock(clock_type=ClockType.STEADY_TIME)  # simulated time may stand still
        self.create_timer(1.0, self._look_at_store, callback_group=slow, clock=steady)
        self.create_timer(1.0, self._publish_diagnostics, callback_group=ticking, clock=steady)
        self._first_look = self.create_timer(0.0, self._look_at_once, callback_group=slow, clock=steady)

    @property
    def _flight(self) -> FlightSettings:
        return self._settings[FlightSettings]

    @property
    def _state(self) -> str:
        return self._state_machine.current_state[1]

    # Life cycle

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load the newest generation and connect; without a usable store stay unconfigured and say why."""
        try:
            self._generations.load()
            self._connect()
        except Exception as error:
            self._generations.problem = str(error) or repr(error)
            self.get_logger().error(f"cannot be configured: {self._generations.problem}")
            self._disconnect()
            return TransitionCallbackReturn.FAILURE
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Begin to answer."""
        result = super().on_activate(state)
        self._is_active = True
        return result

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Answer no more; a mission that is being recorded ends."""
        self._is_active = False
        self._worker.clear()
        if self._recorder is not None and self._recorder.is_recording:
            self._recorder.stop()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Forget the generation and disconnect, until a lifecycle manager or ~/reload asks again."""
        self._starts_itself = False
        result = super().on_cleanup(state)
        self._disconnect()
        return result

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Finish for good."""
        result = super().on_shutdown(state)
        self._disconnect()
        return result

    def close(self) -> None:
        """Finish before the process ends: the bag is closed, the threads end."""
        self._is_active = False
        self._worker.close()
        self._disconnect()

    def _look_at_once(self) -> None:
        self.destroy_timer(self._first_look)
        if self._starts_itself:
            self._start()

    def _start(self) -> None:
        with self._edge("start"), self._starting:
            if self._state == "unconfigured":
                self.trigger_configure()
            if self._state == "inactive":
                self.trigger_activate()

    def _connect(self) -> None:
        localizer = self._generations.localizer
        assert localizer is not None
        compressed = self._flight.image_transport == COMPRESSED
        self._decode = decode_compressed_image if compressed else self._decode_raw
        missions = GenerationStore(self._generations.path).missions_dir
        self._recorder = MissionRecorder(
            missions, localizer.grid, self._settings[RecorderSettings], self._settings[GnssGates]
        )
        self._fix_out = self._publisher(NavSatFix, "~/fix")
        self._pose_out = self._publisher(PoseWithCovarianceStamped, "~/pose")
        self._cells_out = self._publisher(MarkerArray, "~/cells")
        self._geo_pose_out = self._publisher(self._geo_pose_type, "~/geo_pose") if self._geo_pose_type else None
        self._inputs = SensorInputs(self, CompressedImage if compressed else Image, self._on_image, self._on_fix)

    def _publisher(self, kind: Any, topic: str) -> Any:
        publisher = self.create_lifecycle_publisher(kind, topic, 10)
        self._outputs.append(publisher)
        return publisher

    def _disconnect(self) -> None:
        self._is_active = False
        inputs, self._inputs = self._inputs, None
        if inputs is not None:
            inputs.close()
        self._worker.clear()
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.close()
        self._generations.forget()
        while self._outputs:
            self.destroy_lifecycle_publisher(self._outputs.pop())

    # Images and fixes

    def _on_image(self, message: Any) -> None:
        received_s = time.monotonic()
        with self._edge("image"):
            recorder = self._recorder
            if not self._is_active or recorder is None:
                return
            self._counters.add_received()
            stamp_ns = self._stamp_of(message, "image")
            if recorder.is_recording:
                compressed = isinstance(message, CompressedImage)
                recorder.offer_image(stamp_ns, bytes(message.data) if compressed else lambda: self._decode(message))
            if self._worker.put(_Frame(message, stamp_ns, received_s)):
                self._counters.add_dropped()

    def _on_fix(self, message: NavSatFix) -> None:
        with self._edge("fix"):
            recorder = self._recorder
            if not self._is_active or recorder is None:
                return
            fix = Fix.from_message(message, self._stamp_of(message, "fix"))
            self._gnss.add_fix(fix)
            recorder.offer_fix(fix, bytes(serialize_message(message)))

    def _answer(self, frame: _Frame) -> None:
        """In the worker's thread: decode, localize, publish."""
        with self._edge("frame"):
            localizer = self._generations.localizer
            if localizer is None:
                return
            try:
                image = self._decode(frame.message)
                answer = localizer.localize(image, self._settings[LocalizerSettings])
            except MissionError as error:
                self._counters.add_rejection(BAD_IMAGE, str(error))
                self.get_logger().warning(f"an image cannot be used: {error}", throttle_duration_sec=5.0)
                self._publish_no_fix(frame, localizer)
                return
            if isinstance(answer, Rejection):
                self._counters.add_rejection(answer.reason)
                self._publish_no_fix(frame, localizer)
            else:
                self._publish(frame, answer, localizer)

    def _publish_no_fix(self, frame: _Frame, localizer: Localizer) -> None:
        """Say that there is no answer: whoever waits for this frame need not wait longer."""
        header = messages.header_of(frame.message.header, self._flight.fix_frame_id)
        self._fix_out.publish(messages.no_fix_message(header, localizer.estimator))

    def _publish(self, frame: _Frame, answer: Estimate, localizer: Localizer) -> None:
        header, estimator = frame.message.header, localizer.estimator
        fix_header = messages.header_of(header, self._flight.fix_frame_id)
        map_header = messages.header_of(header, self._flight.map_frame_id)
        self._fix_out.publish(messages.fix_message(fix_header, answer, estimator))
        self._pose_out.publish(messages.pose_message(map_header, answer))
        if self._geo_pose_out is not None:
            self._geo_pose_out.publish(messages.geo_pose_message(self._geo_pose_type, fix_header, answer, estimator))
        self._counters.add_answer(time.monotonic() - frame.received_s)
        self._gnss.add_estimate(frame.stamp_ns, answer.position)
        if self._cells_out.get_subscription_count():
            self._cells_out.publish(messages.cells_message(map_header, answer, estimator))

    def _stamp_of(self, message: Any, stream: str) -> int:
        """The stamp in nanoseconds, or the time now if the driver set none; notices when time runs backwards."""
        stamp_ns = stamp_of(message) or self.get_clock().now().nanoseconds
        newest_ns = self._newest_ns[stream]
        self._newest_ns[stream] = stamp_ns if stamp_ns < newest_ns - JUMP_NS else max(stamp_ns, newest_ns)
        if stamp_ns < newest_ns - JUMP_NS:
            self.get_logger().warning(f"time of {stream} went back", throttle_duration_sec=5.0)
            self._counters.add_time_jump()
            self._gnss.reset()
            if self._recorder is not None and self._recorder.is_recording:
                self._recorder.stop()
                self._recorder.start()
        return stamp_ns

    # Services, parameters, generations

    def _on_record(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        try:
            if self._recorder is None or not self._is_active:
                raise MissionError(f"the node is {self._state}; nothing can be recorded: {self._generations.problem}")
            if request.data:
                response.message = f"recording mission {self._recorder.start().result(30.0)}"
            else:
                path = self._recorder.stop().result(60.0)
                response.message = f"mission {path}" if path else "no mission with frames was being recorded"
            response.success = True
        except Exception as error:
            response.success, response.message = False, str(error) or repr(error)
        return response

    def _on_reload(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        try:
            if self._state == "unconfigured":
                self._start()
            else:
                self._generations.load()
            if self._generations.localizer is None:
                raise StoreError(self._generations.problem)
            response.success, response.message = True, f"generation {self._generations.number}"
        except Exception as error:
            response.success, response.message = False, str(error) or repr(error)
        return response

    def _look_at_store(self) -> None:
        """Once a second: has a learner committed, or withdrawn, a generation?"""
        with self._edge("store"):
            if not self._generations.has_changed():
                return
            if self._generations.localizer is None:
                if self._starts_itself:
                    self._start()
                return
            try:
                self._generations.load()
            except AerialVprError as error:
                self.get_logger().error(f"the new generation is not used: {error}")

    def _apply_settings(self) -> None:
        if self._recorder is not None:
            self._recorder.settings = self._settings[RecorderSettings]
            if self._recorder.settings.mode == NEVER and self._recorder.is_recording:
                self._recorder.stop()

    # Diagnostics

    def _publish_diagnostics(self) -> None:
        with self._edge("diagnostics"):
            localizer, recorder = self._generations.localizer, self._recorder
            recording = recorder.status if recorder is not None else RecorderStatus()
            level, words = self._health(recording.problem)
            values: dict[str, Any] = {
                "state": self._state,
                "generation": "" if localizer is None else self._generations.number,
                "store": self._flight.store,
                "store problem": self._generations.problem,
                "image decoder": self._decoder_name,
                **self._counters.values(),
                **self._gnss.values(localizer.grid if localizer else None),
                **recording_values(recording),
            }
            stamp = self.get_clock().now().to_msg()
            self._diagnostics.publish(diagnostic_array(stamp, self.get_fully_qualified_name(), level, words, values))

    def _health(self, recording_problem: str) -> tuple[bytes, str]:
        store_problem = self._generations.problem
        if self._generations.localizer is None:
            return DiagnosticStatus.ERROR, f"{self._state}: {store_problem or 'not configured'}"
        if not self._is_active:
            return DiagnosticStatus.WARN, self._state
        if self._counters.seconds_since_image > NO_IMAGE_S:
            return DiagnosticStatus.WARN, f"no image on {self.resolve_topic_name('image')}"
        if store_problem or recording_problem:
            return DiagnosticStatus.WARN, store_problem or recording_problem
        return DiagnosticStatus.OK, f"localizing with generation {self._generations.number}"

    @contextmanager
    def _edge(self, what: str) -> Iterator[None]:
        """Nothing that goes wrong inside leaves: it is logged and counted."""
        try:
            yield
        except Exception as error:
            self._counters.add_rejection(INTERNAL_ERROR, f"{what}: {error!r}")
            self.get_logger().error(f"{what}: unexpected {error!r}", throttle_duration_sec=5.0)


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(LocalizationNode, args)


if __name__ == "__main__":
    sys.exit(main())
