"""Positions between images, by odometry, at a rate of its own."""

from __future__ import annotations

import dataclasses

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup

from aerial_vpr_cl.localization.dead_reckoning import Carried, DeadReckoning
from aerial_vpr_cl.localization.estimate import Estimate, Estimator, Rejection
from aerial_vpr_cl.localization.tracker_settings import TrackerSettings
from aerial_vpr_cl.mission.readings import OdometryReading
from aerial_vpr_cl.mission.sensor_settings import SensorSettings
from aerial_vpr_cl.nodes.flight_outputs import FlightOutputs, Heading
from aerial_vpr_cl.nodes.living_node import LivingNode
from aerial_vpr_cl.nodes.node_settings import FlightSettings


class PositionsBetween:
    """A timer of a node; each position has the stamp of the odometry that it is carried on to."""

    def __init__(
        self,
        node: LivingNode,
        flight: FlightSettings,
        tracker: TrackerSettings,
        sensors: SensorSettings,
        outputs: FlightOutputs,
    ) -> None:
        self._node, self._outputs = node, outputs
        self._reckoning = DeadReckoning(tracker.odometry_noise, sensors.odometry_max_age_s, sensors.max_speed_mps)
        self._image_ns = 0
        self._last: tuple[str, Estimate, Estimator] | None = None
        group, period_s = MutuallyExclusiveCallbackGroup(), 1.0 / flight.publish_rate_hz
        self._timer = node.create_timer(period_s, self._tick, callback_group=group, clock=node.steady)

    def add(self, reading: OdometryReading) -> None:
        """Odometry says so."""
        self._reckoning.add(reading)

    def anchor(
        self, stamp_ns: int, camera_frame: str, answer: Estimate | Rejection, heading: Heading, estimator: Estimator
    ) -> None:
        """An image was answered; after silence there is nothing to carry on."""
        if isinstance(answer, Rejection):
            self.forget()
            return
        self._last = camera_frame, answer, estimator
        self._reckoning.anchor(Carried(stamp_ns, answer.position, answer.covariance, *heading))

    def forget(self) -> None:
        """There is nothing to carry on."""
        self._last = None
        self._reckoning.anchor(None)

    def image_came(self, stamp_ns: int) -> None:
        """An image is to be answered by itself: no position of its stamp comes from odometry."""
        self._image_ns = stamp_ns

    def close(self) -> None:
        """Publish no more."""
        self._node.destroy_timer(self._timer)

    def _tick(self) -> None:
        with self._node.edge("position between images"):
            last, carried = self._last, self._reckoning.carry()
            if last is None or carried is None or carried.stamp_ns == self._image_ns or not self._node.is_active:
                return
            camera_frame, answer, estimator = last
            moved = dataclasses.replace(answer, position=carried.position, covariance=carried.covariance)
            heading = carried.heading_deg, carried.heading_sigma_deg
            self._outputs.publish(carried.stamp_ns, camera_frame, moved, estimator, heading)
