"""A picture of what was simulated: a strip of frames."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.errors import MissionError

Picture = NDArray[np.uint8]
"""(H, W, 3) RGB."""

CAPTION_PX = 20


def frame_strip(frames: Sequence[Picture], *, count: int = 8, height_px: int = 120, caption: str = "") -> Picture:
    """A row of `count` frames, evenly spread over the mission, with a caption above."""
    if not len(frames):
        raise MissionError(f"no frames to show{' of ' + caption if caption else ''}")
    chosen = np.unique(np.linspace(0, len(frames) - 1, min(count, len(frames))).round().astype(int))
    tiles = []
    for index in chosen:
        height, width = frames[index].shape[:2]
        size = (max(1, round(width * height_px / height)), height_px)
        tile = cv2.resize(np.ascontiguousarray(frames[index]), size, interpolation=cv2.INTER_AREA)
        tiles.append(cv2.copyMakeBorder(tile, 0, 0, 0, 3, cv2.BORDER_CONSTANT, value=(255, 255, 255)))
    strip = np.hstack(tiles)
    if caption:
        strip = cv2.copyMakeBorder(strip, CAPTION_PX, 0, 0, 0, cv2.BORDER_CONSTANT, value=(255, 255, 255))
        cv2.putText(strip, caption, (4, CAPTION_PX - 6), cv2.FONT_HERSHEY_SIMPLEX, 0.42, (0, 0, 0), 1, cv2.LINE_AA)
    return np.asarray(strip, np.uint8)
