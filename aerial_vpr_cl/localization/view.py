"""The view: a frame as the map would show it, north up, at a known number of metres per pixel.

Everything that looks at a frame looks at its view: the network, the registration, the replay buffer. Tilt, lens and
mounting are taken out by one remap on flat ground; what the drone does not know stays unknown and is said so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.geo.camera import CameraModel
from aerial_vpr_cl.geo.rotation import Matrix, bearing_of, from_angles, turned
from aerial_vpr_cl.geo.view_kind import AS_SEEN, NORTH_UP
from aerial_vpr_cl.images import squeeze
from aerial_vpr_cl.localization.estimate import LOOKS_AWAY, OTHER_CAMERA, SEES_LITTLE, Rejection
from aerial_vpr_cl.mission.situation import UNKNOWN_HEADING_DEG, Situation
from aerial_vpr_cl.settings import setting
from aerial_vpr_cl.unseen import fill_unseen

UNKNOWN_SCALE = 0.5
"""Relative sigma of a scale of which nothing is known but that the camera should see about the footprint."""

NOMINAL_FOV_DEG = 60.0
"""Horizontal field of view of a camera without a model: between a telephoto's 35° and an action camera's 95°."""

MOST_TILT_DEG = 60.0
"""Furthest from straight down that the middle of the image may look: there a degree moves it by 7 % of the height."""

LEAST_SEEN = 0.05
"""Share of the footprint below which a view is not worth having."""

SAME_SHAPE = 0.02
"""Largest relative difference of aspect ratio between an image that was resized and its camera model."""


@dataclass(frozen=True)
class ViewSettings:
    """What frames are turned into."""

    kind: str = setting(
        NORTH_UP,
        "north_up: turned, levelled and scaled by what the drone knows; as_seen: the whole frame squeezed to a square, "
        "as in the paper",
        choices=(NORTH_UP, AS_SEEN),
    )
    footprint_m: float = setting(300.0, "ground side of a view in metres", low=1.0)
    size_px: int = setting(224, "side of a view in pixels", low=8)

    @property
    def metres_per_px(self) -> float:
        """Ground side of a pixel."""
        return self.footprint_m / self.size_px


@dataclass(frozen=True, eq=False)
class View:
    """A square look at the ground. Where heading or scale are corrected later, `offset_m` turns and grows with it."""

    image: NDArray[np.uint8]  # (S, S, 3) RGB; what the camera did not see has the colours around it
    mask: NDArray[np.bool_]  # (S, S) what the camera saw
    metres_per_px: float
    offset_m: NDArray[np.float64]  # (2,) east and north from the drone to the ground under the view's centre
    offset_sigma_m: float  # what an unsure tilt adds to the position, in any direction
    heading_sigma_deg: float  # of the turn that is still unknown; 180: the top of the image is up, north anywhere
    scale_sigma: float  # relative, of metres_per_px
    height_m: float | None = None  # of the camera above the ground, as the scale has it; none: no camera is known

    @property
    def tilt_sigma(self) -> float:
        """Of the stated tilt, in radians; 0 where no height is known."""
        if self.height_m is None:
            return 0.0
        return self.offset_sigma_m * self.height_m / (self.height_m**2 + float(self.offset_m @ self.offset_m))

    @property
    def footprint_m(self) -> float:
        """Ground side of the view."""
        return self.metres_per_px * len(self.mask)

    @property
    def seen(self) -> float:
        """Share of the view that the camera saw."""
        return float(self.mask.mean())


def make_view(
    image: NDArray[np.uint8],
    situation: Situation,
    settings: ViewSettings,
    hidden: NDArray[np.bool_] | None = None,
) -> View | Rejection:
    """The view of (H, W, 3) uint8 RGB, or why there is none. Of the image, (h, w) may be hidden by the drone itself.

    Its centre is the ground under the middle of the image: up to 30° of tilt no other place fills the footprint
    better by more than a few per cent, and no other is moved less by an error of lens and attitude. A camera that sees
    more than the footprint is cut to it; of one that sees less the mask tells. Without a height or a camera model the
    scale is such that the shorter side of a level frame fills the footprint.
    """
    if settings.kind == AS_SEEN:
        return _as_seen(image, settings)
    height_px, width_px = image.shape[:2]
    camera = situation.camera or CameraModel.from_fov(width_px, height_px, NOMINAL_FOV_DEG)
    if abs(camera.width_px * height_px / (camera.height_px * width_px) - 1.0) > SAME_SHAPE:
        return Rejection(OTHER_CAMERA)
    axes = _camera_axes(situation)
    middle = axes @ camera.middle_ray
    down = -float(middle[2])
    if not down >= math.cos(math.radians(MOST_TILT_DEG)):
        return Rejection(LOOKS_AWAY)
    height_m, scale_sigma = _height(situation, camera, settings.footprint_m)
    offset_m = middle[:2] * (height_m / down)
    pixels = camera.at_size(width_px, height_px).project(_directions(axes, height_m, offset_m, settings))
    mask = _inside(pixels, width_px, height_px)
    if hidden is not None:
        mask &= ~_within(hidden, pixels, width_px, height_px)
    if mask.mean() < LEAST_SEEN:
        return Rejection(SEES_LITTLE)
    return View(
        image=fill_unseen(_resample(image, pixels), mask),
        mask=mask,
        metres_per_px=settings.metres_per_px,
        offset_m=offset_m,
        # The ground that a ray at an angle to straight down meets moves by h / cos² per radian.
        offset_sigma_m=height_m / down**2 * math.radians(situation.tilt_sigma_deg),
        heading_sigma_deg=situation.heading_sigma_deg if situation.heading_known else UNKNOWN_HEADING_DEG,
        scale_sigma=scale_sigma,
        height_m=height_m if situation.camera is not None else None,
    )


def enough_px(situation: Situation, settings: ViewSettings) -> float:
    """Longer side of a frame that has a pixel for every pixel of the view: a larger one shows no more. Infinite where
    that is not known."""
    camera = situation.camera
    if settings.kind == AS_SEEN or camera is None:
        return math.inf
    down = -float((_camera_axes(situation) @ camera.middle_ray)[2])
    if not down >= math.cos(math.radians(MOST_TILT_DEG)):
        return math.inf
    height_m, _ = _height(situation, camera, settings.footprint_m)
    seen_m = height_m * max(camera.width_px / camera.fx, camera.height_px / camera.fy)
    # Tilted, a pixel shows 1 / cos² more ground in the direction of the tilt.
    return seen_m / down**2 / settings.metres_per_px


def _as_seen(image: NDArray[np.uint8], settings: ViewSettings) -> View:
    """The frame as it came: nothing is known of its heading, scale and tilt."""
    size = settings.size_px
    return View(
        image=squeeze(image, size),
        mask=np.ones((size, size), np.bool_),
        metres_per_px=settings.metres_per_px,
        offset_m=np.zeros(2),
        offset_sigma_m=0.0,
        heading_sigma_deg=UNKNOWN_HEADING_DEG,
        scale_sigma=UNKNOWN_SCALE,
    )


def _camera_axes(situation: Situation) -> Matrix:
    """(3, 3) camera axes to east, north, up; where the heading is unknown the top of the image is north."""
    body = from_angles(0.0) if situation.rotation is None else situation.rotation
    axes = body @ situation.mount
    return axes if situation.heading_known else turned(axes, -bearing_of(-axes[:2, 1]))


def _height(situation: Situation, camera: CameraModel, footprint_m: float) -> tuple[float, float]:
    """Metres above ground and their relative sigma."""
    if situation.height_m is None or situation.camera is None:
        shorter = min(camera.width_px / camera.fx, camera.height_px / camera.fy)
        return footprint_m / shorter, UNKNOWN_SCALE
    return situation.height_m, min(situation.height_sigma_m / situation.height_m, UNKNOWN_SCALE)


def _directions(
    axes: Matrix, height_m: float, offset_m: NDArray[np.float64], settings: ViewSettings
) -> NDArray[np.float32]:
    """(S, S, 3) from the camera, in its own axes, to the ground under every pixel of the view."""
    steps = ((np.arange(settings.size_px) - (settings.size_px - 1) / 2.0) * settings.metres_per_px).astype(np.float32)
    east, north = axes[:2].astype(np.float32)
    middle = (np.array([*offset_m, -height_m]) @ axes).astype(np.float32)
    return np.asarray(middle + steps[None, :, None] * east - steps[:, None, None] * north, np.float32)


def _inside(pixels: NDArray[np.floating], width_px: int, height_px: int) -> NDArray[np.bool_]:
    """Which of (S, S, 2) pixels an image has."""
    half = np.array([width_px / 2.0, height_px / 2.0])
    with np.errstate(invalid="ignore"):
        return np.asarray((np.abs(pixels - (half - 0.5)) <= half).all(axis=-1))


def _within(area: NDArray[np.bool_], pixels: NDArray[np.floating], width_px: int, height_px: int) -> NDArray[np.bool_]:
    """Which of (S, S, 2) pixels of an image lie in an area of it."""
    rows, columns = area.shape
    places = np.nan_to_num(pixels, nan=0.0) + 0.5
    column = np.clip(places[..., 0] * (columns / width_px), 0, columns - 1).astype(np.intp)
    row = np.clip(places[..., 1] * (rows / height_px), 0, rows - 1).astype(np.intp)
    return np.asarray(area[row, column], np.bool_)


def _resample(image: NDArray[np.uint8], pixels: NDArray[np.floating]) -> NDArray[np.uint8]:
    """The image at (S, S, 2) pixels of it.

    An image that is much finer than the view is first averaged over whole blocks of pixels, so that none is skipped.
    """
    height, width = image.shape[:2]
    centre = len(pixels) // 2
    across, along = pixels[centre, centre - 1 : centre + 1], pixels[centre - 1 : centre + 1, centre]
    step = (np.hypot(*(across[1] - across[0])) + np.hypot(*(along[1] - along[0]))) / 2.0
    factor = max(1, min(round(float(step)), min(height, width) // 2))
    rows, columns = height // factor, width // factor
    if factor > 1:
        whole = np.ascontiguousarray(image[: rows * factor, : columns * factor])
        image = np.asarray(cv2.resize(whole, (columns, rows), interpolation=cv2.INTER_AREA), np.uint8)
    places = (np.nan_to_num(pixels, nan=0.0) + 0.5) / factor - 0.5
    places = np.clip(places, 0.0, [columns - 1, rows - 1]).astype(np.float32)
    view = cv2.remap(image, places[..., 0], places[..., 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(view, np.uint8)
