"""An image message to an answer: decoded, localized, published."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import CompressedImage

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.geo.terrain import Near
from aerial_vpr_cl.localization.estimate import Estimate, Rejection
from aerial_vpr_cl.localization.localizer import LocalizerSettings
from aerial_vpr_cl.mission.situation import Situation
from aerial_vpr_cl.nodes.diagnostics import BAD_IMAGE, LATE_IMAGE, FlightCounters
from aerial_vpr_cl.nodes.flight import Flight
from aerial_vpr_cl.nodes.image_messages import decode_compressed_image
from aerial_vpr_cl.nodes.living_node import LivingNode
from aerial_vpr_cl.nodes.node_settings import COMPRESSED, SINGLE_FRAME

JUMP_NS = 1_000_000_000
"""Stamps that fall back by more than this are a jump of time, less is the disorder of a network."""
BETWEEN_FRAMES_M = 100.0
"""How far from where it was at the last frame the drone may be, for the terrain under it."""

Decode = Callable[[Any], Any]
"""An image message to (H, W, 3) uint8 RGB."""
Looked = tuple[NDArray[np.uint8], Situation]
"""An image, and what was known of it."""


class Frame(NamedTuple):
    """An image that waits for an answer."""

    message: Any  # Image or CompressedImage
    stamp_ns: int
    received_s: float  # monotonic


class FrameAnswers:
    """Answers one frame at a time, in the worker's thread."""

    def __init__(self, node: LivingNode, flight: Flight, decode_raw: Decode, counters: FlightCounters) -> None:
        self._node, self._flight, self._counters = node, flight, counters
        compressed = flight.settings.image_transport == COMPRESSED
        self.decode = self._decode_compressed if compressed else decode_raw
        self._answered_ns = 0
        self._enough_px = math.inf
        self._looked: Looked | None = None

    def answer(self, frame: Frame) -> None:
        """Decode, localize, publish."""
        with self._node.edge("frame"), self._flight.turn:
            flight, outputs, answering = self._flight, self._flight.outputs, self._flight.answering
            camera_frame, estimator = frame.message.header.frame_id, flight.localizer.estimator
            answer = self._answer_of(frame)
            heading = answering.heading
            if isinstance(answer, Rejection):
                outputs.publish_silence(frame.stamp_ns, camera_frame, estimator)
            else:
                outputs.publish(frame.stamp_ns, camera_frame, answer, estimator, heading)
                flight.transforms.follow(frame.stamp_ns, answer.position, heading, flight.sensors.place)
                self._counters.add_answer(time.monotonic() - frame.received_s)
                flight.gnss.add_position(frame.stamp_ns, answer.position, answer.covariance)
            outputs.publish_state(frame.stamp_ns, answering.state, answer)
            if flight.between is not None:
                if answering.odometry_is_believed:
                    flight.between.anchor(frame.stamp_ns, camera_frame, answer, heading, estimator)
                else:
                    flight.between.forget()
            if flight.viewer is not None:
                flight.viewer.add_frame(frame.stamp_ns, answer, answering, self._looked)

    def _answer_of(self, frame: Frame) -> Estimate | Rejection:
        try:
            answer = self._localize(frame)
        except MissionError as error:
            self._counters.add_rejection(BAD_IMAGE, str(error))
            self._node.get_logger().warning(f"an image cannot be used: {error}", throttle_duration_sec=5.0)
            return Rejection(BAD_IMAGE, state=self._flight.answering.state)
        if isinstance(answer, Rejection):
            self._counters.add_rejection(answer.reason)
        return answer

    def _localize(self, frame: Frame) -> Estimate | Rejection:
        flight, answering = self._flight, self._flight.answering
        self._looked = None
        if answering.state != SINGLE_FRAME and 0 < self._answered_ns - frame.stamp_ns <= JUMP_NS:
            return Rejection(LATE_IMAGE, state=answering.state)  # the disorder of a network is no jump of time
        self._answered_ns = frame.stamp_ns
        image = self.decode(frame.message)
        known = flight.sensors.at(frame.stamp_ns, (image.shape[1], image.shape[0]), flight.near)
        self._enough_px = answering.enough_px(known[0])
        self._looked = image, known[0]
        answer = answering.answer(frame.stamp_ns, image, known, self._node.settings[LocalizerSettings])
        flight.near = None
        if isinstance(answer, Estimate):
            flight.near = Near(answer.position, answer.radius_m + BETWEEN_FRAMES_M)
        return answer

    def _decode_compressed(self, message: CompressedImage) -> NDArray[np.uint8]:
        # As large as the last frame had to be: height and tilt change little from one to the next.
        return decode_compressed_image(message, self._flight.most_pixels, self._enough_px)
