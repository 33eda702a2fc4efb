"""What the localization node has from configure to cleanup, made in one place and closed in one place."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from aerial_vpr_cl.geo.terrain import Near
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.localization.gnss_watch import GnssWatch
from aerial_vpr_cl.localization.localizer import Localizer
from aerial_vpr_cl.localization.tracker_settings import TrackerSettings
from aerial_vpr_cl.mission.gnss import GnssGates
from aerial_vpr_cl.mission.recorder import MissionRecorder
from aerial_vpr_cl.mission.recorder_settings import RecorderSettings
from aerial_vpr_cl.mission.sensor_settings import SensorSettings
from aerial_vpr_cl.mission.sensors import FlightSensors
from aerial_vpr_cl.nodes.answering import Answering
from aerial_vpr_cl.nodes.flight_outputs import FlightOutputs
from aerial_vpr_cl.nodes.frames import Frames
from aerial_vpr_cl.nodes.managed_node import ManagedNode
from aerial_vpr_cl.nodes.node_settings import TRACKED, FlightSettings
from aerial_vpr_cl.nodes.positions_between import PositionsBetween
from aerial_vpr_cl.nodes.transforms import Transforms
from aerial_vpr_cl.nodes.viewer.outputs import ViewerOutputs
from aerial_vpr_cl.nodes.viewer.settings import ViewerSettings

SHOWN_MB = 64
"""Memory for the raster that viewers are shown; what does not fit is read from the file."""


class Flight:
    """Senses, tracker, GNSS watch, recorder and outputs of a node whose store is open."""

    def __init__(self, node: ManagedNode[Localizer]) -> None:
        self._watch = node.watch
        store, grid = node.watch.path, self.localizer.grid
        folder = open_map(store, memory_budget_mb=SHOWN_MB)
        self.settings: FlightSettings = node.settings[FlightSettings]
        sensors, gates = node.settings[SensorSettings], node.settings[GnssGates]
        tracking: TrackerSettings = node.settings[TrackerSettings]
        self.frames = Frames.of(self.settings, folder.datum)
        self.near: Near | None = None  # where the drone was at the last frame, for the terrain under it
        self.turn = threading.Lock()  # held while a frame is answered, or while what was known is forgotten
        with ExitStack() as parts:
            self.outputs = FlightOutputs(node, self.settings, self.frames)
            parts.callback(self.outputs.close)
            self.transforms = Transforms(node, self.frames, follow_odometry=self.settings.publish_tf)
            parts.callback(self.transforms.close)
            self.between: PositionsBetween | None = None
            if self.settings.publish_rate_hz > 0.0:
                self.between = PositionsBetween(node, self.settings, tracking, sensors, self.outputs)
                parts.callback(self.between.close)
            missions, recording = GenerationStore(store).missions_dir, node.settings[RecorderSettings]
            self.recorder = MissionRecorder(missions, grid, recording, gates, sensors, self.most_pixels)
            parts.callback(self.recorder.close)
            self.sensors = FlightSensors(sensors, north_deg=grid.north_deg, terrain=folder.terrain)
            self.has_terrain = folder.terrain is not None
            follow = tracking if self.settings.answer == TRACKED else None
            self.answering = Answering(store, follow, lambda: self.localizer)
            self.gnss = GnssWatch(grid.projection, gates)
            self.viewer: ViewerOutputs | None = None
            viewer: ViewerSettings = node.settings[ViewerSettings]
            if viewer.enabled:
                self.viewer = ViewerOutputs(node, folder, self.frames, viewer)
                parts.callback(self.viewer.close)
            self._parts = parts.pop_all()

    @property
    def localizer(self) -> Localizer:
        """Of the newest generation."""
        assert self._watch.known is not None
        return self._watch.known

    @property
    def most_pixels(self) -> int:
        """Of a compressed image that is decoded."""
        return round(self.settings.max_megapixels * 1e6)

    @contextmanager
    def forgetting(self) -> Iterator[None]:
        """What was known of before is carried on no more, nor by a frame that is being answered: it is waited for."""
        with self.turn:
            yield
            self.near = None
            if self.between is not None:
                self.between.forget()

    def close(self) -> None:
        """The bag is closed, nothing is published any more."""
        self._parts.close()
