"""Gradient orientation: what season, sun and sensor leave alone in a picture of the ground."""

from __future__ import annotations

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

SCHARR_GAIN = 1.0 / 32.0
"""Makes a ramp of one grey level per pixel a gradient of one."""


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
    picture: NDArray[np.float32], valid: NDArray[np.bool_], step_m: float
) -> tuple[NDArray[np.complex64], NDArray[np.bool_]]:
    """The channel m·exp(2iθ) (h, w) of a smoothed picture (h, w, 3) and where it is known; 0 where it is not.

    The squared complex gradients of the three colours are added: an edge counts in whichever colour it shows, and
    dark-on-bright is the same as bright-on-dark. Then the magnitude is divided by its local mean and capped.
    """
    gx = cv2.Scharr(picture, cv2.CV_32F, 1, 0, scale=SCHARR_GAIN, borderType=cv2.BORDER_REPLICATE)
    gy = cv2.Scharr(picture, cv2.CV_32F, 0, 1, scale=SCHARR_GAIN, borderType=cv2.BORDER_REPLICATE)
    squared = _over_colours(gx * gx - gy * gy) + np.complex64(2j) * _over_colours(gx * gy)
    known = cv2.erode(valid.astype(np.uint8), np.ones((3, 3), np.uint8), borderValue=0) > 0
    power = np.abs(squared)
    magnitude = np.sqrt(power) * known
    sigma = LOCAL_MEAN_M / step_m
    mean = cv2.GaussianBlur(magnitude, (0, 0), sigma, borderType=cv2.BORDER_CONSTANT)
    share = cv2.GaussianBlur(known.astype(np.float32), (0, 0), sigma, borderType=cv2.BORDER_CONSTANT)
    strength = np.minimum(magnitude / (mean / np.maximum(share, np.float32(1e-6)) + np.float32(FLOOR)), np.float32(CAP))
    return squared * (strength / np.maximum(power, np.float32(1e-12))), known


def _over_colours(values: NDArray[np.float32]) -> NDArray[np.float32]:
    # Ten times as fast as a sum over the last axis.
    return np.asarray(cv2.transform(values, np.ones((1, 3), np.float32)), np.float32)
