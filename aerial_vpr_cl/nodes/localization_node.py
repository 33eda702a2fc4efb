"""The localization node: camera images in, geographic poses out, the sortie recorded for learning.

    image, fix; imu, height, camera_info, odometry, initialpose  ─►  localization
    localization  ─►  ~/fix  ~/pose  ~/geo_pose  ~/odometry  ~/cells  ~/state  ~/gnss_trusted  /diagnostics
    services          ~/record  ~/reload  ~/relocalize

Images are answered one at a time by a thread of their own, the newest first. GNSS gives labels to recorded frames and
is watched; it never touches a published position. Whatever arrives, the node goes on.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseWithCovarianceStamped
from rclpy.qos import qos_profile_sensor_data
from rclpy.serialization import serialize_message
from sensor_msgs.msg import CompressedImage, Image, NavSatFix
from std_srvs.srv import SetBool, Trigger

from aerial_vpr_cl.errors import AerialVprError, MissionError, StoreError
from aerial_vpr_cl.geo.terrain import Near
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.localization.estimate import Estimate, Rejection
from aerial_vpr_cl.localization.gnss_watch import GnssReport, GnssWatch
from aerial_vpr_cl.localization.localizer import Localizer, LocalizerSettings
from aerial_vpr_cl.localization.states import STATES, TRACKING
from aerial_vpr_cl.localization.tracker_settings import TrackerSettings
from aerial_vpr_cl.mission.gnss import Fix, GnssGates
from aerial_vpr_cl.mission.messages import stamp_of
from aerial_vpr_cl.mission.readings import AltitudeReading, OdometryReading, Reading
from aerial_vpr_cl.mission.recorder import MissionRecorder, RecorderStatus
from aerial_vpr_cl.mission.recorder_settings import NEVER, RecorderSettings
from aerial_vpr_cl.mission.sensor_settings import SensorSettings
from aerial_vpr_cl.mission.sensors import FlightSensors
from aerial_vpr_cl.model.devices import pick_device
from aerial_vpr_cl.nodes import messages
from aerial_vpr_cl.nodes.answering import Answering
from aerial_vpr_cl.nodes.diagnostics import (
    BAD_IMAGE,
    INTERNAL_ERROR,
    LATE_IMAGE,
    NO_IMAGE_S,
    FlightCounters,
    gnss_values,
    recording_values,
)
from aerial_vpr_cl.nodes.flight_outputs import FlightOutputs
from aerial_vpr_cl.nodes.frame_worker import FrameWorker
from aerial_vpr_cl.nodes.image_messages import decode_compressed_image, pick_decoder
from aerial_vpr_cl.nodes.instruments import Instruments
from aerial_vpr_cl.nodes.managed_node import UNCONFIGURED, ManagedNode
from aerial_vpr_cl.nodes.node_settings import COMPRESSED, SINGLE_FRAME, TRACKED, FlightSettings
from aerial_vpr_cl.nodes.positions_between import PositionsBetween
from aerial_vpr_cl.nodes.running import run_node
from aerial_vpr_cl.nodes.sensor_inputs import NEWEST_ONLY, SensorInputs, wrong_type

JUMP_NS = 1_000_000_000
"""Stamps that fall back by more than this are a jump of time, less is the disorder of a network."""
BETWEEN_FRAMES_M = 100.0
"""How far from where it was at the last frame the drone may be, for the terrain under it."""
PARAMETERS = {
    "": (FlightSettings, LocalizerSettings),
    "tracker": (TrackerSettings,),
    "sensors": (SensorSettings,),
    "gnss": (GnssGates,),
    "recording": (RecorderSettings,),
}
FIXED = (*(field.name for field in dataclasses.fields(FlightSettings)), "tracker", "sensors", "gnss")
"""Read-only parameters; the others may change in flight."""


class _Frame(NamedTuple):
    message: Any  # Image or CompressedImage
    stamp_ns: int
    received_s: float  # monotonic


class LocalizationNode(ManagedNode[Localizer]):
    """Answers images while it is active."""

    def __init__(self, **options: Any) -> None:
        super().__init__("localization", PARAMETERS, FIXED, self._open, **options)
        self._flight = self.settings[FlightSettings]
        self._counters = FlightCounters()
        self._gnss: GnssWatch | None = None
        self._answering: Answering | None = None
        self._between: PositionsBetween | None = None
        self._recorder: MissionRecorder | None = None
        self._outputs: FlightOutputs | None = None
        self._inputs: SensorInputs | None = None
        self._sensors = FlightSensors(self.settings[SensorSettings])
        self._instruments: Instruments | None = None
        self._newest_ns = {"image": 0, "fix": 0}
        self._answered_ns = 0
        self._near: Near | None = None
        self._decoder_name, self._decode_raw = pick_decoder()
        self._decode: Callable[[Any], Any] = self._decode_raw
        self._worker: FrameWorker[_Frame] = FrameWorker(self._answer)
        self.create_service(SetBool, "~/record", self._on_record, callback_group=self.slow)
        self.create_service(Trigger, "~/reload", self._on_reload, callback_group=self.slow)
        self.create_service(Trigger, "~/relocalize", self._on_relocalize, callback_group=self.slow)

    # Life cycle

    def _open(self, store: Path, previous: Localizer | None) -> tuple[int, Localizer]:
        localizer = Localizer.open(store, device=pick_device(self._flight.device), previous=previous)
        localizer.warm_up()
        assert localizer.generation is not None
        return localizer.generation.number, localizer

    def connect(self) -> None:
        """Recorder, outputs and inputs."""
        assert self.watch.known is not None
        missions, grid = GenerationStore(self.watch.path).missions_dir, self.watch.known.grid
        recording, sensors = self.settings[RecorderSettings], self.settings[SensorSettings]
        most_pixels = round(self._flight.max_megapixels * 1e6)
        self._recorder = MissionRecorder(missions, grid, recording, self.settings[GnssGates], sensors, most_pixels)
        terrain = open_map(self.watch.path).terrain
        self._sensors = FlightSensors(sensors, north_deg=grid.north_deg, terrain=terrain)
        tracking = self.settings[TrackerSettings] if self._flight.answer == TRACKED else None
        self._answering = Answering(self.watch.path, tracking, self._localizer)
        self._gnss = GnssWatch(grid.projection, self.settings[GnssGates])
        self._outputs = FlightOutputs(self, self._flight)
        if self._flight.publish_rate_hz > 0.0:
            self._between = PositionsBetween(self, self._flight, self.settings[TrackerSettings], sensors, self._outputs)
        compressed = self._flight.image_transport == COMPRESSED
        decode_compressed = partial(decode_compressed_image, most_pixels=most_pixels)
        self._decode = decode_compressed if compressed else self._decode_raw
        self._inputs = SensorInputs(self)
        # Of what has come together the readings are heard first, so that the image finds them.
        height = self._flight.height_message
        self._instruments = Instruments(self, self._inputs, sensors, height, self._on_reading)
        self._inputs.listen(CompressedImage if compressed else Image, "image", self._on_image, NEWEST_ONLY)
        self._inputs.listen(NavSatFix, "fix", self._on_fix, qos_profile_sensor_data)
        self._inputs.listen(PoseWithCovarianceStamped, "initialpose", self._on_initial_pose, qos_profile_sensor_data)
        self._inputs.start()

    def disconnect(self) -> None:
        """The bag is closed, the threads end."""
        inputs, self._inputs, self._instruments = self._inputs, None, None
        if inputs is not None:
            inputs.close()
        self._worker.clear()
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.close()
        between, self._between = self._between, None
        if between is not None:
            between.close()
        outputs, self._outputs = self._outputs, None
        if outputs is not None:
            outputs.close()
        self._answering = self._gnss = None

    def pause(self) -> None:
        """A mission that is being recorded ends."""
        self._worker.clear()
        if self._recorder is not None and self._recorder.is_recording:
            self._recorder.stop()

    def close(self) -> None:
        """Finish before the process ends."""
        super().close()
        self._worker.close()

    # Images and fixes

    def _on_image(self, message: Any) -> None:
        received_s = time.monotonic()
        with self.edge("image"):
            recorder = self._recorder
            if not self.is_active or recorder is None:
                return
            self._counters.add_received()
            stamp_ns = self._stamp_of(message, "image")
            if recorder.is_recording:
                compressed = isinstance(message, CompressedImage)
                recorder.offer_image(stamp_ns, bytes(message.data) if compressed else lambda: self._decode(message))
            if self._between is not None:
                self._between.image_came(stamp_ns)
            if self._worker.put(_Frame(message, stamp_ns, received_s)):
                self._counters.add_dropped()

    def _on_fix(self, message: NavSatFix) -> None:
        with self.edge("fix"):
            recorder = self._recorder
            if not self.is_active or recorder is None:
                return
            fix = Fix.from_message(message, self._stamp_of(message, "fix"))
            if self._gnss is not None:
                self._gnss.add_fix(fix)
            if fix.status >= 0:
                self._sensors.add(AltitudeReading(fix.stamp_ns, fix.altitude))
            recorder.offer_fix(fix, bytes(serialize_message(message)))

    def _on_reading(self, reading: Reading, message_type: str, message: Any) -> None:
        with self.edge("reading"):
            recorder = self._recorder
            if not self.is_active or recorder is None:
                return
            self._sensors.add(reading)
            if self._between is not None and isinstance(reading, OdometryReading):
                self._between.add(reading)
            data = bytes(serialize_message(message)) if recorder.is_recording else b""
            recorder.offer_reading(reading, message_type, data)

    def _answer(self, frame: _Frame) -> None:
        """In the worker's thread: decode, localize, publish."""
        with self.edge("frame"):
            localizer, outputs, answering, gnss = self.watch.known, self._outputs, self._answering, self._gnss
            if localizer is None or outputs is None or answering is None or gnss is None:
                return
            camera_frame, estimator = frame.message.header.frame_id, localizer.estimator
            answer = self._answer_of(frame, answering)
            heading = answering.heading
            if isinstance(answer, Rejection):
                outputs.publish_silence(frame.stamp_ns, camera_frame, estimator)
            else:
                outputs.publish(frame.stamp_ns, camera_frame, answer, estimator, heading)
                self._counters.add_answer(time.monotonic() - frame.received_s)
                gnss.add_position(frame.stamp_ns, answer.position, answer.covariance)
            outputs.publish_state(frame.stamp_ns, answering.state, answer)
            if self._between is not None:
                self._between.anchor(frame.stamp_ns, camera_frame, answer, heading, estimator)

    def _answer_of(self, frame: _Frame, answering: Answering) -> Estimate | Rejection:
        answer: Estimate | Rejection
        if answering.state != SINGLE_FRAME and 0 < self._answered_ns - frame.stamp_ns <= JUMP_NS:
            answer = Rejection(LATE_IMAGE, state=answering.state)  # the disorder of a network is no jump of time
        else:
            self._answered_ns = frame.stamp_ns
            try:
                image = self._decode(frame.message)
                known = self._sensors.at(frame.stamp_ns, (image.shape[1], image.shape[0]), self._near)
                answer = answering.answer(frame.stamp_ns, image, known, self.settings[LocalizerSettings])
            except MissionError as error:
                self._counters.add_rejection(BAD_IMAGE, str(error))
                self.get_logger().warning(f"an image cannot be used: {error}", throttle_duration_sec=5.0)
                return Rejection(BAD_IMAGE, state=answering.state)
            self._near = None
            if isinstance(answer, Estimate):
                self._near = Near(answer.position, answer.radius_m + BETWEEN_FRAMES_M)
        if isinstance(answer, Rejection):
            self._counters.add_rejection(answer.reason)
        return answer

    def _forget_position(self) -> None:
        """What was known of before is carried on no more."""
        self._near = None
        if self._between is not None:
            self._between.forget()

    def _localizer(self) -> Localizer:
        assert self.watch.known is not None
        return self.watch.known

    def _on_initial_pose(self, message: PoseWithCovarianceStamped) -> None:
        with self.edge("initialpose"):
            if not self.is_active or self._answering is None:
                return
            try:
                self._answering.initialize(*messages.initial_pose_of(message, self._flight.map_frame_id))
                self._forget_position()
                self.get_logger().info("the operator says where the drone is; the views decide")
            except AerialVprError as error:
                self.get_logger().error(f"initialpose is not used: {error}")

    def _stamp_of(self, message: Any, stream: str) -> int:
        """The stamp in nanoseconds, or the time now if the driver set none; notices when time runs backwards."""
        stamp_ns = stamp_of(message) or self.get_clock().now().nanoseconds
        newest_ns = self._newest_ns[stream]
        self._newest_ns[stream] = stamp_ns if stamp_ns < newest_ns - JUMP_NS else max(stamp_ns, newest_ns)
        if stamp_ns < newest_ns - JUMP_NS:
            self.get_logger().warning(f"time of {stream} went back", throttle_duration_sec=5.0)
            self._counters.add_time_jump()
            self._forget_position()
            if self._gnss is not None:
                self._gnss.reset()
            if self._recorder is not None and self._recorder.is_recording:
                self._recorder.stop()
                self._recorder.start()
        return stamp_ns

    # Services and parameters

    def _on_record(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        try:
            if self._recorder is None or not self.is_active:
                raise MissionError(f"the node is {self.state}; nothing can be recorded: {self.watch.problem}")
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
            if self.state == UNCONFIGURED:
                self.start()
            else:
                self.watch.load()
            if self.watch.known is None:
                raise StoreError(self.watch.problem)
            response.success, response.message = True, f"generation {self.watch.number}"
        except Exception as error:
            response.success, response.message = False, str(error) or repr(error)
        return response

    def _on_relocalize(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        try:
            if self._answering is None or not self.is_active:
                raise StoreError(f"the node is {self.state}; there is no track")
            self._answering.relocalize()
            self._forget_position()
            response.success, response.message = True, "the position is forgotten; the whole map is searched"
        except Exception as error:
            response.success, response.message = False, str(error) or repr(error)
        return response

    def each_second(self) -> None:
        """Say whether the GNSS can be trusted."""
        if self._gnss is not None and self._outputs is not None and self.is_active:
            self._outputs.publish_trust(self._gnss.report().trusted)

    def settings_changed(self) -> None:
        """The recorder goes by the new settings."""
        if self._recorder is not None:
            self._recorder.settings = self.settings[RecorderSettings]
            if self._recorder.settings.mode == NEVER and self._recorder.is_recording:
                self._recorder.stop()

    # Diagnostics

    def health(self) -> tuple[bytes, str]:
        """Level and words of the diagnostics."""
        recording_problem = self._recorder.status.problem if self._recorder else ""
        if self.watch.known is None:
            return DiagnosticStatus.ERROR, f"{self.state}: {self.watch.problem or 'not configured'}"
        if not self.is_active:
            return DiagnosticStatus.WARN, self.state
        if self._counters.seconds_since_image > NO_IMAGE_S:
            return DiagnosticStatus.WARN, self._why_no_image()
        if self.watch.problem or recording_problem:
            return DiagnosticStatus.WARN, self.watch.problem or recording_problem
        state = self._answering.state if self._answering else ""
        if state not in (TRACKING, SINGLE_FRAME):
            return DiagnosticStatus.WARN, f"{state}: {STATES.get(state, state)}"
        return DiagnosticStatus.OK, f"localizing with generation {self.watch.number}"

    def values(self) -> dict[str, Any]:
        """What the diagnostics say besides state and store."""
        return {
            "tracker": self._answering.state if self._answering else "",
            "image decoder": self._decoder_name,
            **(self._instruments.values(self._sensors.problems) if self._instruments else {}),
            **self._counters.values(),
            **gnss_values(self._gnss.report() if self._gnss else GnssReport()),
            **recording_values(self._recorder.status if self._recorder else RecorderStatus()),
        }

    def _why_no_image(self) -> str:
        topic, transport = self.resolve_topic_name("image"), self._flight.image_transport
        wrong = wrong_type(self, topic, f"sensor_msgs/msg/{'CompressedImage' if transport == COMPRESSED else 'Image'}")
        return f"no image on {topic}" + (f": {wrong}; image_transport is '{transport}'" if wrong else "")

    def note_error(self, what: str, error: Exception) -> None:
        """Logged and counted."""
        self._counters.add_rejection(INTERNAL_ERROR, f"{what}: {error!r}")
        super().note_error(what, error)


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(LocalizationNode, args)
