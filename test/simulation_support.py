"""A small simulated world, a mission over it, a scenario of two, and a raster to fly over."""

import cv2
import numpy as np
from rasterio.enums import ColorInterp
from synthetic_rasters import write_raster

from aerial_vpr_cl.simulation.camera import CameraSettings
from aerial_vpr_cl.simulation.scenario import MissionSpec
from aerial_vpr_cl.simulation.tracks import TrackSettings
from aerial_vpr_cl.simulation.world.terrain import WorldSettings

SMALL = WorldSettings(seed=5, width_m=1200, height_m=1000, resolution_m=4, west=804_000, south=4_022_000)
CAMERA = CameraSettings(width_px=64, height_px=48, hfov_deg=60)
MISSION = MissionSpec(name="hop", frames=24, camera=CAMERA, track=TrackSettings(altitude_m=150))
SCENARIO = """
world: {seed: 5, width_m: 1200, height_m: 1000, resolution_m: 4}
mission_defaults:
  camera: {width_px: 64, height_px: 48}
  track: {altitude_m: 150}
missions:
  - {name: one, frames: 24, track: {kind: random}}
  - {name: two, frames: 30, modality: IR, role: held_out, appearance: {hour: 22}}
"""


def write_four_bands(path):
    """Of 600 × 500 m at 5 m: red, green, blue, and a near infrared that looks different; returns them as (h, w, 4)."""
    rng = np.random.default_rng(0)
    bands = [cv2.GaussianBlur(rng.integers(0, 255, (100, 120), np.uint8), (0, 0), 2) for _ in range(4)]
    colours = (ColorInterp.red, ColorInterp.green, ColorInterp.blue, ColorInterp.undefined)
    image = np.stack(bands, axis=2)
    write_raster(path, image, epsg=26914, west=485_900, north=5_209_000, pixel=5.0, colours=colours)
    return image
