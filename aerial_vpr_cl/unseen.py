"""Ground that a camera did not see, and what is shown in its place.

A camera that flies north-east leaves the corners of a north-up view empty. Whatever is put there the network takes for
ground: mirrored ground has borders and shores that lie nowhere on the map, and alone made a quarter of the frames of a
difficult date be placed wrongly. So what is put there has none: the colours of what was seen nearby, run together.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

CELLS = 16
"""Colours are mixed on so many places a side."""
REACH = 1.3
"""How far colours run, in sigmas of so many of these places."""
FAR = 1e-3
"""Weight of the mean colour of all that was seen beside what was seen nearby."""


def fill_unseen(image: NDArray[np.uint8], seen: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """(H, W, 3) with colours without borders where (H, W) `seen` is false; the rest is left as it is."""
    if seen.all() or not seen.any():
        return image
    cells, flags = (CELLS, CELLS), seen.astype(np.uint8)
    colours = cv2.copyTo(image, flags).astype(np.float32)  # black where nothing was seen
    near, weight = (
        cv2.GaussianBlur(cv2.resize(values, cells, interpolation=cv2.INTER_AREA), (0, 0), REACH)
        for values in (colours, flags.astype(np.float32))
    )
    mean = np.array(cv2.mean(image, mask=flags)[:3])
    smooth = np.clip((near + FAR * mean) / (weight + FAR)[..., None], 0.0, 255.0).astype(np.uint8)
    filled = cv2.resize(smooth, image.shape[1::-1], interpolation=cv2.INTER_LINEAR)
    return np.asarray(cv2.copyTo(image, flags, filled), np.uint8)


def turn_and_zoom(
    image: NDArray[np.uint8], turn_deg: float, zoom: float = 1.0, seen: NDArray[np.bool_] | None = None
) -> NDArray[np.uint8]:
    """A square view turned against the clock about its middle, and magnified; what comes in was not seen."""
    size = len(image)
    middle = (size - 1) / 2.0
    warp = cv2.getRotationMatrix2D((middle, middle), turn_deg, zoom)
    shown = cv2.warpAffine(image, warp, (size, size), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    before = np.ones((size, size), np.uint8) if seen is None else seen.astype(np.uint8)
    after = cv2.warpAffine(before, warp, (size, size), flags=cv2.INTER_NEAREST, borderValue=0.0)
    return fill_unseen(np.asarray(shown, np.uint8), np.asarray(after > 0))


def seen_by_camera(side_px: int, width: float, height: float, turn_rad: float) -> NDArray[np.bool_]:
    """(S, S) what a level camera over the middle of a view sees of it, its sides as shares of the view's."""
    steps = (np.arange(side_px, dtype=np.float32) - (side_px - 1) / 2.0) / side_px
    east, south = np.meshgrid(steps, steps)
    across = east * float(np.cos(turn_rad)) + south * float(np.sin(turn_rad))
    along = south * float(np.cos(turn_rad)) - east * float(np.sin(turn_rad))
    return np.asarray((np.abs(across) <= width / 2.0) & (np.abs(along) <= height / 2.0))
