"""The error of the stated tilt, read off the perspective that it leaves in a view.

A camera h above the ground that leans δ more than the attitude says sees the ground h·δ aside, which by itself looks
like a drone that is elsewhere. But ground at a distance r that way moves by h·δ·(1 + r²/h²): what is more at the view's
edge than in its middle can be measured. Parts of the view are laid on the map one by one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.fft
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from aerial_vpr_cl.localization.map_orientation import OrientationLevel
from aerial_vpr_cl.localization.template import Hypothesis, Template
from aerial_vpr_cl.localization.view import View

Vectors = NDArray[np.float64]
"""(n, 2) metres east and north."""

BLOCKS = 8
"""Parts of a view along each side: within one, perspective moves nothing by more than a fraction of a pixel."""

REACH_M = 24.0
"""How far each part is moved about: twice the stated tilt's perspective at the corners, and some for turn and scale."""

BLURS_PX = (2.0, 1.0, 0.6)
ROUNDS = 3
"""Scores are first smoothed, to be caught from afar, then less and less; so many steps each."""

NEWS = 0.5
"""Share of what scores tell as if every pixel erred by itself; chosen where stated and true errors agreed."""

LONGEST_STEP = np.array([10.0, 10.0, 0.02, 0.02, 0.02, 0.02])
LEAST_SIGMA = 1e-3
"""Radians, or relative: what is stated as exact is not held more firmly than this."""

MOST_SIGMA = math.radians(5.0)
"""A tilt less sure than this may leave more perspective than can be caught: then it is not read."""

ENERGY = 1e-3
"""A part with less structure says nothing."""


@dataclass(frozen=True, eq=False)
class Perspective:
    """Where the drone is once the tilt's error is taken off, with what remains of it."""

    position: NDArray[np.float64]  # (2,)
    shift_m: NDArray[np.float64]  # (2,) from where the view fits if its tilt is as stated
    covariance: NDArray[np.float64]  # (2, 2) in m², of matching and tilt; without the map's own error
    tilt_deg: NDArray[np.float64]  # (2,) by how much further east and north the camera looks than was stated


@dataclass(frozen=True, eq=False)
class BlockScores:
    """Scores of n parts of a template, each moved by itself on the map around where the whole was found."""

    scores: NDArray[np.float64]  # (2R + 1, 2R + 1, n) by rows down and columns right
    centres_m: Vectors  # (n, 2) of their structure, as seen from the drone
    shares: NDArray[np.float64]  # (n,) of the structure

    @classmethod
    def of(cls, template: Template, level: OrientationLevel, row: int, column: int) -> BlockScores:
        """Move the parts of a template about, with the drone on a pixel of the level."""
        reach = math.ceil(REACH_M / level.step_m)
        block = -(-max(template.planes.shape[1:]) // BLOCKS)
        side = block * BLOCKS
        planes = np.zeros((2, side, side), np.float32)
        planes[:, : template.planes.shape[1], : template.planes.shape[2]] = template.planes
        ground = level.window(
            row + template.top - reach, column + template.left - reach, side + 2 * reach, side + 2 * reach
        ).planes
        parts = planes.reshape(2, BLOCKS, block, BLOCKS, block).swapaxes(2, 3)
        around = block + 2 * reach
        under = sliding_window_view(ground, (around, around), axis=(1, 2))[:, ::block, ::block]
        size = (scipy.fft.next_fast_len(around, real=True),) * 2
        product = (np.conj(scipy.fft.rfft2(parts, size)) * scipy.fft.rfft2(under, size)).sum(axis=0)
        shifts = 2 * reach + 1
        scores = scipy.fft.irfft2(product, size)[..., :shifts, :shifts].reshape(-1, shifts, shifts)
        power = (parts**2).sum(axis=0)
        energy = power.sum(axis=(2, 3))
        first, inside, whole = np.arange(BLOCKS) * block, np.arange(block), np.maximum(energy, ENERGY)
        down = first[:, None] + power.sum(axis=3) @ inside / whole
        right = first + power.sum(axis=2) @ inside / whole
        centres = np.stack([template.left + right, -(template.top + down)], axis=-1).reshape(-1, 2) * level.step_m
        told = energy.ravel() > ENERGY
        shares = energy.ravel()[told] / max(float(energy.sum()), ENERGY)
        return cls(np.moveaxis(scores[told], 0, 2).astype(np.float64), centres[told], shares)


def read_tilt(
    view: View,
    hypothesis: Hypothesis,
    template: Template,
    level: OrientationLevel,
    place: NDArray[np.float64],
    nats: float,
) -> Perspective | None:
    """Fit position, turn, scale and tilt to the parts of a view that fits best at a place; None: nothing to read.

    `nats` is what a unit of score is worth as evidence. What was stated of turn, scale and tilt counts with its sigma.
    """
    if view.height_m is None or not 0.0 < view.tilt_sigma <= MOST_SIGMA:
        return None
    column, row = np.floor((place - [level.west, level.north]) * [1.0, -1.0] / level.step_m).astype(int).tolist()
    origin = np.array([level.west + (column + 0.5) * level.step_m, level.north - (row + 0.5) * level.step_m])
    blocks = BlockScores.of(template, level, row, column)
    if len(blocks.shares) < BLOCKS:
        return None
    sigmas = np.array([math.radians(view.heading_sigma_deg), view.scale_sigma, view.tilt_sigma, view.tilt_sigma])
    precision = np.concatenate([[0.0, 0.0], np.maximum(sigmas, LEAST_SIGMA) ** -2])
    stated = np.array([0.0, 0.0, -math.radians(hypothesis.turn_deg), -math.log(hypothesis.scale), 0.0, 0.0])
    begin = np.append(place - origin, np.zeros(4))
    found = _fit(blocks, begin, stated, precision, view.height_m * hypothesis.scale, NEWS * nats, level.step_m)
    if found is None:
        return None
    values, information = found
    position, covariance = origin + values[:2], np.asarray(np.linalg.inv(information)[:2, :2], np.float64)
    return Perspective(position, position - place, covariance, np.degrees(values[4:]))


def _fit(
    blocks: BlockScores,
    values: NDArray[np.float64],
    stated: NDArray[np.float64],
    precision: NDArray[np.float64],
    height_m: float,
    nats: float,
    step_m: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """The likeliest (6,) values of `displaced` and their (6, 6) information, uphill from some; None: no hill."""
    slopes, information = derivatives(blocks.centres_m, height_m), np.diag(precision)
    for blur_px in BLURS_PX:
        surfaces = _surfaces(blocks.scores, blur_px, step_m)
        for _ in range(ROUNDS):
            moved = displaced(values, blocks.centres_m, height_m) - blocks.centres_m
            east, north, east2, north2 = _looked_up(surfaces, moved / step_m)
            curvature = -nats * np.array([east2.sum(), north2.sum()])
            if not curvature.min() > 0.0:
                return None
            information = np.einsum("n,nkp,k,nkq->pq", blocks.shares, slopes, curvature, slopes) + np.diag(precision)
            uphill = nats * np.einsum("kn,nkp->p", np.stack([east, north]), slopes)
            step = np.linalg.solve(information, uphill - precision * (values - stated))
            values = values + step * min(1.0, float((LONGEST_STEP / np.maximum(np.abs(step), 1e-12)).min()))
    return values, information


def displaced(values: NDArray[np.float64], ground_m: Vectors, height_m: float) -> Vectors:
    """Where ground seen at (n, 2) from the drone truly lies: `values` are a shift, a turn, a growth and a tilt (2)."""
    tilted = tilt(ground_m, height_m, values[4:])
    cos, sin, scale = math.cos(values[2]), math.sin(values[2]), math.exp(values[3])
    return np.asarray(values[:2] + scale * (tilted @ np.array([[cos, -sin], [sin, cos]])))


def tilt(ground_m: Vectors, height_m: float, radians: NDArray[np.float64]) -> Vectors:
    """Where rays to the ground meet it once the camera is turned so that straight down leans east and north so far."""
    angle = float(np.hypot(*radians))
    if angle == 0.0:
        return ground_m
    towards = radians / angle
    along = ground_m @ towards
    across = ground_m - along[:, None] * towards
    cos, sin = math.cos(angle), math.sin(angle)
    forward, down = along * cos + height_m * sin, height_m * cos - along * sin
    return np.asarray((forward[:, None] * towards + across) * (height_m / down)[:, None])


def derivatives(ground_m: Vectors, height_m: float) -> NDArray[np.float64]:
    """(n, 2, 6) of `displaced` by its values, where these are zero."""
    east, north = ground_m.T
    zero, one = np.zeros(len(ground_m)), np.ones(len(ground_m))
    both = east * north / height_m
    to_east = [one, zero, north, east, height_m + east**2 / height_m, both]
    to_north = [zero, one, -east, north, both, height_m + north**2 / height_m]
    return np.stack([np.stack(to_east, axis=1), np.stack(to_north, axis=1)], axis=1)


def _surfaces(scores: NDArray[np.float64], blur_px: float, step_m: float) -> NDArray[np.float64]:
    """(k, k, n, 4) slopes east and north and second derivatives of smoothed scores, per metre."""
    offsets = np.arange(len(scores))
    weights = np.exp(-0.5 * ((offsets[:, None] - offsets) / blur_px) ** 2)
    weights /= weights.sum(axis=1, keepdims=True)
    smooth = np.einsum("ia,jb,abn->ijn", weights, weights, scores, optimize=True)
    down, right = np.gradient(smooth, step_m, axis=(0, 1))
    down2, right2 = np.gradient(down, step_m, axis=0), np.gradient(right, step_m, axis=1)
    return np.stack([right, -down, right2, down2], axis=-1)


def _looked_up(surfaces: NDArray[np.float64], moved_px: Vectors) -> NDArray[np.float64]:
    """(4, n) what the surfaces say where each part was moved to, between their pixels."""
    last = len(surfaces) - 1
    at = np.clip(moved_px * [1.0, -1.0] + last / 2.0, 0.0, last - 1e-6)
    column, row = np.floor(at).astype(int).T
    right, down = (at - np.floor(at)).T[:, :, None]
    part = np.arange(len(moved_px))
    above = surfaces[row, column, part] * (1.0 - right) + surfaces[row, column + 1, part] * right
    below = surfaces[row + 1, column, part] * (1.0 - right) + surfaces[row + 1, column + 1, part] * right
    return np.asarray((above * (1.0 - down) + below * down).T)
