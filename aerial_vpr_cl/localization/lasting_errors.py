"""What a track's errors come to when they last: the covariance analysis of a filter that takes them for new ones.

A belief has no room for the error of the attitude or of the odometry, so each frame's is taken for a new one, as large
as if it had lasted for ever. That gives views about the right weight, but the belief becomes wider than the errors of
the track are: what lasts is averaged by the track's own memory too. It becomes narrower where a drone hovers: what a
tilt that is read off the ground errs by is the ground's, and stays. All are followed here, one axis for all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SLOW_SHARE = 0.5
"""Share of a stated attitude's variance that lasts."""
LONGER = 1.5
"""Errors are supposed to last so much longer than the weight of a view has it: rather too wide than too narrow."""


@dataclass(frozen=True)
class PlaceError:
    """Of where a view puts the drone, per axis."""

    sigma_m: float
    slow_share: float = SLOW_SHARE  # of the variance, that lasts for a time
    ground_share: float = 0.0  # of the variance, that lasts as long as the ground is the same


class LastingErrors:
    """Variance of the track's position as the belief has it, and as lasting errors make it.

    The state is the position's error in metres, the slow error of the attitude in its own deviations, the error of the
    odometry as a share of the way, and what the ground misleads by in its own deviations.
    """

    def __init__(self, attitude_s: float, odometry_m: float, ground_m: float) -> None:
        """How long errors keep their sign: of the attitude, of the odometry, and of the same ground."""
        self._attitude_s, self._odometry_m, self._ground_m = LONGER * attitude_s, LONGER * odometry_m, ground_m
        self.reset()

    def reset(self) -> None:
        """No view was used yet."""
        self._believed = 0.0
        self._covariance: NDArray[np.float64] = np.zeros((4, 4))

    @property
    def share(self) -> float:
        """True variance ÷ that of the belief; 1 while nothing is known of either."""
        return float(self._covariance[0, 0]) / self._believed if self._believed else 1.0

    def move(self, length_m: float, seconds: float, noise: float, spread_m2: float) -> None:
        """The drone went on by odometry, whose error (σ) is this share of the way; the belief spread by so much."""
        if not self._believed:
            return
        attitude, odometry = _kept(seconds, self._attitude_s), _kept(length_m, self._odometry_m)
        ground = _kept(length_m, self._ground_m)
        self._covariance[2, 2] = self._covariance[2, 2] or noise**2  # the first step
        moved = np.diag([1.0, attitude, odometry, ground])
        moved[0, 2] = length_m
        fresh = np.diag([0.0, 1.0 - attitude**2, noise**2 * (1.0 - odometry**2), 1.0 - ground**2])
        self._covariance = moved @ self._covariance @ moved.T + fresh
        self._believed += spread_m2

    def see(self, error: PlaceError, shape: float) -> None:
        """A view whose place errs so was multiplied in with this share of its evidence."""
        sigma_m = error.sigma_m
        if sigma_m <= 0.0 or shape <= 0.0:
            return
        slow_m, ground_m = math.sqrt(error.slow_share) * sigma_m, math.sqrt(error.ground_share) * sigma_m
        if not self._believed:
            self._covariance = np.diag([sigma_m**2, 1.0, 0.0, 1.0])
            self._covariance[0] = self._covariance[:, 0] = [sigma_m**2, slow_m, 0.0, ground_m]
            self._believed = sigma_m**2
            return
        gain = self._believed / (self._believed + sigma_m**2 / shape)
        seen = np.eye(4)
        seen[0] = [1.0 - gain, gain * slow_m, 0.0, gain * ground_m]
        self._covariance = seen @ self._covariance @ seen.T
        self._covariance[0, 0] += gain**2 * (1.0 - error.slow_share - error.ground_share) * sigma_m**2
        self._believed *= 1.0 - gain


def _kept(passed: float, lasting: float) -> float:
    """Share of an error that is still the same."""
    return math.exp(-passed / lasting) if lasting > 0.0 else 0.0
