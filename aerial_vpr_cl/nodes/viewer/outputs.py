"""What the localization node publishes for eyes only: nothing of it is made while nobody looks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from nav_msgs.msg import OccupancyGrid, Path
from numpy.typing import NDArray
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CompressedImage, PointCloud2
from std_msgs.msg import Header
from visualization_msgs.msg import Marker

from aerial_vpr_cl.images import encode_jpeg
from aerial_vpr_cl.knowledge.map_folder import MapFolder
from aerial_vpr_cl.localization.estimate import REASONS, Estimate, Rejection
from aerial_vpr_cl.localization.open_tracker import VIEW_PX
from aerial_vpr_cl.localization.view import NORTH_UP, ViewSettings
from aerial_vpr_cl.mission.gnss import Fix
from aerial_vpr_cl.mission.situation import Situation
from aerial_vpr_cl.nodes.answering import Answering
from aerial_vpr_cl.nodes.frames import Frames
from aerial_vpr_cl.nodes.living_node import LATCHED
from aerial_vpr_cl.nodes.messages import header_of
from aerial_vpr_cl.nodes.viewer.belief_map import belief_message
from aerial_vpr_cl.nodes.viewer.ground import grid_message, plane_message, points_message
from aerial_vpr_cl.nodes.viewer.markers import ellipse_message, no_ellipse_message, state_message
from aerial_vpr_cl.nodes.viewer.settings import ViewerSettings
from aerial_vpr_cl.nodes.viewer.side_by_side import side_by_side
from aerial_vpr_cl.nodes.viewer.trail import Trail

JPEG_QUALITY = 80


class ViewerOutputs:
    """Publishers of a node below ~/viewer. For any thread."""

    def __init__(self, node: Node, folder: MapFolder, frames: Frames, settings: ViewerSettings) -> None:
        self._node, self._folder, self._frames, self._settings = node, folder, frames, settings
        self._lock = threading.Lock()  # rasters are read by one thread at a time
        self._views = ViewSettings(NORTH_UP, folder.settings.footprint_m, VIEW_PX)
        self._publishers: list[Any] = []
        self._ground = self._publisher(Marker, "~/viewer/ground", LATCHED)
        self._points = self._publisher(PointCloud2, "~/viewer/ground_points", LATCHED)
        self._grid = self._publisher(Marker, "~/viewer/grid", LATCHED)
        self._belief = self._publisher(OccupancyGrid, "~/viewer/belief")
        self._track = self._publisher(Path, "~/viewer/track")
        self._gnss = self._publisher(Path, "~/viewer/gnss")
        self._ellipse = self._publisher(Marker, "~/viewer/ellipse")
        self._state = self._publisher(Marker, "~/viewer/state")
        self._pictures = self._publisher(CompressedImage, "~/viewer/pictures/compressed")
        self._told: set[Any] = set()  # publishers of what never changes, once heard
        self._flown = Trail(frames.map_id, settings.track_points)
        self._by_gnss = Trail(frames.map_id, settings.track_points)
        self._where = frames.datum.to_map(folder.grid.middle)
        self._next_s = 0.0

    def each_second(self) -> None:
        """The map, as soon as somebody looks; who comes later is given it by DDS."""
        header = header_of(self._node.get_clock().now().nanoseconds, self._frames.map_id)
        folder, datum = self._folder, self._frames.datum
        self._once(self._grid, lambda: grid_message(header, folder.grid, datum))
        self._once(self._points, lambda: points_message(header, folder.satellite, datum, self._settings.ground_points))
        self._once(self._ground, lambda: plane_message(header, folder.satellite, datum, self._settings.ground_px))

    def add_fix(self, fix: Fix) -> None:
        """GNSS says so, right or wrong."""
        if fix.status >= 0 and np.isfinite([fix.latitude, fix.longitude]).all():
            position = self._folder.grid.projection.to_utm(fix.latitude, fix.longitude)
            if np.isfinite(position).all():
                self._by_gnss.add(fix.stamp_ns, self._frames.datum.to_map(position))

    def add_frame(
        self,
        stamp_ns: int,
        answer: Estimate | Rejection,
        answering: Answering,
        looked: tuple[NDArray[np.uint8], Situation] | None,
    ) -> None:
        """An image was answered; `looked` is what of it could be looked at."""
        there = self._frames.local(answer) if isinstance(answer, Estimate) else None
        if there is not None:
            self._where = there.position
            self._flown.add(stamp_ns, there.position)
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + 1.0 / self._settings.rate_hz
        header = header_of(stamp_ns, self._frames.map_id)
        self._show(self._track, lambda: self._flown.message(header))
        self._show(self._gnss, lambda: self._by_gnss.message(header))
        self._show(self._ellipse, lambda: _ellipse(header, there))
        words = _words(answer, answering.state)
        self._show(self._state, lambda: state_message(header, self._where, words, sure=there is not None))
        self._show(self._belief, lambda: self._belief_of(header, answering))
        if looked is not None:
            position = answer.position if isinstance(answer, Estimate) else None
            self._show(self._pictures, lambda: self._picture_of(stamp_ns, *looked, position))

    def forget(self) -> None:
        """Another flight begins."""
        self._flown.forget()
        self._by_gnss.forget()

    def close(self) -> None:
        """Publish no more."""
        while self._publishers:
            self._node.destroy_publisher(self._publishers.pop())

    def _belief_of(self, header: Header, answering: Answering) -> OccupancyGrid | None:
        return answering.look(lambda tracker: belief_message(header, tracker.belief, self._frames.datum))

    def _picture_of(
        self,
        stamp_ns: int,
        image: NDArray[np.uint8],
        situation: Situation,
        position: NDArray[np.float64] | None,
    ) -> CompressedImage:
        with self._lock:
            picture = side_by_side(image, situation, self._views, self._folder.satellite, position)
        header = header_of(stamp_ns, self._frames.map_id)
        return CompressedImage(header=header, format="jpeg", data=encode_jpeg(picture, JPEG_QUALITY))

    def _show(self, publisher: Any, make: Callable[[], Any]) -> None:
        """Publish to whoever looks; None: there is nothing to see."""
        if publisher.get_subscription_count() and (message := make()) is not None:
            publisher.publish(message)

    def _once(self, publisher: Any, make: Callable[[], Any]) -> None:
        if publisher not in self._told and publisher.get_subscription_count():
            with self._lock:
                publisher.publish(make())
            self._told.add(publisher)

    def _publisher(self, kind: Any, topic: str, qos: QoSProfile | int = 1) -> Any:
        self._publishers.append(self._node.create_publisher(kind, topic, qos))
        return self._publishers[-1]


def _words(answer: Estimate | Rejection, state: str) -> str:
    return f"{state}: {REASONS.get(answer.reason, answer.reason)}" if isinstance(answer, Rejection) else state


def _ellipse(header: Header, there: Estimate | None) -> Marker:
    if there is None:
        return no_ellipse_message(header)
    return ellipse_message(header, there.position, there.covariance)
