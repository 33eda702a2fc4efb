"""Other looks of the same ground: what another season, hour or sensor might make of a patch, at random."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

Image = NDArray[np.uint8]


def changed_look(image: Image, rng: np.random.Generator, elsewhere: Image | None = None) -> Image:
    """(H, W, 3) RGB with colours mixed, tones bent or inverted, shaded, filtered, blurred and noisy.

    From `elsewhere`, a patch of other ground, up to half is put in: fields and buildings that are not what they were.
    """
    shape = image.shape[:2]
    values = image.astype(np.float32)
    if elsewhere is not None:
        field = _smooth_field(shape, rng)
        gone = field < np.quantile(field, rng.uniform(0.0, 0.5))
        values[gone] = elsewhere[gone]
    values = _bend(values @ _mixing(rng), rng)
    if rng.random() < 0.5:
        values = _float32(cv2.filter2D(values, -1, _filter(rng)))
    values = values * (1.0 + np.float32(rng.uniform(0.0, 0.6)) * (_smooth_field(shape, rng)[..., None] - 0.5))
    if (sigma := rng.uniform(0.0, 1.2)) > 0.3:
        values = _float32(cv2.GaussianBlur(values, (0, 0), float(sigma)))
    contrast, middle = rng.uniform(0.4, 1.2), rng.uniform(0.3, 0.7)
    values = (values - values.mean()) * np.float32(contrast) + np.float32(middle)
    values += rng.standard_normal(values.shape, np.float32) * np.float32(rng.uniform(0.0, 0.04))
    return np.asarray((values * 255.0).clip(0.0, 255.0), np.uint8)


def _mixing(rng: np.random.Generator) -> NDArray[np.float32]:
    """(3, 3) new colours from old ones, some negative; half the time the same one three times: a grey sensor."""
    weights = rng.normal(0.0, 1.0, (3, 3)) * 0.6 + (rng.random() < 0.5) * np.eye(3)
    if rng.random() < 0.5:
        weights[:] = weights[:, :1]
    return (weights / np.maximum(np.abs(weights).sum(axis=0), 1e-3)).astype(np.float32)


def _bend(values: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """A random smooth tone curve, half the time one that rises and falls; sometimes inverted."""
    knots = np.sort(rng.random(5)) if rng.random() < 0.5 else rng.random(5)
    low, high = float(values.min()), float(values.max())
    bent = np.interp((values - low) / max(high - low, 1e-3), np.linspace(0.0, 1.0, 5), knots)
    return _float32(1.0 - bent if rng.random() < 0.3 else bent)


def _filter(rng: np.random.Generator) -> NDArray[np.float32]:
    """A random 3 × 3 filter around the identity."""
    kernel = rng.normal(0.0, 0.15, (3, 3))
    kernel[1, 1] += 1.0
    return (kernel / max(abs(float(kernel.sum())), 0.3)).astype(np.float32)


def _smooth_field(shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.float32]:
    """Smooth random values, about 0 to 1."""
    coarse = rng.random((int(rng.integers(3, 9)),) * 2).astype(np.float32)
    return _float32(cv2.resize(coarse, (shape[1], shape[0]), interpolation=cv2.INTER_CUBIC))


def _float32(values: ArrayLike) -> NDArray[np.float32]:
    return np.asarray(values, np.float32)
