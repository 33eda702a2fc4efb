"""Smooth random fields: the raw material of every natural texture here."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray


def smooth_noise(
    shape: tuple[int, int], scale_px: float, rng: np.random.Generator, *, octaves: int = 1
) -> NDArray[np.float32]:
    """(H, W) noise of zero mean and about unit deviation; `scale_px` is the size of its largest features.

    Each octave halves the feature size and the amplitude.
    """
    height, width = shape
    total = np.zeros(shape, np.float32)
    amplitude, power = 1.0, 0.0
    for _ in range(octaves):
        step = max(scale_px, 1.0)
        rows, columns = int(np.ceil(height / step)) + 3, int(np.ceil(width / step)) + 3
        lattice = rng.standard_normal((rows, columns)).astype(np.float32)
        if step > 1.0:
            offset_x, offset_y = rng.uniform(0.5, 1.5, 2)
            # Sample the lattice at 1/step per pixel from a random offset, so that octaves never line up.
            sampling = np.array([[1.0 / step, 0.0, offset_x], [0.0, 1.0 / step, offset_y]])
            flags = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
            sampled = cv2.warpAffine(lattice, sampling, (width, height), flags=flags, borderMode=cv2.BORDER_REFLECT)
            lattice = np.asarray(sampled, np.float32)
        total += amplitude * lattice[:height, :width]
        power += amplitude**2
        amplitude, scale_px = amplitude / 2.0, scale_px / 2.0
    # Interpolation between lattice points takes away about a third of the deviation.
    return total / np.float32(np.sqrt(power) * (0.7 if step > 1.0 else 1.0))


def smooth_series(count: int, scale: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """(count,) wandering values of zero mean and about unit deviation, for drifts along a flight."""
    return smooth_noise((1, count), scale, rng)[0].astype(np.float64)
