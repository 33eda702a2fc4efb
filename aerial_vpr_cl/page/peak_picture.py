"""A picture of a registration: how well a view fits at every place where it was laid on the map."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.localization.registration import Registration

SHOWN_NATS = 10.0
"""Places less likely than the best by more than this (natural logarithm) are drawn dark."""
LEAST_NATS = 5.0
"""A best place with less than this does not stand out: everything around is nearly as bright."""
NOT_SEARCHED = (225, 229, 234)
RING = (255, 255, 255)


def peak_picture(registration: Registration, side_px: int) -> tuple[NDArray[np.uint8], float]:
    """(side, side, 3) RGB, north up, of all that was searched, dark to bright, and the metres across it.

    Bright are places that are about as likely as the best one, which is in the ring.
    """
    surfaces = registration.surfaces
    heights, widths = zip(*(surface.log_likelihood.shape for surface in surfaces))
    west = min(surface.west for surface in surfaces)
    north = max(surface.north for surface in surfaces)
    east = max(surface.west + width * surface.step_m for surface, width in zip(surfaces, widths))
    south = min(surface.north - height * surface.step_m for surface, height in zip(surfaces, heights))
    across_m = max(east - west, north - south)
    west, north = (west + east - across_m) / 2.0, (south + north + across_m) / 2.0
    px_m = across_m / side_px
    most = max(LEAST_NATS, max(float(surface.log_likelihood.max()) for surface in surfaces))
    picture = np.full((side_px, side_px, 3), NOT_SEARCHED, np.uint8)
    for surface in surfaces:
        # Of many places under one pixel the best one shows.
        reach = max(1, math.ceil(px_m / surface.step_m))
        best = cv2.dilate(surface.log_likelihood, np.ones((reach, reach), np.uint8))
        height, width = best.shape
        left, top = round((surface.west - west) / px_m), round((north - surface.north) / px_m)
        size = max(1, round(width * surface.step_m / px_m)), max(1, round(height * surface.step_m / px_m))
        shades = np.rint(255.0 * np.clip(1.0 + (best - most) / SHOWN_NATS, 0.0, 1.0)).astype(np.uint8)
        colours = cv2.applyColorMap(cv2.resize(shades, size, interpolation=cv2.INTER_NEAREST), cv2.COLORMAP_VIRIDIS)
        room = picture[top : top + size[1], left : left + size[0]]
        room[:] = cv2.cvtColor(colours, cv2.COLOR_BGR2RGB)[: room.shape[0], : room.shape[1]]
    if registration.peak is not None:
        column, row = (registration.peak.position - [west, north]) / [px_m, -px_m]
        cv2.circle(picture, (round(float(column)), round(float(row))), max(4, side_px // 20), RING, 1, cv2.LINE_AA)
    return picture, across_m
