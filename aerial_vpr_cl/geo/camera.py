"""A camera: from directions in its own axes (x right, y down, z along the view) to pixels, and back.

Pixel (0, 0) is the middle of the top left one. Distortion as OpenCV and sensor_msgs/CameraInfo have it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aerial_vpr_cl.errors import SensorError

Array = Any  # of float32 or float64, as it was given

PLUMB_BOB, RATIONAL, EQUIDISTANT = "plumb_bob", "rational_polynomial", "equidistant"

COEFFICIENTS = {PLUMB_BOB: 5, RATIONAL: 8, EQUIDISTANT: 4}
"""Most coefficients of each distortion model."""

WIDEST = 4.0
"""Where polynomials of a pinhole are not trusted any more: x²+y² of this squared, 76° from the axis."""

BISECTIONS, TANGENTIAL_STEPS = 60, 20
TINY = 1e-300


@dataclass(frozen=True)
class CameraModel:
    """Focal lengths and principal point in pixels, and the lens's distortion; SensorError if they make no camera."""

    width_px: int
    height_px: int
    fx: float
    fy: float
    cx: float
    cy: float
    distortion: tuple[float, ...] = ()
    distortion_model: str = PLUMB_BOB

    def __post_init__(self) -> None:
        numbers = (self.fx, self.fy, self.cx, self.cy, *self.distortion)
        if not all(math.isfinite(number) for number in numbers) or min(self.fx, self.fy) <= 0.0:
            raise SensorError(
                f"camera model with fx {self.fx:g}, fy {self.fy:g} is no calibration; a driver without one leaves K "
                "empty: calibrate the camera, or set horizontal_fov_deg"
            )
        if self.width_px < 1 or self.height_px < 1:
            raise SensorError(f"camera model of {self.width_px} × {self.height_px} pixels is empty")
        if self.distortion_model not in COEFFICIENTS:
            raise SensorError(
                f"distortion model '{self.distortion_model}' is unknown; choose {', '.join(COEFFICIENTS)}"
            )
        if len(self.distortion) > COEFFICIENTS[self.distortion_model]:
            raise SensorError(
                f"{len(self.distortion)} coefficients are too many for {self.distortion_model}, which has "
                f"{COEFFICIENTS[self.distortion_model]}"
            )

    @classmethod
    def from_fov(cls, width_px: int, height_px: int, horizontal_fov_deg: float) -> CameraModel:
        """A pinhole with square pixels of which only the field of view is known."""
        if not 0.0 < horizontal_fov_deg < 180.0:
            raise SensorError(f"a field of view of {horizontal_fov_deg:g}° is impossible; give 1 to 170")
        focal = width_px / 2.0 / math.tan(math.radians(horizontal_fov_deg) / 2.0)
        return cls(width_px, height_px, focal, focal, (width_px - 1) / 2.0, (height_px - 1) / 2.0)

    @classmethod
    def from_camera_info(
        cls, width_px: int, height_px: int, k: Sequence[float], d: Sequence[float] = (), model: str = PLUMB_BOB
    ) -> CameraModel:
        """The fields of a sensor_msgs/CameraInfo; `k` row by row. Trailing zeros of `d` are no distortion."""
        if len(k) != 9:
            raise SensorError(f"K of CameraInfo has {len(k)} numbers, not 9")
        fx, _, cx, _, fy, cy = (float(value) for value in k[:6])
        coefficients = [float(value) for value in d]
        while coefficients and coefficients[-1] == 0.0:
            coefficients.pop()
        # Drivers without distortion leave its name empty.
        return cls(width_px, height_px, fx, fy, cx, cy, tuple(coefficients), model or PLUMB_BOB)

    @property
    def horizontal_fov_deg(self) -> float:
        """Angle between the left and the right border, as a pinhole of this focal length has it."""
        return 2.0 * math.degrees(math.atan(self.width_px / 2.0 / self.fx))

    @cached_property
    def middle_ray(self) -> NDArray[np.float64]:
        """(3,) unit direction that the middle of the image shows, whatever size it is resized to."""
        return self.rays([[(self.width_px - 1) / 2.0, (self.height_px - 1) / 2.0]])[0]

    def at_size(self, width_px: int, height_px: int) -> CameraModel:
        """The model of the same image resized."""
        if (width_px, height_px) == (self.width_px, self.height_px):
            return self
        across, down = width_px / self.width_px, height_px / self.height_px
        return replace(
            self,
            width_px=width_px,
            height_px=height_px,
            fx=self.fx * across,
            fy=self.fy * down,
            cx=(self.cx + 0.5) * across - 0.5,
            cy=(self.cy + 0.5) * down - 0.5,
        )

    def project(self, directions: NDArray[np.floating]) -> NDArray[np.floating]:
        """(..., 3) directions to (..., 2) pixels, inside the image or not; NaN where the lens cannot look."""
        x, y, z = np.moveaxis(directions, -1, 0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.distortion_model == EQUIDISTANT:
                radius = np.hypot(x, y)
                angle = np.arctan2(radius, z)
                stretch = np.where(radius > 0.0, self._distorted_radius(angle) / radius, 1.0 / z)
                u, v = x * stretch, y * stretch
                seen = (angle <= self._reach) & np.isfinite(u)
            else:
                u, v = x / z, y / z
                seen = (z > 0.0) & (u * u + v * v <= self._reach**2)
                if any(self.distortion):
                    radial, (tangential_u, tangential_v) = self._radial(u * u + v * v), self._tangential(u, v)
                    u, v = u * radial + tangential_u, v * radial + tangential_v
            pixels = np.stack([u * self.fx + self.cx, v * self.fy + self.cy], axis=-1)
        pixels[~seen] = np.nan
        return pixels

    def rays(self, pixels: ArrayLike) -> NDArray[np.float64]:
        """(n, 2) pixels to (n, 3) unit directions; NaN for pixels that the calibration does not reach."""
        wanted = (np.asarray(pixels, np.float64) - [self.cx, self.cy]) / [self.fx, self.fy]
        if self.distortion_model == EQUIDISTANT:
            angle = self._undistorted_radius(np.hypot(*wanted.T))
            bearing = np.arctan2(wanted[:, 1], wanted[:, 0])
            return np.column_stack([np.sin(angle) * np.cos(bearing), np.sin(angle) * np.sin(bearing), np.cos(angle)])
        plane = wanted
        if any(self.distortion):
            for _ in range(TANGENTIAL_STEPS):
                radial = wanted - np.stack(self._tangential(*plane.T), axis=1)
                distorted = np.hypot(*radial.T)
                plane = radial * (self._undistorted_radius(distorted) / np.maximum(distorted, TINY))[:, None]
        directions = np.column_stack([plane, np.ones(len(plane))])
        return np.asarray(directions / np.linalg.norm(directions, axis=1, keepdims=True), np.float64)

    @cached_property
    def _coefficients(self) -> tuple[float, ...]:
        """All coefficients of the model, those that are not given as 0."""
        return (*self.distortion, *([0.0] * (COEFFICIENTS[RATIONAL] - len(self.distortion))))

    @cached_property
    def _reach(self) -> float:
        """Largest undistorted radius (angle of a fisheye) that is imaged: beyond it the polynomial folds back."""
        if self.distortion_model != EQUIDISTANT and not any(self.distortion):
            return math.inf
        radii = np.linspace(0.0, math.pi if self.distortion_model == EQUIDISTANT else WIDEST, 4001)
        growing = np.diff(self._distorted_radius(radii)) > 0.0
        return float(radii[-1] if growing.all() else radii[int(np.argmin(growing))])

    def _distorted_radius(self, radius: Array) -> Array:
        """Radial part of the distortion: of the tangent, or of the angle of a fisheye."""
        r2 = radius * radius
        if self.distortion_model == EQUIDISTANT:
            k1, k2, k3, k4 = self._coefficients[:4]
            return radius * (1.0 + r2 * (k1 + r2 * (k2 + r2 * (k3 + r2 * k4))))
        return radius * self._radial(r2)

    def _undistorted_radius(self, distorted: NDArray[np.float64]) -> NDArray[np.float64]:
        """The inverse, by bisection: up to the reach the radius only grows. NaN beyond."""
        low, high = np.zeros_like(distorted), np.full_like(distorted, self._reach)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2.0
            short = self._distorted_radius(middle) < distorted
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        beyond = ~(distorted <= self._distorted_radius(np.float64(self._reach)))
        return np.where(beyond, np.nan, high)

    def _radial(self, r2: Array) -> Array:
        k1, k2, _, _, k3, k4, k5, k6 = self._coefficients
        return (1.0 + r2 * (k1 + r2 * (k2 + r2 * k3))) / (1.0 + r2 * (k4 + r2 * (k5 + r2 * k6)))

    def _tangential(self, x: Array, y: Array) -> tuple[Array, Array]:
        p1, p2 = self._coefficients[2:4]
        r2 = x * x + y * y
        return 2.0 * p1 * x * y + p2 * (r2 + 2.0 * x * x), p1 * (r2 + 2.0 * y * y) + 2.0 * p2 * x * y
