"""Small pictures for the page, and how many of them: what bounds its size."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.images import encode_jpeg

MOST_PICTURES = 80
"""Frames of a flight that are shown; of a longer flight they are spread evenly."""
PICTURE_PX = 200
JPEG_QUALITY = 70


def small_jpeg(image: NDArray[np.uint8]) -> bytes:
    """A picture for the page."""
    return encode_jpeg(shrunk(image, PICTURE_PX), JPEG_QUALITY)


def shrunk(image: NDArray[np.uint8], side_px: int) -> NDArray[np.uint8]:
    """An image whose longer side has at most so many pixels."""
    scale = side_px / max(image.shape[:2])
    if scale >= 1.0:
        return image
    size = (max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale)))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
