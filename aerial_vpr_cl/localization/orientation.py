"""Gradient orientation: what season, sun and sensor leave alone in a picture of the ground."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

BLUR_PX = 0.8
"""Blur of every picture before its gradients are taken, in pixels of the channel: it fixes what a pixel stands for."""

LOCAL_MEAN_M = 30.0
"""Sigma of the neighbourhood by whose mean a gradient is divided: faint fields count like bright roads."""

CAP = 1.25
"""Gradients above this many times their neighbourhood's mean count no more."""

FLOOR = 0.3
"""Gradient in grey levels per pixel that is noise: added to the mean, so that nothing is not blown up."""


def smooth(image: NDArray[np.generic], valid: NDArray[np.bool_], sigma_px: float) -> NDArray[np.float32]:
    """Gaussian blur (h, w, 3) over the valid pixels alone: what is beyond the mask's edge makes no gradient."""
    picture = np.asarray(image, np.float32)
    if sigma_px <= 0.0:
        return picture
    if valid.all():
        return np.asarray(cv2.GaussianBlur(picture, (0, 0), sigma_px, borderType=cv2.BORDER_REPLICATE))
    share = valid.astype(np.float32)
    total = cv2.GaussianBlur(picture * share[..., None], (0, 0), sigma_px, borderType=cv2.BORDER_REPLICATE)
    weight = cv2.GaussianBlur(share, (0, 0), sigma_px, borderType=cv2.BORDER_REPLICATE)
    return np.asarray(total / np.maximum(weight, np.float32(1e-6))[..., None], np.float32)


def orientation(
    picture: NDArray[np.float32], valid: NDArray[np.bool_], step_m: float, step_px: float = 1.0
) -> tuple[NDArray[np.complex64], NDArray[np.bool_]]:
    """The channel m·exp(2iθ) (h, w) of a smoothed picture (h, w, 3) and where it is known; 0 where it is not.

    The squared complex gradients of the three colours are added: an edge counts in whichever colour it shows, and
    dark-on-bright is the same as bright-on-dark. Then the magnitude is divided by its local mean and capped.
    A picture that is finer than the channel has `step_px` pixels to a step; so has what comes back.
    """
    along, across = _stencil(step_px)  # Scharr's: gradients of any direction come out the same
    gx = cv2.sepFilter2D(picture, cv2.CV_32F, along, across, borderType=cv2.BORDER_REPLICATE)
    gy = cv2.sepFilter2D(picture, cv2.CV_32F, across, along, borderType=cv2.BORDER_REPLICATE)
    squared = _over_colours(gx * gx - gy * gy) + np.complex64(2j) * _over_colours(gx * gy)
    reach = np.ones((len(along), len(along)), np.uint8)
    known = cv2.erode(valid.astype(np.uint8), reach, borderValue=0) > 0
    power = np.abs(squared)
    magnitude = np.sqrt(power) * known
    mean = _local_mean(magnitude, known, LOCAL_MEAN_M / step_m, step_px)
    strength = np.minimum(magnitude / (mean + np.float32(FLOOR)), np.float32(CAP))
    return squared * (strength / np.maximum(power, np.float32(1e-12))), known


def _stencil(step_px: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Kernels along and across a gradient per step; its ends are a step away, if need be between two pixels."""
    reach = math.ceil(step_px)
    end = np.zeros((2 * reach + 1, 1), np.float32)
    end[-2:, 0] = reach - step_px, step_px - reach + 1.0
    middle = np.zeros_like(end)
    middle[reach] = 1.0
    start = end[::-1]
    along, across = (end - start) / 2.0, (3.0 * start + 10.0 * middle + 3.0 * end) / 16.0
    return along.astype(np.float32), across.astype(np.float32)


def _local_mean(
    magnitude: NDArray[np.float32], known: NDArray[np.bool_], sigma: float, step_px: float
) -> NDArray[np.float32]:
    """Mean over the known neighbourhood, sigma in steps."""
    height, width = magnitude.shape
    both = cv2.merge([magnitude, known.astype(np.float32)])
    if step_px > 1.0:  # pixels of a step are fine enough, and many times as quick
        size = (max(1, round(width / step_px)), max(1, round(height / step_px)))
        both = cv2.resize(both, size, interpolation=cv2.INTER_AREA)
    total, share = cv2.split(cv2.GaussianBlur(both, (0, 0), sigma, borderType=cv2.BORDER_CONSTANT))
    mean = total / np.maximum(share, np.float32(1e-6))
    return np.asarray(cv2.resize(mean, (width, height), interpolation=cv2.INTER_LINEAR), np.float32)


def _over_colours(values: NDArray[np.float32]) -> NDArray[np.float32]:
    # Ten times as fast as a sum over the last axis.
    return np.asarray(cv2.transform(values, np.ones((1, 3), np.float32)), np.float32)
