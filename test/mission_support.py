"""A short flight due east over a strip of map, for tests that need bags, and instruments without errors."""

from pathlib import Path

import cv2
import numpy as np

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.geo.projection import Projection
from aerial_vpr_cl.mission.bag_writer import MissionWriter
from aerial_vpr_cl.simulation.sensors import InstrumentSettings

EPSG = 32632
ORIGIN = np.array([686_000.0, 5_330_100.0])
START_NS = 1_700_000_000_000_000_000
SPEED_MPS = 20.0
PERFECT = InstrumentSettings(
    heading_noise_deg=0.0,
    heading_bias_deg=0.0,
    tilt_noise_deg=0.0,
    height_noise=0.0,
    odometry_noise=0.0,
    odometry_drift_deg_min=0.0,
)
GRID = Grid.over_points(
    np.add(ORIGIN, [[east, 0.0] for east in range(-200, 2000, 200)]), epsg=EPSG, cell_side_m=200.0, modulus=2
)


def stamp(seconds: float) -> int:
    return START_NS + round(seconds * 1e9)


def place(seconds: float) -> tuple[float, float]:
    """Latitude and longitude of the drone at a time."""
    latitude, longitude = Projection(EPSG).to_wgs84(np.add(ORIGIN, (SPEED_MPS * seconds, 0.0)))
    return float(latitude), float(longitude)


def picture(index: int, size: tuple[int, int] = (48, 64)) -> np.ndarray:
    rng = np.random.default_rng(index)
    return cv2.GaussianBlur(rng.integers(0, 256, (*size, 3), np.uint8), (0, 0), 2)


def jpeg(index: int, size: tuple[int, int] = (48, 64)) -> bytes:
    return cv2.imencode(".jpg", picture(index, size)[..., ::-1])[1].tobytes()


def fly(path: Path, frames: int = 20, **options) -> Path:
    """Write a mission with a frame every second and a fix every half."""
    with MissionWriter(path, **options) as writer:
        for half_second in range(2 * frames):
            time = half_second / 2
            writer.write_fix(stamp(time), *place(time), 500.0)
            if half_second % 2 == 0:
                writer.write_truth(stamp(time), *place(time), 500.0)
                writer.write_image(stamp(time), jpeg(half_second // 2))
    return path
