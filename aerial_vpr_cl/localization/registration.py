"""Registration: where on the map a view belongs, in metres, and how sure that is.

"The network proposes, geometry disposes": a view is laid on the map's orientation channel at every place of the given
windows, turned and scaled as far as its heading and scale are unsure; coarse pixels find, finer ones decide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.localization.hypotheses import Spread, settle, vertex
from aerial_vpr_cl.localization.map_orientation import MapOrientation, OrientationLevel
from aerial_vpr_cl.localization.perspective import Perspective, read_tilt
from aerial_vpr_cl.localization.position_error import blurred, draw_together
from aerial_vpr_cl.localization.refinement import REFINE_RADIUS_M, peaks_of, refine
from aerial_vpr_cl.localization.search import Bounds, Patch, Stage, lattice_windows
from aerial_vpr_cl.localization.view import View
from aerial_vpr_cl.settings import setting

TEMPLATE_PX = 36
"""Least pixels across a view where it is searched: below, a view has too little structure to be found."""

QUICK_MS = 20.0
"""A search that takes less is made at the finer level at once, as fine pixels find more."""

TEMPLATE_NS, WINDOW_NS = 50.0, 17.5
"""Nanoseconds per pixel of a template and of a searched window, on one core of a 2020s server."""

PEAK_RADIUS_M, PEAK_SIGMAS = 50.0, 3.0
"""What lies nearer than this to the best place, in metres or in deviations of tilt and map, is the same answer."""

TILT_SIGMAS = 3.0
"""How far around a place an unsure tilt is thought to have put it."""


@dataclass(frozen=True)
class RegistrationSettings:
    """What is asked of a registration."""

    off_map: float = setting(
        0.5,
        "probability, before looking, that the drone is nowhere in what is searched; 0.5: nothing is known",
        low=0.0,
        high=1.0,
    )
    map_sigma_m: float = setting(
        3.5, "error of the map's position and of the ground's relief, per axis, in metres", low=0.0
    )
    refined_peaks: int = setting(48, "most places that are looked at more finely", low=1)
    read_tilt: bool = setting(True, "correct the stated tilt by the perspective it leaves in the view")


@dataclass(frozen=True, eq=False)
class Surface:
    """Log of p(view | drone here) / p(view | drone elsewhere) on a north-up lattice; 0 where nothing can be said."""

    west: float  # outer corner of the first pixel
    north: float
    step_m: float
    log_likelihood: NDArray[np.float32]  # (h, w)


@dataclass(frozen=True, eq=False)
class Peak:
    """The best place."""

    position: NDArray[np.float64]  # (2,) easting and northing of the drone
    covariance: NDArray[np.float64]  # (2, 2) in m²
    log_likelihood: float
    z: float  # score there, in standard deviations of chance
    z_max: float  # what ground that looks exactly the same would score
    second_peak_ratio: float  # likelihood of the best place elsewhere ÷ this one's
    heading_correction_deg: float  # to be added to the heading the view was made with
    heading_sigma_deg: float
    scale_correction: float  # true metres per pixel ÷ the view's
    scale_sigma: float  # relative
    proof: float  # probability that it is right, over what was searched
    perspective: Perspective | None  # what was read of the tilt; position and covariance hold it already


@dataclass(frozen=True, eq=False)
class Registration:
    """What laying a view on the map says."""

    surfaces: list[Surface]
    peak: Peak | None  # None where the view or the ground has nothing to go by


def register(
    view: View,
    map_orientation: MapOrientation,
    where: Sequence[Bounds] | None = None,
    settings: RegistrationSettings | None = None,
) -> Registration:
    """Lay a view on the map; `where` are windows of possible positions of the drone.

    None: the whole map. Windows must not overlap, or what lies in both counts twice.
    """
    settings = settings or RegistrationSettings()
    levels = map_orientation.levels
    level = _level_for(view, levels, where)
    stage, spread = Stage(view, level), Spread.of(view, level.step_m)
    hypotheses = spread.all()
    patches = [stage.lay(hypotheses, *window) for window in lattice_windows(level, where)]
    sigma_m = math.hypot(settings.map_sigma_m, view.offset_sigma_m)
    blurred_patches = [blurred(patch, sigma_m) for patch in patches]
    finer = [other for other in levels if other.step_m < level.step_m]
    refined: list[Patch] = []
    if finer:
        stage = Stage(view, finer[0])
        refined = refine(patches, peaks_of(blurred_patches, settings.refined_peaks), stage, spread, sigma_m)
        # Blurred once more as a whole: an unsure tilt reaches further than what was looked at more finely.
        blurred_patches = [blurred(patch, sigma_m) for patch in patches]
    candidates = refined or blurred_patches
    peak = _best(blurred_patches, candidates, stage, view, settings, sigma_m)
    return Registration([_surface(patch) for patch in blurred_patches], peak)


def _level_for(view: View, levels: Sequence[OrientationLevel], where: Sequence[Bounds] | None) -> OrientationLevel:
    """The finest level that can be searched quickly; where none can, the coarsest that shows enough of the view."""
    enough = [level for level in levels if view.footprint_m >= TEMPLATE_PX * level.step_m] or [levels[-1]]
    quick = [level for level in enough if search_ms(view, level, where) <= QUICK_MS]
    return quick[-1] if quick else enough[0]


def search_ms(view: View, level: OrientationLevel, where: Sequence[Bounds] | None) -> float:
    """What a search costs, about: templates by their pixels, windows by theirs, all of it for every hypothesis."""
    side = view.footprint_m / level.step_m
    searched = sum((height + side) * (width + side) for _, _, height, width in lattice_windows(level, where))
    return len(Spread.of(view, level.step_m)) * (TEMPLATE_NS * side**2 + WINDOW_NS * searched) * 1e-6


def _best(
    patches: list[Patch],
    candidates: list[Patch],
    stage: Stage,
    view: View,
    settings: RegistrationSettings,
    sigma_m: float,
) -> Peak | None:
    """The best place of all, with its share of the probability."""
    candidates = [patch for patch in candidates if patch.said.any()]
    if not candidates:
        return None
    patch = max(candidates, key=lambda patch: float((patch.ratio * patch.said).max()))
    row, column = map(int, np.unravel_index(int((patch.ratio * patch.said).argmax()), patch.ratio.shape))
    log_ratio = np.log(patch.ratio)
    position = patch.position(row + vertex(log_ratio[:, column], row), column + vertex(log_ratio[row], column))
    covariance = _covariance(patch, position, settings.map_sigma_m)
    perspective = _perspective(patch, row, column, stage, view) if settings.read_tilt else None
    if perspective is not None:
        position = perspective.position
        covariance = perspective.covariance + (settings.map_sigma_m**2 + patch.level.step_m**2 / 12.0) * np.eye(2)
        for searched in patches:
            draw_together(searched, position, perspective.shift_m, covariance, TILT_SIGMAS * view.offset_sigma_m)
    inside, total, elsewhere, area = _masses(patches, position, max(PEAK_RADIUS_M, PEAK_SIGMAS * sigma_m))
    outside = settings.off_map / max(1e-9, 1.0 - settings.off_map) * area
    turns = np.array([hypothesis.turn_deg for hypothesis in patch.hypotheses])
    scales = np.log([hypothesis.scale for hypothesis in patch.hypotheses])
    turn, turn_sigma = settle(turns, patch.masses, view.heading_sigma_deg)
    scale, scale_sigma = settle(scales, patch.masses, view.scale_sigma)
    return Peak(
        position=position,
        covariance=covariance,
        log_likelihood=float(log_ratio[row, column]),
        z=float(patch.z[row, column]),
        z_max=stage.z_max,
        second_peak_ratio=elsewhere / math.exp(log_ratio[row, column]),
        heading_correction_deg=turn,
        heading_sigma_deg=turn_sigma,
        scale_correction=math.exp(scale),
        scale_sigma=scale_sigma,
        proof=inside / (total + outside),
        perspective=perspective,
    )


def _perspective(patch: Patch, row: int, column: int, stage: Stage, view: View) -> Perspective | None:
    """What the view's parts tell of its tilt, laid where it fits best near a pixel if the tilt is as stated."""
    reach = math.ceil(REFINE_RADIUS_M / patch.level.step_m)
    top, left = max(0, row - reach), max(0, column - reach)
    sharp = np.log(patch.sharp[top : row + reach + 1, left : column + reach + 1])
    down, right = map(int, np.unravel_index(int(sharp.argmax()), sharp.shape))
    place = patch.position(top + down + vertex(sharp[:, right], down), left + right + vertex(sharp[down], right))
    hypothesis = patch.hypotheses[patch.best[top + down, left + right]]
    template, deviation = stage.template(hypothesis)
    # At a score of z deviations, one deviation more is e^z times as likely.
    nats = float(patch.z[top + down, left + right]) / max(deviation, 1e-9)
    return read_tilt(view, hypothesis, template, patch.level, place, nats)


def _masses(patches: list[Patch], position: NDArray[np.float64], radius_m: float) -> tuple[float, float, float, float]:
    """Likelihood ratios summed near a position and everywhere, the largest elsewhere, and the pixels searched."""
    inside = total = elsewhere = area = 0.0
    for patch in patches:
        height, width = patch.ratio.shape
        corner = patch.position(0, 0)
        east = corner[0] + np.arange(width) * patch.level.step_m - position[0]
        north = corner[1] - np.arange(height) * patch.level.step_m - position[1]
        near = east[None] ** 2 + north[:, None] ** 2 <= radius_m**2
        inside += float(patch.ratio[near].sum())
        total += float(patch.ratio.sum())
        elsewhere = max(elsewhere, float(patch.ratio[~near].max(initial=0.0)))
        area += patch.ratio.size
    return inside, total, elsewhere, area


def _covariance(patch: Patch, position: NDArray[np.float64], map_sigma_m: float) -> NDArray[np.float64]:
    """(2, 2) spread of the likelihood around the peak, and at least what map and pixels leave unsure."""
    height, width = patch.ratio.shape
    corner, step = patch.position(0, 0), patch.level.step_m
    east = corner[0] + np.arange(width) * step - position[0]
    north = corner[1] - np.arange(height) * step - position[1]
    weights = np.where(east[None] ** 2 + north[:, None] ** 2 <= PEAK_RADIUS_M**2, patch.ratio, 0.0)
    weights /= weights.sum()
    across, along = weights.sum(axis=0) @ east**2, weights.sum(axis=1) @ north**2
    both = float(north @ weights @ east)
    # The ratios are blurred by the map's error already, but pixels may be too coarse to show it.
    within = step**2 / 12.0
    return np.array([[max(across, map_sigma_m**2) + within, both], [both, max(along, map_sigma_m**2) + within]])


def _surface(patch: Patch) -> Surface:
    level = patch.level
    west, north = level.west + patch.left * level.step_m, level.north - patch.top * level.step_m
    return Surface(west, north, level.step_m, np.log(patch.ratio).astype(np.float32))
