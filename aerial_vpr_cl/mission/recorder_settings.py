"""What is recorded of a flight, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass

from aerial_vpr_cl.mission.bag_writer import MODALITIES
from aerial_vpr_cl.settings import setting

NEVER, SERVICE, AUTO = "never", "service", "auto"


@dataclass(frozen=True)
class RecorderSettings:
    """What is recorded of a flight, and how much of it."""

    mode: str = setting(
        AUTO,
        "when missions are recorded: never, when the service asks (service), or also by itself in flight (auto)",
        choices=(NEVER, SERVICE, AUTO),
    )
    min_speed_mps: float = setting(
        5.0, "speed by GNSS or odometry above which auto starts recording, in m/s", low=0.5, high=100.0
    )
    stop_after_s: float = setting(
        30.0,
        "seconds below that speed, or without a sign of flight, after which auto stops",
        low=1.0,
        high=3600.0,
    )
    rate_hz: float = setting(2.0, "frames a second that are recorded; 0: every one", low=0.0, high=120.0)
    spacing_m: float = setting(0.0, "least distance between recorded frames in metres; 0: any", low=0.0, high=10_000.0)
    sensor_rate_hz: float = setting(
        10.0, "readings a second of imu, height and odometry that are recorded; 0: every one", low=0.0, high=1000.0
    )
    size_px: int = setting(320, "longer side of a recorded frame in pixels; larger ones are reduced", low=16, high=4096)
    jpeg_quality: int = setting(90, "JPEG quality of frames that are encoded anew", low=10, high=100)
    budget_mb: float = setting(
        2000.0, "disk space for all waiting missions together, in MB; recording stops there", low=1.0, high=1e7
    )
    modality: str = setting("VIS", "what the camera sees: VIS, IR or unknown", choices=MODALITIES)
