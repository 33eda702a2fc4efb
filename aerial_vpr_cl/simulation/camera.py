"""The drone's camera: a pinhole above flat ground, with the faults of real lenses and sensors."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from aerial_vpr_cl.settings import setting
from aerial_vpr_cl.simulation.world.ground import GroundImage, Window

LEVEL_NORTH = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
"""base_link → ENU of a level drone that heads north."""


@dataclass(frozen=True)
class CameraSettings:
    """Optics, mounting and sensor."""

    width_px: int = setting(320, "image width", low=16)
    height_px: int = setting(240, "image height", low=16)
    hfov_deg: float = setting(62.0, "horizontal field of view", low=5.0, high=120.0)
    tilt_deg: float = setting(0.0, "forward tilt of the optical axis from straight down", low=0.0, high=30.0)
    centred: bool = setting(
        False,
        "false: the recorded position is the drone's, and tilt moves the view ahead of it; "
        "true: the drone flies behind, so that the middle of the view is the recorded position",
    )
    shake_deg: float = setting(0.6, "deviation of pitch and roll in flight", low=0.0, high=10.0)
    blur_px: float = setting(0.5, "blur of lens and motion", low=0.0, high=10.0)
    noise: float = setting(2.5, "deviation of the sensor noise, of 255", low=0.0, high=50.0)
    vignette: float = setting(0.15, "light lost in the corners", low=0.0, high=0.9)
    exposure_ev: float = setting(0.0, "over- or underexposure in stops", low=-3.0, high=3.0)
    exposure_wander_ev: float = setting(0.06, "deviation of the exposure in flight", low=0.0, high=1.0)
    warmth: float = setting(0.0, "white balance: red up and blue down by this share", low=-0.3, high=0.3)
    jpeg_quality: int = setting(90, "quality of the recorded frames", low=30, high=100)


@dataclass(frozen=True)
class Pose:
    """Where the camera is and looks. Heading in degrees clockwise from north: the top of the frame points there."""

    position: NDArray[np.float64]  # (2,) easting and northing
    altitude_m: float
    heading_deg: float = 0.0
    pitch_deg: float = 0.0  # added to the tilt
    roll_deg: float = 0.0


def ground_to_image(camera: CameraSettings, pose: Pose) -> NDArray[np.float64]:
    """(3, 3) homography from metres east and north of `pose.position` to pixel coordinates."""
    to_camera = camera_axes(camera, pose.heading_deg, pose.pitch_deg, pose.roll_deg)
    focal = focal_px(camera)
    intrinsics = np.array(
        [[focal, 0.0, (camera.width_px - 1) / 2], [0.0, focal, (camera.height_px - 1) / 2], [0, 0, 1.0]]
    )
    heading = np.radians(pose.heading_deg)
    forward = np.array([np.sin(heading), np.cos(heading)])
    behind = forward * pose.altitude_m * np.tan(np.radians(camera.tilt_deg)) if camera.centred else np.zeros(2)
    offset = to_camera @ np.array([behind[0], behind[1], -pose.altitude_m])
    return intrinsics @ np.column_stack([to_camera[:, 0], to_camera[:, 1], offset])


def camera_axes(
    camera: CameraSettings, heading_deg: ArrayLike, pitch_deg: ArrayLike = 0.0, roll_deg: ArrayLike = 0.0
) -> NDArray[np.float64]:
    """(..., 3, 3) rows: the camera's axes in ENU, x right and y down in the image, z along the view."""
    heading, tilt, roll = (
        np.radians(angle)[..., None]
        for angle in np.broadcast_arrays(
            np.asarray(heading_deg, float), camera.tilt_deg + np.asarray(pitch_deg, float), np.asarray(roll_deg, float)
        )
    )
    flat = np.zeros_like(heading)
    forward = np.concatenate([np.sin(heading), np.cos(heading), flat], axis=-1)
    right = np.concatenate([np.cos(heading), -np.sin(heading), flat], axis=-1)
    down = np.array([0.0, 0.0, -1.0])
    y = np.sin(tilt) * down - np.cos(tilt) * forward
    z = np.cos(tilt) * down + np.sin(tilt) * forward
    x, z = np.cos(roll) * right + np.sin(roll) * z, np.cos(roll) * z - np.sin(roll) * right
    return np.stack([x, y, z], axis=-2)


def body_axes(
    camera: CameraSettings, heading_deg: ArrayLike, pitch_deg: ArrayLike, roll_deg: ArrayLike
) -> NDArray[np.float64]:
    """(..., 3, 3) base_link (forward, left, up) → ENU of the drone that carries the camera, tilted as it is mounted."""
    seen = np.swapaxes(camera_axes(camera, heading_deg, pitch_deg, roll_deg), -1, -2)
    return np.asarray(seen @ camera_axes(camera, 0.0) @ LEVEL_NORTH)


def focal_px(camera: CameraSettings) -> float:
    """Focal length in pixels."""
    return camera.width_px / 2.0 / float(np.tan(np.radians(camera.hfov_deg) / 2.0))


def footprint(camera: CameraSettings, pose: Pose) -> NDArray[np.float64]:
    """(4, 2) easting and northing seen in the corners: top left, top right, bottom right, bottom left."""
    width, height = camera.width_px, camera.height_px
    corners = np.array([[0, 0, 1], [width, 0, 1], [width, height, 1], [0, height, 1]], float) - [0.5, 0.5, 0.0]
    ground = corners @ np.linalg.inv(ground_to_image(camera, pose)).T
    return pose.position + ground[:, :2] / ground[:, 2:]


def reach_m(camera: CameraSettings, altitude_m: float) -> float:
    """How far from the recorded position the camera may see: what a flight keeps from the border of the world."""
    shaken = [
        Pose(np.zeros(2), altitude_m, 0.0, pitch, roll)
        for pitch in (-3 * camera.shake_deg, 3 * camera.shake_deg)
        for roll in (-3 * camera.shake_deg, 3 * camera.shake_deg)
    ]
    return max(float(np.hypot(*footprint(camera, pose).T).max()) for pose in shaken)


def take_picture(ground: GroundImage, camera: CameraSettings, pose: Pose) -> NDArray[np.uint8]:
    """(height, width, 3) RGB of the ground as the lens images it, free of aliasing, before `develop`."""
    corners = footprint(camera, pose)
    low, high = corners.min(axis=0), corners.max(axis=0)
    window = ground.window((low + high) / 2.0, float((high - low).max()) + 4.0 * ground.resolution_m)
    pixel_m = float(np.hypot(*(corners[1] - corners[0]))) / camera.width_px
    window = _shrink(window, int(pixel_m // window.resolution_m))
    # Between one and two ground pixels to an image pixel remain: two samples each way average them.
    samples = 2 if pixel_m > 1.05 * window.resolution_m else 1
    step = window.resolution_m
    east, north = window.west + step / 2 - pose.position[0], window.north - step / 2 - pose.position[1]
    to_ground = np.array([[step, 0.0, east], [0.0, -step, north], [0.0, 0.0, 1.0]])
    middle = (samples - 1) / 2.0
    finer = np.array([[samples, 0.0, middle], [0.0, samples, middle], [0.0, 0.0, 1.0]])
    size = (camera.width_px * samples, camera.height_px * samples)
    warp = finer @ ground_to_image(camera, pose) @ to_ground
    image = cv2.warpPerspective(window.image, warp, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    if samples > 1:
        image = cv2.resize(image, (camera.width_px, camera.height_px), interpolation=cv2.INTER_AREA)
    return np.asarray(image, np.uint8)


def develop(
    image: NDArray[np.uint8],
    camera: CameraSettings,
    rng: np.random.Generator,
    *,
    exposure_ev: float = 0.0,
    grey: bool = False,
) -> NDArray[np.uint8]:
    """Blur, vignette, exposure, white balance and noise; a grey (infrared) sensor has one channel of noise."""
    height, width = image.shape[:2]
    if camera.blur_px > 0.0:
        image = np.asarray(cv2.GaussianBlur(image, (0, 0), camera.blur_px), np.uint8)
    rows = np.linspace(-1.0, 1.0, height, dtype=np.float32)[:, None] * (height / width)
    columns = np.linspace(-1.0, 1.0, width, dtype=np.float32)[None]
    radius = (rows**2 + columns**2) / np.float32(1.0 + (height / width) ** 2)
    gain = (1.0 - camera.vignette * radius) * np.float32(2.0 ** (camera.exposure_ev + exposure_ev))
    balance = np.ones(3, np.float32) if grey else np.array([1 + camera.warmth, 1.0, 1 - camera.warmth], np.float32)
    noise = rng.standard_normal((height, width, 1 if grey else 3), np.float32) * np.float32(camera.noise)
    exposed = image * gain[:, :, None] * balance + noise
    return exposed.clip(0.0, 255.0).round().astype(np.uint8)


def _shrink(window: Window, factor: int) -> Window:
    """Average blocks of pixels, so that the warp never skips any."""
    if factor < 2:
        return window
    height, width = window.image.shape[0] // factor, window.image.shape[1] // factor
    if height < 1 or width < 1:
        return window
    whole = np.ascontiguousarray(window.image[: height * factor, : width * factor])
    image = cv2.resize(whole, (width, height), interpolation=cv2.INTER_AREA)
    return Window(np.asarray(image, np.uint8), window.west, window.north, window.resolution_m * factor)
