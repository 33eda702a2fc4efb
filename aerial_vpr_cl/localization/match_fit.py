"""What a match on this map is worth, learnt from the map alone: its own patches with other looks, and all the rest."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.localization.correlation import Window, null_sigma
from aerial_vpr_cl.localization.hypotheses import ARM, SPACING_PX
from aerial_vpr_cl.localization.likelihood import MatchLikelihood, fit
from aerial_vpr_cl.localization.map_orientation import OrientationLevel
from aerial_vpr_cl.localization.template import Hypothesis, Template, TemplateMaker
from aerial_vpr_cl.localization.view import View
from aerial_vpr_cl.satellite.looks import changed_look
from aerial_vpr_cl.satellite.raster import SatelliteMap

CROPS = 80
SIDE_PX = (36.0, 72.0)
"""Sides of the crops, in pixels of the level: what a view has where it is searched."""

WRONG_PX = 256
"""Side of the window of wrong ground that a crop is laid on."""

APART_M = 100.0
"""Ground nearer than this to where a crop or its foreign part comes from is not wrong ground."""

NEAR_PX = 1
FINER = 4.0
"""Pixels of a crop to one of the level: a camera is finer than the map."""


def fit_likelihood(level: OrientationLevel, satellite: SatelliteMap, seed: int = 0) -> MatchLikelihood:
    """Fit the likelihood of one level on random crops whose looks, heading, scale and part of the content changed."""
    rng = np.random.default_rng([seed, round(100 * level.step_m)])
    right, possible, wrong = [], [], []
    for _ in range(CROPS):
        drawn = _draw(level, satellite, rng)
        if drawn is None:
            continue
        template, places = drawn
        sigma = null_sigma(template, level)
        if sigma <= 0.0:
            continue
        right.append(_score_at(level, template, places[0]) / sigma)
        possible.append(template.energy / sigma)
        wrong.append(_wrong_scores(level, template, places, rng) / sigma)
    if len(right) < CROPS // 4:
        return MatchLikelihood()
    return fit(np.array(right), np.array(possible), np.concatenate(wrong).astype(np.float64))


def _draw(
    level: OrientationLevel, satellite: SatelliteMap, rng: np.random.Generator
) -> tuple[Template, NDArray[np.int64]] | None:
    """A crop with other looks as template, and the pixels (2, 2) where it and its foreign part come from."""
    west, south, east, north = satellite.bounds
    footprint_m = min(rng.uniform(*SIDE_PX) * level.step_m, 0.8 * min(east - west, north - south))
    margin = 0.55 * footprint_m
    low, high = np.array([west, south]) + margin, np.array([east, north]) - margin
    centres = rng.uniform(np.minimum(low, high), np.maximum(low, high), (2, 2))
    # Half a cell of the hypotheses away from what was supposed, at most.
    spacing = SPACING_PX * level.step_m / (ARM * footprint_m)
    turn, scale = math.degrees(rng.uniform(-0.5, 0.5) * spacing), math.exp(rng.uniform(-0.5, 0.5) * spacing)
    size = max(16, round(footprint_m / level.step_m * FINER))
    (image, other), valid = satellite.read_patches(centres, [turn, 0.0], [footprint_m * scale, footprint_m], size)
    if valid.min() < 0.99:
        return None
    seen = np.ones((size, size), np.bool_)
    view = View(changed_look(image, rng, other), seen, footprint_m / size, np.zeros(2), 0.0, 0.0, 0.0)
    columns = (centres[:, 0] - level.west) / level.step_m
    rows = (level.north - centres[:, 1]) / level.step_m
    return TemplateMaker(view, level.step_m).make(Hypothesis()), np.floor(np.stack([rows, columns], axis=1)).astype(int)


def _score_at(level: OrientationLevel, template: Template, place: NDArray[np.int64]) -> float:
    """Largest score at a pixel and its neighbours."""
    height, width = template.planes.shape[1:]
    top, left = int(place[0]) + template.top - NEAR_PX, int(place[1]) + template.left - NEAR_PX
    near = level.window(top, left, height + 2 * NEAR_PX, width + 2 * NEAR_PX).planes
    return max(
        float((near[:, down : down + height, right : right + width] * template.planes).sum())
        for down in range(2 * NEAR_PX + 1)
        for right in range(2 * NEAR_PX + 1)
    )


def _wrong_scores(
    level: OrientationLevel, template: Template, places: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.float32]:
    """Scores on a random window, without the ground the crop shows."""
    height, width = template.planes.shape[1:]
    rows, columns = max(1, min(WRONG_PX, level.height - height)), max(1, min(WRONG_PX, level.width - width))
    top = int(rng.integers(0, max(1, level.height - height - rows)))
    left = int(rng.integers(0, max(1, level.width - width - columns)))
    channel = level.window(top, left, rows + height, columns + width)
    window = Window.of(channel)
    scores = window.scores(template)[:rows, :columns]
    share = window.known_share(template)
    wrong = np.ones(scores.shape, np.bool_) if share is None else share[:rows, :columns] > 0.99
    down = np.arange(rows)[:, None] + top - template.top
    right = np.arange(columns)[None, :] + left - template.left
    for row, column in places:
        wrong &= np.hypot(down - row, right - column) * level.step_m > APART_M
    return scores[wrong]
