"""What a drone knows at the moment of a frame, and how it moved since the one before: values, each with its error."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.errors import SensorError
from aerial_vpr_cl.geo.camera import CameraModel
from aerial_vpr_cl.geo.rotation import Matrix, from_angles, is_rotation

UNKNOWN_HEADING_DEG = 180.0
"""Sigma of a heading of which nothing is known."""

UNKNOWN_TILT_DEG = 10.0
"""Sigma of the tilt of a drone without attitude: about what a multirotor leans into its own speed."""

# Columns: the image's right is the drone's right, its bottom the drone's tail, and it looks down.
LOOKING_DOWN = np.array([[0.0, -1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])


def camera_mount(turn_deg: float = 0.0, forward_deg: float = 0.0, right_deg: float = 0.0) -> Matrix:
    """Camera axes to body axes of a camera that looks down.

    Then turned clockwise seen from above, then tilted so that it looks forward (towards the image's top), then so that
    it looks to the image's right.
    """
    # A camera that looks down is tilted forward by the nose going up and to the right by the right wing going up.
    east_north_up_to_body = from_angles(0.0).T
    return east_north_up_to_body @ from_angles(turn_deg, forward_deg, -right_deg) @ LOOKING_DOWN


@dataclass(frozen=True, eq=False)
class Situation:
    """What the drone knows when a frame is taken; everything may be missing. SensorError if a value is impossible."""

    camera: CameraModel | None = None
    mount: Matrix = field(default_factory=lambda: LOOKING_DOWN)  # (3, 3) camera axes to body (forward, left, up)
    rotation: Matrix | None = None  # (3, 3) body to east, north, up; none: level, with an unknown heading
    heading_sigma_deg: float = UNKNOWN_HEADING_DEG  # 180: unknown, whatever the rotation says
    tilt_sigma_deg: float = UNKNOWN_TILT_DEG
    height_m: float | None = None  # of the camera above the ground
    height_sigma_m: float = 0.0

    def __post_init__(self) -> None:
        if not is_rotation(self.mount):
            raise SensorError(f"the camera's mount is not a rotation: {self.mount.tolist()}")
        if self.rotation is not None and not is_rotation(self.rotation):
            raise SensorError(f"the attitude is not a rotation: {self.rotation.tolist()}")
        if self.height_m is not None and not 0.0 < self.height_m < math.inf:
            raise SensorError(f"a height above ground of {self.height_m:g} m is none to see from; it must be above 0")
        sigmas = (self.heading_sigma_deg, self.tilt_sigma_deg, self.height_sigma_m)
        if not all(0.0 <= sigma < math.inf for sigma in sigmas):
            raise SensorError(f"sigmas of heading, tilt and height must be numbers of at least 0, not {sigmas}")

    @property
    def heading_known(self) -> bool:
        """Whether the rotation's heading means anything."""
        return self.rotation is not None and self.heading_sigma_deg < UNKNOWN_HEADING_DEG


@dataclass(frozen=True, eq=False)
class Motion:
    """How the drone moved from the frame before to this one, by its odometry."""

    forward_left_m: NDArray[np.float64]  # (2,) in the levelled body axes of this frame
    turn_deg: float  # change of heading, clockwise
    seconds: float
