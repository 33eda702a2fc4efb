"""A finer look at the likeliest places of a coarse search: coarse pixels find, finer ones decide."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.localization.hypotheses import Spread
from aerial_vpr_cl.localization.position_error import blurred
from aerial_vpr_cl.localization.search import Patch, Stage

REFINE_RADIUS_M = 40.0
"""How far around a place is looked at more finely."""

REFINED_PER_KM2, LEAST_REFINED = 3.0, 3
"""How many places are looked at, at most: by the area, as chance makes more of them the more is searched."""

REFINE_MARGIN = 15.0
"""Places less likely than the best so far by more than this (natural logarithm) are not looked at more finely."""


@dataclass(frozen=True)
class CoarsePeak:
    """A local maximum of the coarse search."""

    ratio: float
    patch: int
    row: int
    column: int


def peaks_of(patches: list[Patch], most: int) -> list[CoarsePeak]:
    """The highest local maxima, best first: as many as the area is worth."""
    found = []
    for number, patch in enumerate(patches):
        ratio = patch.ratio * patch.said
        side = 2 * math.ceil(REFINE_RADIUS_M / patch.level.step_m) + 1
        rows, columns = np.nonzero((ratio == cv2.dilate(ratio, np.ones((side, side), np.uint8))) & patch.said)
        found += [CoarsePeak(float(ratio[at]), number, int(at[0]), int(at[1])) for at in zip(rows, columns)]
    km2 = sum(patch.ratio.size * patch.level.step_m**2 for patch in patches) / 1e6
    return sorted(found, key=lambda peak: -peak.ratio)[: min(most, LEAST_REFINED + round(REFINED_PER_KM2 * km2))]


def refine(patches: list[Patch], peaks: list[CoarsePeak], stage: Stage, spread: Spread, sigma_m: float) -> list[Patch]:
    """Look at peaks more finely, best first, and put what is seen in place of the coarse ratios.

    What comes back are the looks themselves, blurred by sigma. Once one is far likelier than all that is left, the
    rest is not looked at: what a ratio means is that wrong ground reaches it as rarely.
    """
    looks: list[tuple[NDArray[np.float64], Patch, Patch]] = []
    best = 0.0
    for peak in peaks:
        if peak.ratio < best * math.exp(-REFINE_MARGIN):
            break
        finer, coarse = _look(patches[peak.patch], peak, stage, spread)
        even = blurred(finer, sigma_m)
        looks.append((coarse, finer, even))
        best = max(best, peak.ratio, float((even.ratio * even.said).max()))
    # The best comes last: where two overlap, it is what the better one shows that counts.
    for coarse, finer, _ in reversed(looks):
        height, width = coarse.shape
        coarse[:] = finer.ratio.reshape(height, len(finer.ratio) // height, width, -1).mean(axis=(1, 3))
    return [even for _, _, even in looks]


def _look(patch: Patch, peak: CoarsePeak, stage: Stage, spread: Spread) -> tuple[Patch, NDArray[np.float64]]:
    """A peak's surroundings with finer pixels, and the part of the coarse ratios that they are."""
    reach = math.ceil(REFINE_RADIUS_M / patch.level.step_m)
    factor = round(patch.level.step_m / stage.level.step_m)
    top, left = max(0, peak.row - reach), max(0, peak.column - reach)
    coarse = patch.ratio[top : peak.row + reach + 1, left : peak.column + reach + 1]
    hypotheses = spread.around(patch.hypotheses[patch.best[peak.row, peak.column]])
    height, width = coarse.shape
    corner = (patch.top + top) * factor, (patch.left + left) * factor
    return stage.lay(hypotheses, *corner, height * factor, width * factor), coarse
