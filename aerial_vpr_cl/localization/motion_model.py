"""How far a belief moves and spreads between two frames."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.localization.kernels import disc_kernel, gaussian_kernel, ring_kernel
from aerial_vpr_cl.mission.situation import Motion

LOST_HEADING_DEG = 40.0
"""With a heading less sure than this a displacement has a length but no direction."""
STEERING = 0.3
"""Share by which the course follows each new step of the track: a turn takes a few frames."""
STANDING_M = 0.3
"""Spread of a drone that stands still, per square root of a second."""


MOST_ACCELERATION_M_S2, JITTER_M = 20.0, 0.3
"""No drone speeds up or brakes by more than two g: an odometry that says so has jumped. A way may err by so much by its
stamps and noise alone, which is a high speed where frames are close."""
STILL_M_S, STUCK_S = 0.5, 2.0
"""An odometry below this speed for so long says that the drone stands."""


@dataclass(frozen=True, eq=False)
class Step:
    """A displacement in metres east and north, and the kernel that spreads it."""

    displacement: NDArray[np.float64]  # (2,)
    kernel: NDArray[np.float64]
    length_m: float
    guided: bool  # whether its direction is known
    noise: float = 0.0  # σ as a share of the way, per axis
    spread_m2: float = 0.0  # variance by which the kernel spreads, per axis


class Course:
    """The velocity that a track shows."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Stand still."""
        self.velocity: NDArray[np.float64] = np.zeros(2)  # m/s east and north
        self._last: NDArray[np.float64] | None = None

    def add(self, position: NDArray[np.float64] | None, seconds: float) -> None:
        """One more position, so long after the one before; None: not known, and the course is forgotten."""
        if position is None:
            self.reset()
            return
        if self._last is not None and seconds > 0.0:
            self.velocity = self.velocity + STEERING * ((position - self._last) / seconds - self.velocity)
        self._last = position


class OdometryWatch:
    """Lets motions pass that a drone can make, and that the views do not speak against."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Know of no motion before."""
        self._before: NDArray[np.float64] | None = None  # (2,) m/s forward and left
        self._still_s = 0.0
        self.is_stuck = False  # it stands still while the views say that the drone flies

    def contradict(self) -> None:
        """The views fit no more where the track is. If odometry stood still meanwhile it may be what is wrong: it is
        believed again when it moves. A drone that does stand loses little by that."""
        self.is_stuck = self._still_s >= STUCK_S

    def believed(self, motion: Motion | None, seconds: float) -> Motion | None:
        """The motion, or None where it cannot be; the one after a jump is believed whatever it says."""
        if motion is None or seconds <= 0.0:
            return motion
        before, velocity = self._before, np.asarray(motion.forward_left_m, float) / seconds
        most_m_s = MOST_ACCELERATION_M_S2 * seconds + JITTER_M / seconds
        is_still = float(np.hypot(*velocity)) < STILL_M_S
        self._still_s = self._still_s + seconds if is_still else 0.0
        self.is_stuck = self.is_stuck and is_still
        jumped = before is not None and np.hypot(*(velocity - _turned(before, motion.turn_deg))) > most_m_s
        self._before = None if jumped else velocity
        return None if jumped or self.is_stuck else motion


def _turned(forward_left: NDArray[np.float64], turn_deg: float) -> NDArray[np.float64]:
    """The same vector in body axes that were turned clockwise."""
    cos, sin = math.cos(math.radians(turn_deg)), math.sin(math.radians(turn_deg))
    forward, left = (float(value) for value in forward_left)
    return np.array([forward * cos - left * sin, forward * sin + left * cos])


@dataclass(frozen=True)
class MotionModel:
    """Errors of odometry are proportional to the way and last for a while, so that they add up."""

    lasting_m: float = 100.0  # how far an error of the odometry keeps its sign
    fastest_m_s: float = 25.0  # without odometry
    furthest_m: float = math.inf  # a drone may be anywhere on the map, and no further

    def step(
        self,
        motion: Motion | None,
        noise: float,
        heading_deg: float,
        heading_sigma_deg: float,
        seconds: float,
        alone_m: float,
        unseen_s: float,
        step_m: float,
        velocity: NDArray[np.float64],
    ) -> Step:
        """The step between two frames. `noise` is the odometry's error (σ) as a share of the way.

        `alone_m` is how far the drone went by odometry alone before it, `unseen_s` how long nothing was seen;
        `velocity` (2,) in m/s east and north is what the track shows, for drones without odometry: else the belief
        would lag behind a steady flight.
        """
        if motion is None:
            # Where it can have gone in time T is a disc of radius v T, in however many steps: they are no random walk.
            radius_m = min(self.furthest_m, self.fastest_m_s * math.sqrt(seconds**2 + 2.0 * unseen_s * seconds))
            return Step(velocity * seconds, disc_kernel(radius_m, step_m), 0.0, False)
        length_m = float(np.hypot(*motion.forward_left_m))
        # The error of a way of length D is a share of D: each further step adds (D + d)² − D².
        growth = 2.0 * max(alone_m, self.lasting_m) * length_m + length_m**2
        along = noise**2 * growth + STANDING_M**2 * seconds
        if heading_sigma_deg > LOST_HEADING_DEG:
            return Step(np.zeros(2), ring_kernel(length_m, math.sqrt(along), step_m), length_m, False)
        displacement = east_north(motion.forward_left_m, heading_deg)
        askew = math.tan(math.radians(heading_sigma_deg)) ** 2
        across = along + askew * growth
        direction = displacement / length_m if length_m else np.array([1.0, 0.0])
        normal = np.array([-direction[1], direction[0]])
        covariance = along * np.outer(direction, direction) + across * np.outer(normal, normal)
        both, spread_m2 = math.sqrt(noise**2 + askew / 2.0), (along + across) / 2.0
        return Step(displacement, gaussian_kernel(covariance, step_m), length_m, True, both, spread_m2)


def east_north(forward_left_m: NDArray[np.float64], heading_deg: float) -> NDArray[np.float64]:
    """A displacement in body axes as metres east and north."""
    cos, sin = math.cos(math.radians(heading_deg)), math.sin(math.radians(heading_deg))
    forward, left = (float(value) for value in forward_left_m)
    return np.array([forward * sin - left * cos, forward * cos + left * sin])
