"""Which view of a frame is laid on the map: how much ground, and whether enough is known of it."""

from __future__ import annotations

import math
from dataclasses import replace

from aerial_vpr_cl.localization.view import View, ViewSettings
from aerial_vpr_cl.mission.situation import Situation

LARGEST_VIEW_M, VIEW_STEP_M = 720.0, 40.0
"""What is laid on the map is all that the camera sees, up to this side; in steps, so that sizes stay the same."""
LITTLE = 0.8
"""Share of the usual view below which a camera sees so little that a smaller view shows it better."""
SMALLEST_VIEW_M = 80.0
COARSEST_PX_M = 2.5
KNOWN_SCALE = 0.25
"""Relative sigma of a height from which on nobody knows how much the camera sees."""
BLIND_HEADING_DEG, BLIND_SCALE = 60.0, 0.2
"""With heading and scale both less sure than this a view is not laid on the map: any ground would fit somehow."""


def is_blind(view: View) -> bool:
    """Whether so little is known of a view that it could be laid on the map in thousands of ways."""
    return view.heading_sigma_deg >= BLIND_HEADING_DEG and view.scale_sigma >= BLIND_SCALE


def views_for(known: Situation, usual: ViewSettings) -> ViewSettings:
    """Views as large as what the camera sees: the more ground, the fewer places it fits.

    Smaller than `usual` only where the camera sees much less: a view that is mostly unseen would be laid on the map
    more coarsely than it was seen.
    """
    camera, height_m = known.camera, known.height_m
    if camera is None or height_m is None or known.height_sigma_m > KNOWN_SCALE * height_m:
        return usual
    seen_m = height_m * max(camera.width_px / camera.fx, camera.height_px / camera.fy)
    if seen_m < LITTLE * usual.footprint_m:
        return replace(usual, footprint_m=max(math.ceil(seen_m / VIEW_STEP_M) * VIEW_STEP_M, SMALLEST_VIEW_M))
    footprint_m = min(seen_m // VIEW_STEP_M * VIEW_STEP_M, LARGEST_VIEW_M)
    if footprint_m <= usual.footprint_m:
        return usual
    return replace(usual, footprint_m=footprint_m, size_px=max(usual.size_px, round(footprint_m / COARSEST_PX_M)))
