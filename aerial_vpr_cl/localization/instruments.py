"""What the map teaches about the drone's own instruments: a visual compass and a visual altimeter, with memory."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.geo.camera import CameraModel
from aerial_vpr_cl.geo.rotation import from_angles, heading_of, turned
from aerial_vpr_cl.localization.view import NOMINAL_FOV_DEG, UNKNOWN_SCALE
from aerial_vpr_cl.mission.situation import UNKNOWN_HEADING_DEG, Motion, Situation

QUICK_SHARE = 0.5
"""Share of a stated variance that is new in every reading; the rest is the instrument's constant error."""
COMPASS_WANDER_DEG = 0.5
"""How far the constant error of a compass wanders in a second (σ), with the square root of time."""
HEIGHT_WANDER = 0.005
TURN_SIGMA_DEG = 0.5
"""Error of an odometry's turn between two frames."""
CLIMB_PER_SECOND = 0.03
"""Change of the height above ground in a second, as a share (σ): climbing, and the ground beneath."""
LEAST_HEADING_SIGMA_DEG, LEAST_SCALE_SIGMA = 1.0, 0.01
JUMP_SIGMAS = 6.0
"""A reading further than this from what was expected says that something happened, not how large errors are."""
ANY_HEADING_DEG = 0.99 * UNKNOWN_HEADING_DEG
"""Sigma of a heading that is merely supposed: views are turned by it, and may be off by any angle."""
VAGUE = 20.0
"""A value that is unknown has so many times the sigma of an unknown one: the first reading replaces it."""


class Instrument:
    """A value that an instrument reads with an error of its own, and that the map tells now and then: a Kalman filter.

    The state is the value and the instrument's constant error. `period` is 360 for angles, 0 for numbers.
    """

    def __init__(self, unknown: float, wander: float, period: float = 0.0) -> None:
        self._unknown, self._wander, self._period = unknown, wander, period
        self._vague = (VAGUE * unknown) ** 2
        self.reset()

    def reset(self) -> None:
        """Know nothing."""
        self._state: NDArray[np.float64] = np.zeros(2)
        self._covariance = np.diag([self._vague, 0.0])
        self._started, self._believed = False, True

    @property
    def value(self) -> float:
        """The best guess."""
        return float(self._state[0])

    @property
    def sigma(self) -> float:
        """Its standard deviation, `unknown` at most."""
        return min(self._unknown, math.sqrt(max(0.0, float(self._covariance[0, 0]))))

    @property
    def error(self) -> float:
        """What the instrument reads too much."""
        return float(self._state[1])

    def widen(self) -> None:
        """Believe the instrument no more: its constant error may be any."""
        self._believed = False
        self._covariance = np.diag([self._vague, self._vague])

    def suppose(self, value: float) -> None:
        """Take this for the value as long as nothing is known of it."""
        if self.sigma >= self._unknown:
            self._state[0] = value

    def predict(self, change: float, sigma: float, seconds: float) -> None:
        """The value changed by this much, give or take sigma."""
        self._state[0] += change
        self._covariance[0, 0] = min(self._vague, float(self._covariance[0, 0]) + sigma**2)
        self._covariance[1, 1] += self._wander**2 * seconds

    def read(self, reading: float, sigma: float) -> None:
        """The instrument says so; the stated sigma holds its constant error too."""
        if not self._started:
            self._covariance[1, 1] = max(float(self._covariance[1, 1]), (1.0 - QUICK_SHARE) * sigma**2)
            self._started = True
        self._bound_error(sigma)
        row, quick = np.array([1.0, 1.0]), math.sqrt(QUICK_SHARE) * sigma
        if abs(self._surprise(row, reading)) > JUMP_SIGMAS * math.sqrt(float(row @ self._covariance @ row) + quick**2):
            self.reset()  # it jumped, or the drone was turned by hand: nothing of before holds
            self._covariance[1, 1] = (1.0 - QUICK_SHARE) * sigma**2
        self._correct(row, reading, quick)

    def see(self, value: float, sigma: float) -> None:
        """The map says so."""
        self._correct(np.array([1.0, 0.0]), value, sigma)

    def _bound_error(self, sigma: float) -> None:
        """Let the constant error wander no further than what is stated, unless the instrument is believed no more."""
        variance = float(self._covariance[1, 1])
        if self._believed and variance > sigma**2:
            shrink = np.diag([1.0, sigma / math.sqrt(variance)])
            self._covariance = shrink @ self._covariance @ shrink

    def _correct(self, row: NDArray[np.float64], measured: float, sigma: float) -> None:
        gain = self._covariance @ row / float(row @ self._covariance @ row + sigma**2)
        self._state = self._state + gain * self._surprise(row, measured)
        rest = np.eye(2) - np.outer(gain, row)
        self._covariance = rest @ self._covariance @ rest.T + sigma**2 * np.outer(gain, gain)

    def _surprise(self, row: NDArray[np.float64], measured: float) -> float:
        surprise = measured - float(row @ self._state)
        return (surprise + self._period / 2.0) % self._period - self._period / 2.0 if self._period else surprise


class Instruments:
    """Heading and height as compass, odometry and map tell them together; makes situations that know it."""

    def __init__(self, footprint_m: float) -> None:
        self._footprint_m = footprint_m
        self.heading = Instrument(UNKNOWN_HEADING_DEG, COMPASS_WANDER_DEG, period=360.0)
        self.log_height = Instrument(UNKNOWN_SCALE, HEIGHT_WANDER)

    def reset(self) -> None:
        """Forget what was learnt of them."""
        self.heading.reset()
        self.log_height.reset()

    def read(
        self, situation: Situation, motion: Motion | None, seconds: float, image_shape: tuple[int, ...]
    ) -> Situation:
        """The situation with heading and height as all knows them; `seconds` since the frame before."""
        camera = situation.camera or CameraModel.from_fov(image_shape[1], image_shape[0], NOMINAL_FOV_DEG)
        nominal = math.log(self._footprint_m / min(camera.width_px / camera.fx, camera.height_px / camera.fy))
        if motion is not None:
            self.heading.predict(motion.turn_deg, TURN_SIGMA_DEG, seconds)
        else:
            self.heading.predict(0.0, VAGUE * UNKNOWN_HEADING_DEG, seconds)
        if situation.heading_known and situation.rotation is not None:
            sigma_deg = max(LEAST_HEADING_SIGMA_DEG, situation.heading_sigma_deg)
            self.heading.read(heading_of(situation.rotation), sigma_deg)
        if seconds > 0.0:
            self.log_height.predict(0.0, CLIMB_PER_SECOND * math.sqrt(seconds), seconds)
        if situation.height_m is not None and situation.camera is not None:
            relative = max(LEAST_SCALE_SIGMA, situation.height_sigma_m / situation.height_m)
            self.log_height.read(math.log(situation.height_m), relative)
        self.log_height.suppose(nominal)
        height_m = math.exp(self.log_height.value)
        return replace(
            situation,
            camera=camera,
            rotation=self._rotation(situation),
            heading_sigma_deg=min(max(LEAST_HEADING_SIGMA_DEG, self.heading.sigma), ANY_HEADING_DEG),
            height_m=height_m,
            height_sigma_m=height_m * max(LEAST_SCALE_SIGMA, self.log_height.sigma),
        )

    def see(self, heading_deg: float, heading_sigma_deg: float, log_scale: float, scale_sigma: float) -> None:
        """What a proven registration found: corrections to the heading and scale that `read` gave last."""
        self.heading.see(self.heading.value + heading_deg, max(LEAST_HEADING_SIGMA_DEG, heading_sigma_deg))
        self.log_height.see(self.log_height.value + log_scale, max(LEAST_SCALE_SIGMA, scale_sigma))

    def _rotation(self, situation: Situation) -> NDArray[np.float64]:
        if situation.rotation is None:
            return from_angles(self.heading.value)
        return turned(situation.rotation, self.heading.value - heading_of(situation.rotation))
