"""The drone's instruments as inputs of the localization node, all optional: heard, handed on, and whether they live."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from nav_msgs.msg import Odometry
from rclpy.qos import QoSHistoryPolicy, QoSProfile, QoSReliabilityPolicy
from sensor_msgs.msg import CameraInfo, Imu, Range
from std_msgs.msg import Float64

from aerial_vpr_cl.mission.gnss import OWN_HEIGHT_VARIANCE_M2
from aerial_vpr_cl.mission.readings import CameraReading, HeightReading, ImuReading, OdometryReading, Reading
from aerial_vpr_cl.mission.sensor_settings import SensorSettings
from aerial_vpr_cl.mission.sensors import CAMERA_INFO, HEIGHT, IMU, ODOMETRY
from aerial_vpr_cl.nodes.living_node import LivingNode
from aerial_vpr_cl.nodes.node_settings import FLOAT64
from aerial_vpr_cl.nodes.sensor_inputs import SensorInputs, wrong_type

STALE_S = 2.0
"""An instrument that was silent for this long lives no more; a calibration may be sent once."""
RECENT = QoSProfile(reliability=QoSReliabilityPolicy.BEST_EFFORT, history=QoSHistoryPolicy.KEEP_LAST, depth=50)

OnReading = Callable[[Reading, str, Any], None]
"""Takes a reading, the type of the message it came in, and the message."""


class _Instrument(NamedTuple):
    topic: str
    message_type: Any
    reading: type[ImuReading] | type[HeightReading] | type[CameraReading] | type[OdometryReading]
    without: str  # what is done while it is missing


class Instruments:
    """Subscriptions to what a drone may have besides camera and GNSS."""

    def __init__(
        self,
        node: LivingNode,
        inputs: SensorInputs,
        settings: SensorSettings,
        height_message: str,
        on_reading: OnReading,
    ) -> None:
        self._node, self._on_reading = node, on_reading
        self._lock = threading.Lock()
        self._heard: dict[str, tuple[float, int]] = {}  # topic → monotonic time of the last message, and how many
        self._refused: dict[str, str] = {}
        number, fov = f"height_m of {settings.height_m:g} m", f"horizontal_fov_deg of {settings.horizontal_fov_deg:g}°"
        self._instruments = [
            _Instrument(IMU, Imu, ImuReading, "level flight is assumed, the heading is unknown"),
            _Instrument(
                HEIGHT,
                Float64 if height_message == FLOAT64 else Range,
                HeightReading,
                f"{number} is used" if settings.height_m else "the scale of the image is unknown",
            ),
            _Instrument(
                CAMERA_INFO,
                CameraInfo,
                CameraReading,
                f"{fov} is used" if settings.horizontal_fov_deg else "the scale of the image is unknown",
            ),
            _Instrument(ODOMETRY, Odometry, OdometryReading, "motion is bounded by a speed limit only"),
        ]
        for instrument in self._instruments:
            inputs.listen(instrument.message_type, instrument.topic, self._receiver(instrument), RECENT)

    def values(self, problems: dict[str, str]) -> dict[str, str]:
        """Each input in words: alive, stale or missing, and what is done without; `problems` are those at the frame."""
        return {f"input {each.topic}": self._words_of(each, problems.get(each.topic, "")) for each in self._instruments}

    def _words_of(self, instrument: _Instrument, problem: str) -> str:
        with self._lock:
            heard_s, _ = self._heard.get(instrument.topic, (None, 0))
            problem = problem or self._refused.get(instrument.topic, "")
        if heard_s is None:
            topic = self._node.resolve_topic_name(instrument.topic)
            wrong = wrong_type(self._node, topic, _name_of(instrument.message_type))
            return f"missing{f' ({wrong})' if wrong else ''}: {instrument.without}"
        silent_s = time.monotonic() - heard_s
        if silent_s > STALE_S and instrument.topic != CAMERA_INFO:
            return f"stale, nothing for {silent_s:.0f} s: {instrument.without}"
        return f"alive, but {problem}" if problem else "alive"

    def _receiver(self, instrument: _Instrument) -> Callable[[Any], None]:
        message_type = _name_of(instrument.message_type)

        def receive(message: Any) -> None:
            with self._node.edge(instrument.topic):
                take(message)

        def take(message: Any) -> None:
            is_own = instrument.topic == ODOMETRY and message.pose.covariance[14] == OWN_HEIGHT_VARIANCE_M2
            with self._lock:
                count = self._heard.get(instrument.topic, (0.0, 0))[1] + 1
                self._heard[instrument.topic] = time.monotonic(), count
                self._refused[instrument.topic] = "it is this package's own, and is not used" if is_own else ""
            if not is_own:
                now_ns = self._node.get_clock().now().nanoseconds
                self._on_reading(instrument.reading.from_message(message, now_ns), message_type, message)

        return receive


def _name_of(message_type: Any) -> str:
    package = message_type.__module__.partition(".")[0]
    return f"{package}/msg/{message_type.__name__}"
