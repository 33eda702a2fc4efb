"""Parameters of what viewers are shown."""

from __future__ import annotations

from dataclasses import dataclass

from aerial_vpr_cl.settings import setting


@dataclass(frozen=True)
class ViewerSettings:
    """Topics below ~/viewer for RViz and Foxglove."""

    enabled: bool = setting(False, "publish what RViz and Foxglove show below ~/viewer, to those who look")
    rate_hz: float = setting(2.0, "most often that track, belief and pictures are published", low=0.1, high=30.0)
    ground_px: int = setting(2048, "pixels along the longer side of the ground's picture, for RViz", low=64, high=8192)
    ground_points: int = setting(
        512, "coloured points along the longer side of the ground, for Foxglove", low=16, high=2048
    )
    track_points: int = setting(2000, "points of the tracks that are shown, the newest", low=2, high=100_000)
