"""A drone over painted ground for the tracker's tests: real images, real registration, known truth."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from registration_support import place

from aerial_vpr_cl.geo.camera import CameraModel
from aerial_vpr_cl.geo.rotation import from_angles
from aerial_vpr_cl.localization.map_orientation import MapOrientation
from aerial_vpr_cl.localization.proposal import Propose
from aerial_vpr_cl.localization.registration import register
from aerial_vpr_cl.localization.tracker import Tracker
from aerial_vpr_cl.localization.tracker_settings import TrackerSettings
from aerial_vpr_cl.localization.view import ViewSettings
from aerial_vpr_cl.mission.situation import Motion, Situation
from aerial_vpr_cl.satellite.patches import PatchSettings, lay_patches
from aerial_vpr_cl.satellite.raster import SatelliteMap

FOOTPRINT_M = 400.0
IMAGE_PX = 120
FOV_DEG = 60.0
HEIGHT_M = FOOTPRINT_M / 2.0 / np.tan(np.radians(FOV_DEG / 2.0))
SECONDS = 2.0


def tracker_over(satellite: SatelliteMap, propose: Propose | None = None, **settings: object) -> Tracker:
    """A tracker, without a network unless one proposes."""
    grid, _ = lay_patches(satellite, PatchSettings(cell_side_m=200.0, footprint_m=FOOTPRINT_M))
    orientation = MapOrientation.of([satellite])
    return Tracker(
        grid,
        ViewSettings(footprint_m=FOOTPRINT_M, size_px=160),
        register=lambda view, where: register(view, orientation, where),
        propose=propose,
        settings=TrackerSettings(**settings),  # type: ignore[arg-type]
    )


@dataclass
class Drone:
    """Where it is, what it tells, and what is wrong with its instruments."""

    satellite: SatelliteMap
    position: NDArray[np.float64] = field(default_factory=lambda: place(500.0, 600.0))
    heading_deg: float = 70.0
    compass_error_deg: float = 0.0
    height_error: float = 0.0
    heading_sigma_deg: float = 4.0
    odometry_factor: float = 1.03
    stamp_ns: int = 1_000_000_000
    has_heading: bool = True
    has_height: bool = True
    has_odometry: bool = True
    seed: int = 0

    def fly(self, forward_m: float, turn_deg: float = 0.0) -> Motion | None:
        """Move on; what the odometry says of it."""
        self.heading_deg += turn_deg
        heading = np.radians(self.heading_deg)
        self.position = self.position + forward_m * np.array([np.sin(heading), np.cos(heading)])
        self.stamp_ns += int(SECONDS * 1e9)
        moved = np.array([forward_m * self.odometry_factor, 0.0])
        return Motion(moved, turn_deg, SECONDS) if self.has_odometry else None

    def look(self) -> NDArray[np.uint8]:
        """The frame: the ground inverted and noisy, as another sensor might see it."""
        images, _ = self.satellite.read_patches(self.position[None], self.heading_deg, FOOTPRINT_M, IMAGE_PX)
        self.seed += 1
        noise = np.random.default_rng(self.seed).normal(0.0, 6.0, images[0].shape)
        return (230.0 - 0.8 * images[0] + noise).clip(0, 255).astype(np.uint8)

    def situation(self) -> Situation:
        """What its instruments say."""
        height_m = float(HEIGHT_M) * (1.0 + self.height_error)
        return Situation(
            camera=CameraModel.from_fov(IMAGE_PX, IMAGE_PX, FOV_DEG),
            rotation=from_angles(self.heading_deg + self.compass_error_deg) if self.has_heading else None,
            heading_sigma_deg=self.heading_sigma_deg if self.has_heading else 180.0,
            tilt_sigma_deg=2.0,
            height_m=height_m if self.has_height else None,
            height_sigma_m=0.06 * height_m,
        )
