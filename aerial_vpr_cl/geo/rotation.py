"""Rotations of the drone: (3, 3) matrices from body axes (forward, left, up; REP 103) to east, north, up.

Angles are a pilot's, in degrees: heading clockwise from north, pitch with the nose up, roll with the right wing down;
turned in this order, each about the axes that the one before left.
"""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from aerial_vpr_cl.errors import SensorError

Matrix = NDArray[np.float64]

NOT_UNIT = 0.1
"""A quaternion whose length is further from 1 than this is not a rounded one but a broken one."""


def from_quaternion(quaternion: ArrayLike) -> Matrix:
    """Rotation of (x, y, z, w), the order of geometry_msgs; SensorError if it is not a rotation."""
    q = np.asarray(quaternion, np.float64)
    length = float(np.linalg.norm(q))
    if q.shape != (4,) or not abs(length - 1.0) <= NOT_UNIT:
        raise SensorError(f"quaternion {q.tolist()} is not a rotation: its length must be 1; is the IMU running?")
    x, y, z, w = q / length
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def from_angles(heading_deg: float, pitch_deg: float = 0.0, roll_deg: float = 0.0) -> Matrix:
    """Rotation of a drone with these angles."""
    # Heading 0 looks north, which is 90° from east; clockwise is against the axis that points up. The left axis turns
    # the nose down.
    turns = [(2, 90.0 - heading_deg), (1, -pitch_deg), (0, roll_deg)]
    heading, pitch, roll = (_about(axis, angle) for axis, angle in turns)
    return heading @ pitch @ roll


def angles_of(rotation: Matrix) -> tuple[float, float, float]:
    """Heading (0 to 360), pitch and roll of a rotation; of a nose straight up or down only heading ± roll is known."""
    forward, left, up = rotation.T
    pitch = math.degrees(math.atan2(forward[2], math.hypot(left[2], up[2])))
    return heading_of(rotation), pitch, math.degrees(math.atan2(left[2], up[2]))


def heading_of(rotation: Matrix) -> float:
    """Heading of the forward axis, 0 to 360."""
    return bearing_of(rotation[:2, 0])


def bearing_of(east_north: ArrayLike) -> float:
    """Clockwise angle of a direction from north, 0 to 360."""
    east, north = np.asarray(east_north, np.float64)
    return math.degrees(math.atan2(east, north)) % 360.0


def turned(rotation: Matrix, clockwise_deg: float) -> Matrix:
    """The same attitude with another heading."""
    return _about(2, -clockwise_deg) @ rotation


def interpolate(first: Matrix, second: Matrix, share: float) -> Matrix:
    """The rotation that lies this share of the way from one to the other, by the shortest turn."""
    way, _ = cv2.Rodrigues(first.T @ second)
    step, _ = cv2.Rodrigues(np.asarray(way, np.float64) * share)
    return np.asarray(first @ step, np.float64)


def angle_between(first: Matrix, second: Matrix) -> float:
    """Degrees of the shortest turn from one rotation to the other."""
    way, _ = cv2.Rodrigues(first.T @ second)
    return math.degrees(float(np.linalg.norm(way)))


def is_rotation(matrix: Matrix) -> bool:
    """Whether a (3, 3) matrix is a rotation, to the precision of measured and rounded ones."""
    if matrix.shape != (3, 3) or not np.isfinite(matrix).all():
        return False
    return bool(np.allclose(matrix @ matrix.T, np.eye(3), atol=1e-3) and np.linalg.det(matrix) > 0.0)


def _about(axis: int, angle_deg: float) -> Matrix:
    """Right-handed turn about a coordinate axis."""
    cos, sin = math.cos(math.radians(angle_deg)), math.sin(math.radians(angle_deg))
    matrix = np.eye(3)
    first, second = (axis + 1) % 3, (axis + 2) % 3
    matrix[first, first] = matrix[second, second] = cos
    matrix[first, second], matrix[second, first] = -sin, sin
    return matrix
