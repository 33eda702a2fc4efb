"""Axes of autopilots (north, east, down; forward, right, down) and of ROS (east, north, up; forward, left, up)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_NED_TO_ENU = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
_FRD_TO_FLU = np.diag([1.0, -1.0, -1.0])
_HALF = np.sqrt(0.5)


def ned_to_enu(vector: ArrayLike) -> NDArray[np.float64]:
    """(..., 3) north, east, down to east, north, up; its own inverse."""
    return np.asarray(vector, float) @ _NED_TO_ENU.T


def frd_to_flu(vector: ArrayLike) -> NDArray[np.float64]:
    """(..., 3) forward, right, down to forward, left, up; its own inverse."""
    return np.asarray(vector, float) @ _FRD_TO_FLU.T


def aeronautical_to_ros(quaternion: ArrayLike) -> NDArray[np.float64]:
    """(w, x, y, z) that turns FRD into NED, as MAVLink sends it, to (x, y, z, w) that turns FLU into ENU.

    The world is turned by (0, √½, √½, 0), half a turn about the axis between north and east, the body by (0, 1, 0, 0).
    """
    world, body = np.array([0.0, _HALF, _HALF, 0.0]), np.array([0.0, 1.0, 0.0, 0.0])
    w, x, y, z = _product(_product(world, np.asarray(quaternion, float)), body)
    return np.array([x, y, z, w])


def ros_to_aeronautical(quaternion: ArrayLike) -> NDArray[np.float64]:
    """(x, y, z, w) that turns FLU into ENU to (w, x, y, z) that turns FRD into NED."""
    x, y, z, w = np.asarray(quaternion, float)
    world, body = np.array([0.0, -_HALF, -_HALF, 0.0]), np.array([0.0, -1.0, 0.0, 0.0])
    return _product(_product(world, np.array([w, x, y, z])), body)


def _product(a: NDArray[np.float64], b: NDArray[np.float64]) -> Any:
    """Hamilton's product of two (w, x, y, z)."""
    scalar = a[0] * b[0] - a[1:] @ b[1:]
    return np.concatenate([[scalar], a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:])])
