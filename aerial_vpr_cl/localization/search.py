"""Searching windows of the map for a view: likelihood ratios of every position, over all supposed turns and scales."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.localization.correlation import Window, null_sigma
from aerial_vpr_cl.localization.hypotheses import Hypothesis
from aerial_vpr_cl.localization.likelihood import look_up
from aerial_vpr_cl.localization.map_orientation import OrientationLevel
from aerial_vpr_cl.localization.template import Template, TemplateMaker
from aerial_vpr_cl.localization.view import View

Bounds = tuple[float, float, float, float]
"""West, south, east, north in metres."""

SEARCH_TILE_PX = 768
"""Largest window searched at a time, to bound memory."""

SECTOR_DEG = 15.0
"""Turns that share one measure of chance."""

LEAST_KNOWN = 0.6
"""Share of a view's structure that must lie on known ground; elsewhere nothing is said."""


@dataclass(eq=False)
class Patch:
    """Likelihood ratios of a window of drone positions, rows and columns counted on the level's lattice."""

    level: OrientationLevel
    top: int
    left: int
    ratio: NDArray[np.float64]  # (h, w) of p(view | here) to p(view | elsewhere), over all hypotheses
    sharp: NDArray[np.float64]  # (h, w) the same before map and tilt are doubted: at first the very same array
    z: NDArray[np.float32]  # (h, w) score of the best hypothesis, in standard deviations of chance
    best: NDArray[np.int16]  # (h, w) that hypothesis
    said: NDArray[np.bool_]  # (h, w) where enough of the view lay on known ground; elsewhere the ratio is 1
    hypotheses: Sequence[Hypothesis]
    masses: NDArray[np.float64]  # (n,) sum of the ratios of each hypothesis, weighted

    def position(self, row: float, column: float) -> NDArray[np.float64]:
        """Easting and northing of a pixel's centre."""
        step = self.level.step_m
        east, north = self.left + column + 0.5, self.top + row + 0.5
        return np.array([self.level.west + east * step, self.level.north - north * step])


class Stage:
    """A view at one pixel size: its templates are made once and laid on window after window."""

    def __init__(self, view: View, level: OrientationLevel) -> None:
        self.level = level
        self._maker = TemplateMaker(view, level.step_m)
        self._templates: dict[tuple[float, float], tuple[Template, float]] = {}
        self._chances: dict[int, float] = {}
        self._size = (0, 0)  # of the last transforms
        middle, sigma = self.template(Hypothesis())
        self.z_max = middle.energy / sigma if sigma > 0.0 else 0.0
        self._table = level.likelihood.table(self.z_max)

    def lay(self, hypotheses: Sequence[Hypothesis], top: int, left: int, height: int, width: int) -> Patch:
        """Ratios of the drone positions of a window, in rows and columns of the level's lattice."""
        templates = [self.template(hypothesis) for hypothesis in hypotheses]
        above = max(0, -min(template.top for template, _ in templates))
        before = max(0, -min(template.left for template, _ in templates))
        below = max(0, max(template.top + template.planes.shape[1] for template, _ in templates) - 1)
        behind = max(0, max(template.left + template.planes.shape[2] for template, _ in templates) - 1)
        box = (top - above, left - before, above + height + below, before + width + behind)
        window = Window.at(self.level, *box, self._size)
        self._size = window.size
        shape = (height, width)
        ratios = np.zeros(shape)
        patch = Patch(
            self.level,
            top,
            left,
            ratios,
            ratios,
            np.full(shape, -np.inf, np.float32),
            np.zeros(shape, np.int16),
            np.ones(shape, np.bool_),
            hypotheses,
            np.zeros(len(hypotheses)),
        )
        deviation: NDArray[np.float32] | None = None
        middle, _ = templates[len(templates) // 2]
        share = window.known_share(middle)
        if share is not None:
            rows, columns = _shifts(middle, above, before, shape)
            known = share[rows, columns]
            patch.said = known >= LEAST_KNOWN
            deviation = np.sqrt(np.maximum(known, np.float32(LEAST_KNOWN)))
        for number, (hypothesis, (template, sigma)) in enumerate(zip(hypotheses, templates)):
            rows, columns = _shifts(template, above, before, shape)
            z = window.scores(template, rows)[:, columns] * np.float32(1.0 / max(sigma, 1e-9))
            if deviation is not None:
                z /= deviation
            ratio = look_up(hypothesis.weight * self._table, z)
            patch.masses[number] = ratio.sum() if deviation is None else ratio.sum(where=patch.said)
            patch.ratio += ratio
            if len(hypotheses) > 1:
                patch.best[z > patch.z] = number
            np.maximum(patch.z, z, out=patch.z)
        patch.ratio[~patch.said] = 1.0
        return patch

    def template(self, hypothesis: Hypothesis) -> tuple[Template, float]:
        """The view as supposed, and the standard deviation of its score by chance."""
        key = (hypothesis.turn_deg, hypothesis.scale)
        if key not in self._templates:
            template = self._maker.make(hypothesis)
            self._templates[key] = template, self._chance(template, hypothesis.turn_deg)
        return self._templates[key]

    def _chance(self, template: Template, turn_deg: float) -> float:
        """Deviation of chance: per unit of energy it hardly changes within a few degrees."""
        sector = round(turn_deg / SECTOR_DEG)
        if sector not in self._chances:
            self._chances[sector] = null_sigma(template, self.level) / max(math.sqrt(template.energy), 1e-9)
        return self._chances[sector] * math.sqrt(template.energy)


def lattice_windows(level: OrientationLevel, where: Sequence[Bounds] | None) -> list[tuple[int, int, int, int]]:
    """Windows in metres as (top, left, height, width) of the level's lattice, cut to the map and to a bearable size."""
    step = level.step_m
    everything = (level.west, level.north - level.height * step, level.west + level.width * step, level.north)
    windows = []
    for west, south, east, north in [everything] if where is None else where:
        left, right = (
            max(0, math.floor((west - level.west) / step)),
            min(level.width, math.ceil((east - level.west) / step)),
        )
        top, bottom = (
            max(0, math.floor((level.north - north) / step)),
            min(level.height, math.ceil((level.north - south) / step)),
        )
        for row in range(top, bottom, SEARCH_TILE_PX):
            for column in range(left, right, SEARCH_TILE_PX):
                windows.append((row, column, min(SEARCH_TILE_PX, bottom - row), min(SEARCH_TILE_PX, right - column)))
    # Templates that were transformed for a large window can be laid on smaller ones as they are.
    return sorted(windows, key=lambda window: -window[2] * window[3])


def _shifts(template: Template, above: int, before: int, shape: tuple[int, int]) -> tuple[slice, slice]:
    """Shifts of the template's corner that put the drone on the window's positions."""
    row, column = above + template.top, before + template.left
    return slice(row, row + shape[0]), slice(column, column + shape[1])
