"""What a camera sees of the drone itself: landing gear, a guard, text that is laid over the picture.

Over fog, water or snow it is all the structure there is. It would be laid on the map as ground, and fit the same wrong
place from frame to frame.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

SIDE_PX, SHADE_PX = 128, 4.0
"""Side of the picture that is looked at, and sigma beyond which tones are shades: so fine that ground moves on."""
FAR = 0.05
"""Share of the footprint after which two pictures are compared."""
STRONG, ALIKE = 3.0, 0.3
"""Structure is what is so many medians from its surroundings; the same if it differs by no more than this share."""
MARGIN_PX = 2
CLEAR = 0.3
"""Share of all structure that stayed from which on one comparison is enough; else it has to stay twice."""
STANDING = 0.5
"""Correlation of all the rest from which on the whole picture stood still: then odometry is wrong, or the camera."""


class OwnStructure:
    """Compares pictures between which the drone moved on: what stayed in its place goes with the drone."""

    def __init__(self, footprint_m: float) -> None:
        self._far_m = FAR * footprint_m
        self.reset()

    def reset(self) -> None:
        """Know of no picture."""
        self.hidden: NDArray[np.bool_] | None = None  # (SIDE_PX, SIDE_PX) of the image, whatever its size and shape
        self._sharp: NDArray[np.float32] | None = None
        self._stayed: NDArray[np.bool_] | None = None  # from the picture before the last to the last
        self._moved = np.zeros(2)

    def look(self, image: NDArray[np.uint8], displacement: NDArray[np.float64] | None) -> None:
        """One more image; the drone went so far (2,) since the one before. None: nobody knows."""
        if displacement is None:
            self.reset()
            return
        self._moved = self._moved + displacement
        if self._sharp is not None and float(np.hypot(*self._moved)) < self._far_m:
            return
        before, now = self._sharp, _sharp(image)
        self._sharp, self._moved = now, np.zeros(2)
        if before is not None:
            stayed, share = _stayed(before, now)
            again = _around(self._stayed) if self._stayed is not None else np.zeros_like(stayed)
            hidden = _around(stayed if share >= CLEAR else stayed & again)
            self._stayed = stayed
            self.hidden = hidden if hidden.any() and _alike(before[~hidden], now[~hidden]) < STANDING else None


def _stayed(before: NDArray[np.float32], now: NDArray[np.float32]) -> tuple[NDArray[np.bool_], float]:
    """Where two pictures show the same structure, and which share of the structure that is."""
    first, second = np.abs(before), np.abs(now)
    is_strong = second > STRONG * np.median(second)
    same = is_strong & (first > STRONG * np.median(first)) & (np.abs(before - now) < ALIKE * np.maximum(first, second))
    # Single pixels are chance; what is fixed to a camera has an extent.
    kept = cv2.morphologyEx(same.astype(np.uint8), cv2.MORPH_OPEN, np.ones((2, 2), np.uint8)) > 0
    return np.asarray(kept, np.bool_), float(kept.sum()) / max(1.0, float(is_strong.sum()))


def _around(area: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """An area and a little around it."""
    kernel = np.ones((2 * MARGIN_PX + 1, 2 * MARGIN_PX + 1), np.uint8)
    return np.asarray(cv2.dilate(area.astype(np.uint8), kernel) > 0, np.bool_)


def _alike(before: NDArray[np.float32], now: NDArray[np.float32]) -> float:
    """Correlation of two pictures."""
    return float(before @ now) / max(float(np.linalg.norm(before) * np.linalg.norm(now)), 1e-6)


def _sharp(image: NDArray[np.uint8]) -> NDArray[np.float32]:
    """A small picture without colour and shades."""
    rows, columns = (max(1, side // (2 * SIDE_PX)) for side in image.shape[:2])  # every pixel would take 5 ms at 1080p
    lattice = np.ascontiguousarray(image[::rows, ::columns])
    small = cv2.resize(lattice, (SIDE_PX, SIDE_PX), interpolation=cv2.INTER_AREA)
    grey = cv2.cvtColor(small, cv2.COLOR_RGB2GRAY).astype(np.float32)
    return np.asarray(grey - cv2.GaussianBlur(grey, (0, 0), SHADE_PX), np.float32)
