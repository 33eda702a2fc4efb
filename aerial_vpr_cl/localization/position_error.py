"""What map and tilt leave unsure of a position, spread over the likelihood ratios of a search."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.localization.search import Patch

NEGLIGIBLE = 1e-6
MOST_PLACES = 256
"""Places less likely than the best by this factor, or beyond so many, are not moved one by one."""


def blurred(patch: Patch, sigma_m: float) -> Patch:
    """The patch with its ratios spread evenly."""
    sigma_px = sigma_m / patch.level.step_m
    if sigma_px < 0.3:
        return patch
    ratio = cv2.GaussianBlur(patch.ratio, (0, 0), sigma_px, borderType=cv2.BORDER_REPLICATE)
    return replace(patch, ratio=np.asarray(ratio, np.float64))


def draw_together(
    patch: Patch,
    position: NDArray[np.float64],
    shift_m: NDArray[np.float64],
    covariance: NDArray[np.float64],
    radius_m: float,
) -> None:
    """Around a position, put the sharp ratios, shifted and spread as stated (2, 2), in place of evenly blurred ones."""
    step, height, width = patch.level.step_m, *patch.ratio.shape
    corner = patch.position(0, 0)
    column, row = (position - shift_m - corner) * [1.0, -1.0] / step
    reach = radius_m / step
    rows = slice(max(0, round(row - reach)), min(height, round(row + reach) + 1))
    columns = slice(max(0, round(column - reach)), min(width, round(column + reach) + 1))
    sharp = patch.sharp[rows, columns]
    if sharp.size == 0:
        return
    likely = np.argsort(-sharp, axis=None)[:MOST_PLACES]
    likely = likely[sharp.ravel()[likely] >= NEGLIGIBLE * sharp.max()]
    grid = np.stack(np.meshgrid(np.arange(sharp.shape[1]), np.arange(sharp.shape[0])), axis=-1) * [step, -step]
    apart = grid - (grid.reshape(-1, 2)[likely] + shift_m)[:, None, None]
    far = np.einsum("nyxk,kl,nyxl->nyx", apart, np.linalg.inv(covariance), apart)
    density = np.exp(-0.5 * far) * step**2 / (2.0 * np.pi * np.sqrt(np.linalg.det(covariance)))
    drawn = np.einsum("n,nyx->yx", sharp.ravel()[likely], density)
    patch.ratio[rows, columns] = np.maximum(drawn, patch.ratio[rows, columns].min())
