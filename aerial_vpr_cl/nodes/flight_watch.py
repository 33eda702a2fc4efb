"""Hears what a localization node says, and its camera and GNSS, for the live page. It publishes nothing.

subscribes  <node>/fix  <node>/state      the answers, of the node that is named or of the first that is found
            <node>/viewer/pictures/compressed   camera, view and map beside each other, where the node shows them
            what that node hears as image and fix, whatever they are called
            /ground_truth/fix             the truth, in a simulation
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy, qos_profile_sensor_data
from sensor_msgs.msg import CompressedImage, Image, NavSatFix

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.evaluation.answers import read_state
from aerial_vpr_cl.geo.projection import Projection
from aerial_vpr_cl.mission.bag_writer import TRUTH_TOPIC
from aerial_vpr_cl.mission.gnss import Fix, GnssGates, fault_of
from aerial_vpr_cl.mission.messages import COMPRESSED_IMAGE, IMAGE, NAV_SAT_FIX, stamp_of
from aerial_vpr_cl.nodes.image_messages import decode_compressed_image, decode_image
from aerial_vpr_cl.page.live_flight import LiveFlight, State
from aerial_vpr_cl.page.runs import Pictures
from aerial_vpr_cl.page.thumbnails import small_jpeg

LOOK_S = 1.0
"""How often a node is looked for."""
PICTURE_S = 1.0
"""How often a frame is decoded for its picture."""
_ANSWER_QOS = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)


class FlightWatch:
    """Fills a live flight from the topics of one localization node; another one when that has gone."""

    def __init__(self, node: Node, flight: LiveFlight, projection: Projection, wanted: str = "") -> None:
        """`wanted` is the node's full name; empty: the first that publishes answers."""
        self._node, self._flight, self._projection = node, flight, projection
        self._wanted = f"/{wanted.strip('/')}" if wanted else ""
        self._followed = ""
        self._subscriptions: dict[str, Any] = {}
        self._pictured_s = -math.inf
        self._hear(NavSatFix, TRUTH_TOPIC, lambda message: self._on_place(message, flight.add_truth))
        self._lasting = set(self._subscriptions)
        node.create_timer(LOOK_S, self.look)
        self.look()

    def look(self) -> None:
        """Follow the node, or another one if it has gone; hear what it hears."""
        found = self._localization_nodes()
        if self._followed not in found:
            self._change(next(iter(found), ""))
        if not self._followed:
            wanted = self._wanted or "any name"
            self._flight.words = f"no localization node ({wanted}) is heard yet; is it active, in the same ROS domain?"
            return
        self._flight.words = f"following {self._followed}"
        for topic, kinds in found[self._followed].items():
            if IMAGE in kinds or COMPRESSED_IMAGE in kinds:
                self._hear(CompressedImage if COMPRESSED_IMAGE in kinds else Image, topic, self._on_image)
            elif NAV_SAT_FIX in kinds:
                self._hear(NavSatFix, topic, lambda message: self._on_place(message, self._flight.add_gnss))

    def _localization_nodes(self) -> dict[str, dict[str, list[str]]]:
        """Nodes that publish answers and states, with the topics that they hear."""
        found = {}
        for name, space in sorted(self._node.get_node_names_and_namespaces()):
            full = f"{space.rstrip('/')}/{name}"
            if self._wanted not in ("", full):
                continue
            try:
                spoken = dict(self._node.get_publisher_names_and_types_by_node(name, space))
                if NAV_SAT_FIX in spoken.get(f"{full}/fix", []) and f"{full}/state" in spoken:
                    found[full] = dict(self._node.get_subscriber_names_and_types_by_node(name, space))
            except RuntimeError:  # it went in this moment
                continue
        return found

    def _change(self, followed: str) -> None:
        """Hear this node from now on; none: keep what was seen."""
        for topic in set(self._subscriptions) - self._lasting:
            self._node.destroy_subscription(self._subscriptions.pop(topic))
        self._followed = followed
        if followed:
            self._flight.begin()
            self._hear(NavSatFix, f"{followed}/fix", self._on_answer, _ANSWER_QOS)
            self._hear(DiagnosticStatus, f"{followed}/state", self._on_state, _ANSWER_QOS)
            self._hear(CompressedImage, f"{followed}/viewer/pictures/compressed", self._on_pictures)

    def _hear(
        self, kind: type, topic: str, receive: Callable[[Any], None], qos: QoSProfile = qos_profile_sensor_data
    ) -> None:
        if topic not in self._subscriptions:
            self._subscriptions[topic] = self._node.create_subscription(kind, topic, receive, qos)

    def _on_answer(self, message: NavSatFix) -> None:
        fix = Fix.from_message(message)
        answer = None
        if fix.status >= 0 and math.isfinite(fix.latitude) and math.isfinite(fix.longitude):
            covariance = np.asarray(message.position_covariance, float).reshape(3, 3)[:2, :2]
            answer = self._projection.to_utm(fix.latitude, fix.longitude), covariance
        self._flight.add_answer(fix.stamp_ns, answer)

    def _on_state(self, message: DiagnosticStatus) -> None:
        stamp_ns, values = read_state(message)
        if stamp_ns:
            said = State(
                values.get("state", ""), values.get("reason", ""), _figure(values, "confidence"), _figure(values, "z")
            )
            self._flight.add_state(stamp_ns, said)

    def _on_place(self, message: NavSatFix, add: Callable[[int, Any], None]) -> None:
        fix = Fix.from_message(message)
        if not fault_of(fix, GnssGates(max_sigma_m=math.inf)):
            add(fix.stamp_ns, self._projection.to_utm(fix.latitude, fix.longitude))

    def _on_image(self, message: Any) -> None:
        picture, now_s = b"", time.monotonic()
        if now_s - self._pictured_s >= PICTURE_S:
            self._pictured_s = now_s
            decode = decode_compressed_image if isinstance(message, CompressedImage) else decode_image
            try:
                picture = small_jpeg(decode(message))
            except MissionError as error:
                self._node.get_logger().warning(f"an image cannot be shown: {error}", throttle_duration_sec=30.0)
        self._flight.add_image(stamp_of(message), picture)

    def _on_pictures(self, message: CompressedImage) -> None:
        try:
            image = decode_compressed_image(message)
        except MissionError:
            return
        height, width = image.shape[:2]
        lefts = (0, (width - height) // 2, width - height)
        if width >= 3 * height:
            panels = (np.ascontiguousarray(image[:, left : left + height]) for left in lefts)
            frame, view, there = map(small_jpeg, panels)
            self._flight.add_pictures(stamp_of(message), Pictures(0, frame, view, there))


def _figure(values: dict[str, str], name: str) -> float:
    try:
        return float(values[name])
    except (KeyError, ValueError):
        return math.nan
