"""The frames of ROS that the localization node speaks of, and how they lie in one another (REP 103, 105)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from geometry_msgs.msg import PoseWithCovarianceStamped, TransformStamped
from numpy.typing import NDArray

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.geo.datum import THE_GRID, Datum
from aerial_vpr_cl.geo.rotation import heading_of
from aerial_vpr_cl.localization.estimate import Estimate
from aerial_vpr_cl.mission.odometer import Place
from aerial_vpr_cl.nodes.messages import about_up, header_of
from aerial_vpr_cl.nodes.node_settings import FlightSettings

LEAST_STATED_M2, UNSTATED_M2 = 1.0, 50.0**2
"""An operator who states less than a metre has stated nothing, and is taken to mean some 50 m."""


@dataclass(frozen=True)
class Frames:
    """Names, and the datum of `map`."""

    map_id: str
    utm_id: str
    odom_id: str
    base_id: str
    datum: Datum

    @classmethod
    def of(cls, settings: FlightSettings, datum: Datum) -> Frames:
        """As the parameters name them; a map frame with the name of the grid's is the grid."""
        map_id, utm_id = settings.map_frame_id, settings.utm_frame_id
        datum = THE_GRID if map_id == utm_id else datum
        return cls(map_id, utm_id, settings.odom_frame_id, settings.base_frame_id, datum)

    def local(self, estimate: Estimate) -> Estimate:
        """The same place in the frame `map`."""
        position, covariance = self.datum.to_map(estimate.position), self.datum.covariance_to_map(estimate.covariance)
        return replace(estimate, position=position, covariance=covariance)

    def yaw_rad(self, heading_deg: float) -> float:
        """Angle in `map`, counter-clockwise from east, of a heading clockwise from the grid's north."""
        return math.radians(90.0 - (heading_deg - self.datum.north_deg))

    def map_in_utm(self, stamp_ns: int) -> TransformStamped:
        """`utm` → `map`, which never changes."""
        datum = self.datum
        place = np.array([datum.easting_m, datum.northing_m])
        return transform(stamp_ns, self.utm_id, self.map_id, place, -datum.grid_yaw_rad)

    def odom_in_map(self, stamp_ns: int, position: NDArray[np.float64], yaw_rad: float, by: Place) -> TransformStamped:
        """`map` → `odom`: where the odometry began, if the drone is here and odometry has it there. Both are level."""
        turn = yaw_rad - math.radians(90.0 - heading_of(by.rotation))
        cos, sin = math.cos(turn), math.sin(turn)
        began = position - np.array([[cos, -sin], [sin, cos]]) @ by.position[:2]
        return transform(stamp_ns, self.map_id, self.odom_id, began, turn)


def transform(stamp_ns: int, parent: str, child: str, place: NDArray[np.float64], yaw_rad: float) -> TransformStamped:
    """Where a level frame lies in another."""
    message = TransformStamped(header=header_of(stamp_ns, parent), child_frame_id=child)
    message.transform.translation.x, message.transform.translation.y = (float(value) for value in place)
    message.transform.rotation = about_up(yaw_rad)
    return message


def initial_pose_of(
    message: PoseWithCovarianceStamped, frames: Frames
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Easting, northing and covariance that an operator states in any frame; MissionError says what does not fit."""
    frame_id = message.header.frame_id or frames.map_id
    if frame_id not in (frames.map_id, frames.utm_id):
        raise MissionError(f"it is in frame '{frame_id}'; give it in '{frames.map_id}' or '{frames.utm_id}'")
    position = np.array([message.pose.pose.position.x, message.pose.pose.position.y])
    covariance = np.asarray(message.pose.covariance, np.float64).reshape(6, 6)[:2, :2]
    if not (np.isfinite(position).all() and np.isfinite(covariance).all()):
        raise MissionError("it holds something that is not a number")
    if (np.linalg.eigvalsh((covariance + covariance.T) / 2.0) < LEAST_STATED_M2).any():
        covariance = np.eye(2) * UNSTATED_M2
    if frame_id == frames.utm_id:
        return position, covariance
    return frames.datum.to_grid(position), frames.datum.covariance_to_grid(covariance)
