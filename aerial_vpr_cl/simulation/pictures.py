"""Pictures of what was simulated: a strip of frames, and tracks over the map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


def draw_tracks(
    picture: Picture, bounds: tuple[float, float, float, float], tracks: Mapping[str, NDArray[np.float64]]
) -> Picture:
    """A copy of a north-up picture of `bounds` (west, south, east, north) with named (n, 2) tracks over it."""
    west, south, east, north = bounds
    height, width = picture.shape[:2]
    drawn = picture.copy()
    for number, (name, positions) in enumerate(tracks.items()):
        hue = np.array([[[round(number * 180 / max(len(tracks), 1)), 230, 255]]], np.uint8)
        red, green, blue = (int(value) for value in cv2.cvtColor(hue, cv2.COLOR_HSV2RGB)[0, 0])
        x = (positions[:, 0] - west) / (east - west) * width
        y = (north - positions[:, 1]) / (north - south) * height
        line = np.stack([x, y], axis=1).round().astype(np.int32)
        cv2.polylines(drawn, [line], False, (0, 0, 0), 4, cv2.LINE_AA)
        cv2.polylines(drawn, [line], False, (red, green, blue), 2, cv2.LINE_AA)
        for colour, thickness in (((0, 0, 0), 3), ((255, 255, 255), 1)):
            start = (int(line[0, 0]) + 4, int(line[0, 1]) - 4)
            cv2.putText(drawn, name, start, cv2.FONT_HERSHEY_SIMPLEX, 0.4, colour, thickness, cv2.LINE_AA)
    return drawn
