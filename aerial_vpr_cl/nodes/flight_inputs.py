"""What the localization node hears: each message handed to the parts of the flight that it concerns."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from geometry_msgs.msg import PoseWithCovarianceStamped
from rclpy.qos import qos_profile_sensor_data
from rclpy.serialization import serialize_message
from sensor_msgs.msg import CompressedImage, Image, NavSatFix
from std_msgs.msg import Bool

from aerial_vpr_cl.errors import AerialVprError
from aerial_vpr_cl.mission.gnss import Fix, GnssGates, fault_of
from aerial_vpr_cl.mission.messages import stamp_of
from aerial_vpr_cl.mission.readings import AltitudeReading, OdometryReading, Reading
from aerial_vpr_cl.mission.sensor_settings import SensorSettings
from aerial_vpr_cl.nodes.diagnostics import FlightCounters
from aerial_vpr_cl.nodes.flight import Flight
from aerial_vpr_cl.nodes.frame_answers import JUMP_NS, Decode, Frame
from aerial_vpr_cl.nodes.frames import initial_pose_of
from aerial_vpr_cl.nodes.instruments import Instruments
from aerial_vpr_cl.nodes.living_node import LATCHED, LivingNode
from aerial_vpr_cl.nodes.node_settings import COMPRESSED
from aerial_vpr_cl.nodes.sensor_inputs import NEWEST_ONLY, SensorInputs


class FlightInputs:
    """Subscriptions of a node, deaf while it is not active."""

    def __init__(
        self,
        node: LivingNode,
        flight: Flight,
        decode: Decode,
        counters: FlightCounters,
        answer_next: Callable[[Frame], bool],
    ) -> None:
        """`answer_next` takes a frame without waiting; True if another one is never answered for it."""
        self._node, self._flight, self._decode, self._counters = node, flight, decode, counters
        self._answer_next = answer_next
        self._newest_ns = {"image": 0, "fix": 0}
        self._inputs = SensorInputs(node)
        # Of what has come together the readings are heard first, so that the image finds them.
        sensors, height = node.settings[SensorSettings], flight.settings.height_message
        self._instruments = Instruments(node, self._inputs, sensors, height, self._on_reading)
        image_type = CompressedImage if flight.settings.image_transport == COMPRESSED else Image
        self._inputs.listen(image_type, "image", self._on_image, NEWEST_ONLY)
        self._inputs.listen(NavSatFix, "fix", self._on_fix, qos_profile_sensor_data)
        self._inputs.listen(PoseWithCovarianceStamped, "initialpose", self._on_initial_pose, qos_profile_sensor_data)
        # An autopilot bridge may say `landed` over and over, or once and latched: one subscription cannot hear both.
        self._inputs.listen(Bool, "landed", self._on_landed, qos_profile_sensor_data)
        self._inputs.listen(Bool, "landed", self._on_landed, LATCHED)
        self._inputs.start()

    def values(self) -> dict[str, str]:
        """Each instrument in words, for the diagnostics."""
        return self._instruments.values(self._flight.sensors.problems)

    def close(self) -> None:
        """Hear no more."""
        self._inputs.close()

    def _on_image(self, message: Any) -> None:
        received_s = time.monotonic()
        with self._node.edge("image"):
            if not self._node.is_active:
                return
            recorder, between = self._flight.recorder, self._flight.between
            self._counters.add_received()
            stamp_ns = self._stamp_of(message, "image")
            if recorder.is_recording:
                compressed = isinstance(message, CompressedImage)
                recorder.offer_image(stamp_ns, lambda: bytes(message.data) if compressed else self._decode(message))
            if between is not None:
                between.image_came(stamp_ns)
            if self._answer_next(Frame(message, stamp_ns, received_s)):
                self._counters.add_dropped()

    def _on_fix(self, message: NavSatFix) -> None:
        with self._node.edge("fix"):
            if not self._node.is_active:
                return
            fix = Fix.from_message(message, self._stamp_of(message, "fix"))
            flight, recorder = self._flight, self._flight.recorder
            flight.gnss.add_fix(fix)
            is_asked = recorder.is_recording or flight.has_terrain
            is_caught = is_asked and flight.gnss.report().is_caught
            if flight.has_terrain and not is_caught and not fault_of(fix, self._node.settings[GnssGates]):
                flight.sensors.add(AltitudeReading(fix.stamp_ns, fix.altitude))
            if flight.viewer is not None:
                flight.viewer.add_fix(fix)
            recorder.offer_fix(fix, bytes(serialize_message(message)), is_caught=is_caught)

    def _on_landed(self, message: Bool) -> None:
        with self._node.edge("landed"):
            if self._node.is_active:
                self._flight.recorder.offer_landed(message.data)

    def _on_reading(self, reading: Reading, message_type: str, message: Any) -> None:
        with self._node.edge("reading"):
            if not self._node.is_active:
                return
            recorder, between = self._flight.recorder, self._flight.between
            self._flight.sensors.add(reading)
            if between is not None and isinstance(reading, OdometryReading):
                between.add(reading)
            data = bytes(serialize_message(message)) if recorder.is_recording else b""
            recorder.offer_reading(reading, message_type, data)

    def _on_initial_pose(self, message: PoseWithCovarianceStamped) -> None:
        with self._node.edge("initialpose"):
            if not self._node.is_active:
                return
            logger = self._node.get_logger()
            try:
                pose = initial_pose_of(message, self._flight.frames)
                with self._flight.forgetting():
                    self._flight.answering.initialize(*pose)
                logger.info("the operator says where the drone is; the views decide")
            except AerialVprError as error:
                logger.error(f"initialpose is not used: {error}")

    def _stamp_of(self, message: Any, stream: str) -> int:
        """The stamp in nanoseconds, or the time now if the driver set none; notices when time runs backwards."""
        stamp_ns = stamp_of(message) or self._node.get_clock().now().nanoseconds
        newest_ns = self._newest_ns[stream]
        self._newest_ns[stream] = stamp_ns if stamp_ns < newest_ns - JUMP_NS else max(stamp_ns, newest_ns)
        if stamp_ns < newest_ns - JUMP_NS:
            self._node.get_logger().warning(f"time of {stream} went back", throttle_duration_sec=5.0)
            if stream == "image":
                self._begin_again()
            else:  # a receiver that counts otherwise without satellites shakes nothing but what it said itself
                self._flight.gnss.rewind(stamp_ns)
        return stamp_ns

    def _begin_again(self) -> None:
        """Time ran backwards: what was heard before belongs to another flight."""
        flight = self._flight
        self._counters.add_time_jump()
        with flight.forgetting():
            flight.gnss.reset()
            flight.sensors.clear()
        if flight.viewer is not None:
            flight.viewer.forget()
        if flight.recorder.is_recording:
            flight.recorder.stop()
            flight.recorder.start()
