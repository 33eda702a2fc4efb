"""Ground with fields, roads and roofs for the registration tests, and views of it."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from synthetic_rasters import NORTH, WEST, write_raster

from aerial_vpr_cl.localization.view import View
from aerial_vpr_cl.satellite.raster import SatelliteMap

PIXEL_M = 5.0
WIDTH_PX, HEIGHT_PX = 420, 340
FOOTPRINT_M = 400.0
VIEW_PX = 160


def painted_ground(seed: int = 0) -> NDArray[np.uint8]:
    """(h, w, 3) fields of random tone, roads and roofs, softened as a lens does."""
    rng = np.random.default_rng(seed)
    image = np.full((HEIGHT_PX, WIDTH_PX, 3), 120, np.uint8)
    for _ in range(160):
        centre = rng.uniform([0, 0], [WIDTH_PX, HEIGHT_PX])
        corners = cv2.boxPoints((centre.tolist(), rng.uniform(12, 60, 2).tolist(), float(rng.uniform(0, 90))))
        cv2.fillPoly(image, [corners.astype(np.int32)], rng.integers(40, 220, 3).tolist())
    for _ in range(25):
        ends = rng.uniform([0, 0], [WIDTH_PX, HEIGHT_PX], (2, 2)).astype(int).tolist()
        cv2.line(image, ends[0], ends[1], rng.integers(150, 250, 3).tolist(), 2)
    return np.asarray(cv2.GaussianBlur(image, (0, 0), 0.7), np.uint8)


def painted_map(folder: Path, image: NDArray[np.uint8] | None = None, **options: object) -> SatelliteMap:
    """The painted ground as a raster of 5 m pixels whose north-west corner is (WEST, NORTH)."""
    ground = painted_ground() if image is None else image
    return SatelliteMap.open(write_raster(folder / "ground.tif", ground, pixel=PIXEL_M, **options))  # type: ignore[arg-type]


def look_down(
    satellite: SatelliteMap,
    position: NDArray[np.float64],
    *,
    turn_deg: float = 0.0,
    scale: float = 1.0,
    heading_sigma_deg: float = 0.0,
    scale_sigma: float = 0.0,
    offset_m: tuple[float, float] = (0.0, 0.0),
    footprint_m: float = FOOTPRINT_M,
) -> View:
    """The view of a drone whose heading is `turn_deg` more and whose pixels are `scale` times what it believes."""
    turn = np.radians(turn_deg)
    east, north = np.array(offset_m) * scale
    turned = np.array([east * np.cos(turn) + north * np.sin(turn), north * np.cos(turn) - east * np.sin(turn)])
    images, _ = satellite.read_patches((position + turned)[None], turn_deg, footprint_m * scale, VIEW_PX)
    return View(
        image=images[0],
        mask=np.ones((VIEW_PX, VIEW_PX), np.bool_),
        metres_per_px=footprint_m / VIEW_PX,
        offset_m=np.array(offset_m),
        offset_sigma_m=0.0,
        heading_sigma_deg=heading_sigma_deg,
        scale_sigma=scale_sigma,
    )


def place(east_m: float, south_m: float) -> NDArray[np.float64]:
    """A position, in metres from the map's north-west corner."""
    return np.array([WEST + east_m, NORTH - south_m])
