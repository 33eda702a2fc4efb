"""How far the ground went on between two views, by what they show: for drones whose odometry does not tell."""

from __future__ import annotations

import functools

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.localization.view import View

SIDE_PX = 64
"""Coarse enough that heading, height and tilt, which err from view to view, leave the ground alike."""
SHADE_PX = 8.0
"""Sigma beyond which tones are shades of the camera, not of the ground."""
ALIKE = 0.4
"""Correlation of two pictures from which on they show the same ground: other ground has 0.3 at most."""


def way_between_m(before: View, now: View) -> NDArray[np.float64] | None:
    """(2,) metres east and north between what two views show; None if less than half of one is in the other, too."""
    side_m = min(before.footprint_m, now.footprint_m)
    first, second = _thumb(before, side_m), _thumb(now, side_m)
    (east_px, south_px), _ = cv2.phaseCorrelate(first, second, _window())
    right, down = round(east_px), round(south_px)
    if max(abs(right), abs(down)) > SIDE_PX // 2:
        return None
    ours, theirs = _overlap(second, right, down), _overlap(first, -right, -down)
    spread = float(np.sqrt((ours * ours).sum() * (theirs * theirs).sum()))
    if spread <= 0.0 or float((ours * theirs).sum()) < ALIKE * spread:
        return None
    return np.array([-east_px, south_px]) * side_m / SIDE_PX  # the ground goes west as the drone goes east


def _thumb(view: View, side_m: float) -> NDArray[np.float32]:
    """The middle of a view, small, without colour and shades."""
    cut = round((len(view.image) - side_m / view.metres_per_px) / 2.0)
    middle = view.image[cut : len(view.image) - cut, cut : len(view.image) - cut]
    grey = cv2.cvtColor(np.ascontiguousarray(middle), cv2.COLOR_RGB2GRAY)
    small = cv2.resize(grey, (SIDE_PX, SIDE_PX), interpolation=cv2.INTER_AREA).astype(np.float32)
    return np.asarray(small - cv2.GaussianBlur(small, (0, 0), SHADE_PX), np.float32)


def _overlap(picture: NDArray[np.float32], right: int, down: int) -> NDArray[np.float32]:
    """What is left of a picture that shows the ground of another one so many pixels further right and down."""
    rows = slice(max(0, down), SIDE_PX + min(0, down))
    columns = slice(max(0, right), SIDE_PX + min(0, right))
    part = picture[rows, columns]
    return part - part.mean()


@functools.cache
def _window() -> NDArray[np.float32]:
    return np.asarray(cv2.createHanningWindow((SIDE_PX, SIDE_PX), cv2.CV_32F), np.float32)
