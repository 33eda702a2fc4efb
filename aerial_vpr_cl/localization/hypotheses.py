"""Which headings and scales are tried: enough to be near the true one, no more."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.localization.template import Hypothesis
from aerial_vpr_cl.localization.view import View
from aerial_vpr_cl.mission.situation import UNKNOWN_HEADING_DEG

REACH_SIGMAS = 2.0
"""How far hypotheses go, in sigmas of what was stated."""

ARM = 0.38
"""Mean distance of a square's points from its centre, in sides: what a turn moves on average."""

SPACING_PX = 1.3
"""Pixels by which neighbouring hypotheses move a point at the arm's end apart."""

MOST_PER_AXIS = 72


@dataclass(frozen=True)
class Axis:
    """Evenly spaced values of one unknown: `middle + k·spacing`, Gaussian around zero or even where sigma is None."""

    spacing: float
    sigma: float | None
    values: tuple[float, ...]

    @classmethod
    def spread(cls, spacing: float, sigma: float) -> Axis:
        """Values over ± REACH_SIGMAS; one alone where sigma is small beside the spacing."""
        n = max(0, math.ceil((REACH_SIGMAS * sigma - spacing / 2.0) / spacing))
        if 2 * n + 1 > MOST_PER_AXIS:
            n = MOST_PER_AXIS // 2
            spacing = REACH_SIGMAS * sigma / n
        return cls(spacing, sigma, tuple(spacing * k for k in range(-n, n + 1)))

    @classmethod
    def circle(cls, spacing: float) -> Axis:
        """Values all round."""
        n = min(MOST_PER_AXIS, math.ceil(360.0 / spacing))
        return cls(360.0 / n, None, tuple(360.0 / n * k - 180.0 for k in range(n)))

    def weight(self, value: float) -> float:
        """Probability of the value's cell before looking."""
        if self.sigma is None:
            return 1.0 / len(self.values)
        if len(self.values) == 1:
            return 1.0
        return math.exp(-0.5 * (value / self.sigma) ** 2) / self._total

    @cached_property
    def _total(self) -> float:
        return sum(math.exp(-0.5 * (value / (self.sigma or 1.0)) ** 2) for value in self.values)

    def finer(self, value: float, spacing: float) -> list[tuple[float, float]]:
        """Values with weights around one of this axis, at a finer spacing."""
        if len(self.values) > 1 or self.sigma is None:
            return [(v, self.weight(v) * spacing / self.spacing) for v in (value - spacing, value, value + spacing)]
        if self.sigma < spacing / 4.0:
            return [(value, 1.0)]
        side = math.exp(-0.5 * (spacing / self.sigma) ** 2)
        return [(v, w / (1.0 + 2.0 * side)) for v, w in ((-spacing, side), (0.0, 1.0), (spacing, side))]


@dataclass(frozen=True)
class Spread:
    """The hypotheses of a view at one pixel size: headings times scales (as logarithms)."""

    turns: Axis
    scales: Axis

    @classmethod
    def of(cls, view: View, step_m: float) -> Spread:
        """Spacing follows from what a turn or a growth moves at the view's arm."""
        spacing = SPACING_PX * step_m / (ARM * view.footprint_m)
        if view.heading_sigma_deg >= UNKNOWN_HEADING_DEG / 3.0:
            turns = Axis.circle(math.degrees(spacing))
        else:
            turns = Axis.spread(math.degrees(spacing), view.heading_sigma_deg)
        return cls(turns, Axis.spread(spacing, view.scale_sigma))

    def __len__(self) -> int:
        return len(self.turns.values) * len(self.scales.values)

    def all(self) -> list[Hypothesis]:
        """Every combination, with its probability before looking."""
        return [
            Hypothesis(turn, math.exp(scale), self.turns.weight(turn) * self.scales.weight(scale))
            for turn, scale in itertools.product(self.turns.values, self.scales.values)
        ]

    def around(self, hypothesis: Hypothesis) -> list[Hypothesis]:
        """Hypotheses at half the spacing around one."""
        turns = self.turns.finer(hypothesis.turn_deg, self.turns.spacing / 2.0)
        scales = self.scales.finer(math.log(hypothesis.scale), self.scales.spacing / 2.0)
        return [
            Hypothesis(round(turn, 6), round(math.exp(scale), 9), a * b)
            for (turn, a), (scale, b) in itertools.product(turns, scales)
        ]


def settle(values: NDArray[np.float64], masses: NDArray[np.float64], sigma: float) -> tuple[float, float]:
    """Best value and its sigma, from the probability masses of evenly spaced ones; between them by a parabola."""
    nodes = np.unique(values)
    if len(nodes) == 1:
        return float(nodes[0]), sigma
    mass = np.array([masses[values == node].sum() for node in nodes])
    spacing = float(nodes[1] - nodes[0])
    best = int(mass.argmax())
    mean = float(np.average(nodes, weights=mass))
    spread = math.sqrt(float(np.average((nodes - mean) ** 2, weights=mass)) + spacing**2 / 12.0)
    return float(nodes[best]) + spacing * vertex(np.log(mass), best), min(spread, sigma)


def vertex(values: NDArray[np.float64], best: int) -> float:
    """Where between its neighbours a maximum lies, in samples from −½ to ½, by a parabola; 0 at the edge."""
    if not 0 < best < len(values) - 1:
        return 0.0
    before, at, after = values[best - 1 : best + 2]
    curvature = before - 2.0 * at + after
    if not (np.isfinite(curvature) and curvature < 0.0):
        return 0.0
    return float(np.clip(0.5 * (before - after) / curvature, -0.5, 0.5))
