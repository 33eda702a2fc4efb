"""The view's side of registration: its orientation channel at the map's pixel size, turned and grown as supposed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
import scipy.fft
from numpy.typing import NDArray

from aerial_vpr_cl.localization.orientation import BLUR_PX, orientation, smooth
from aerial_vpr_cl.localization.view import View

BOX_SIGMA = 12.0**-0.5
"""Standard deviation of a pixel, as a blur, in pixels."""


@dataclass(frozen=True)
class Hypothesis:
    """What is supposed of a view: its turn and scale, and how likely that is before looking."""

    turn_deg: float = 0.0  # true heading minus the one the view was made with, clockwise
    scale: float = 1.0  # true metres per pixel ÷ the view's
    weight: float = 1.0


@dataclass(frozen=True, eq=False)
class Template:
    """A view's channel on the lattice of the map, and where it lies as seen from the drone."""

    planes: NDArray[np.float32]  # (2, h, w) cos 2θ and sin 2θ times the magnitude; 0 where nothing was seen
    top: int  # rows from the drone's pixel down to the first row
    left: int  # columns from the drone's pixel right to the first column

    @cached_property
    def energy(self) -> float:
        """Σ|T|²: the score on ground that looks exactly the same."""
        return float((self.planes.astype(np.float64) ** 2).sum())

    @cached_property
    def _spectra(self) -> dict[tuple[int, int], NDArray[np.complex64]]:
        return {}

    def spectrum(self, size: tuple[int, int]) -> NDArray[np.complex64]:
        """(2, h, w // 2 + 1) conjugate transform at this size; the last one is kept."""
        if size not in self._spectra:
            self._spectra.clear()
            spectrum = scipy.fft.rfft2(self.planes, size)
            self._spectra[size] = np.conjugate(spectrum, out=spectrum)
        return self._spectra[size]


class TemplateMaker:
    """Makes the templates of one view at one pixel size; the view is smoothed once."""

    def __init__(self, view: View, step_m: float) -> None:
        self.view = view
        self.step_m = step_m
        pixels = step_m / view.metres_per_px
        sigma = math.sqrt(max(0.0, (BLUR_PX**2 + BOX_SIGMA**2) * pixels**2 - BOX_SIGMA**2))
        self._picture = smooth(view.image, view.mask, sigma)
        self._seen = view.mask.astype(np.float32)

    def make(self, hypothesis: Hypothesis) -> Template:
        """The template of a hypothesis. What was seen at bearing b lies at b + turn, `scale` times as far."""
        view, step = self.view, self.step_m
        turn = math.radians(hypothesis.turn_deg)
        cos, sin = math.cos(turn), math.sin(turn)
        east, north = view.offset_m * hypothesis.scale
        middle_column = round((east * cos + north * sin) / step)
        middle_row = -round((north * cos - east * sin) / step)
        reach = math.ceil(view.footprint_m / 2.0 * hypothesis.scale * (abs(cos) + abs(sin)) / step)
        top, left, side = middle_row - reach, middle_column - reach, 2 * reach + 1
        # Pixel (j, i) of the template lies (left + j)·step east and −(top + i)·step north of the drone; turned back and
        # shrunk that is a place in the view.
        per_px = step / (hypothesis.scale * view.metres_per_px)
        to_view = np.array([[cos * per_px, sin * per_px, 0.0], [-sin * per_px, cos * per_px, 0.0]])
        corner = to_view[:, :2] @ [left, top]
        centre = (len(view.mask) - 1) / 2.0
        offset_px = view.offset_m / view.metres_per_px
        to_view[:, 2] = corner + np.array([centre - offset_px[0], centre + offset_px[1]])
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        picture = cv2.warpAffine(self._picture, to_view, (side, side), flags=flags, borderMode=cv2.BORDER_REPLICATE)
        seen = cv2.warpAffine(self._seen, to_view, (side, side), flags=flags, borderMode=cv2.BORDER_CONSTANT)
        channel, _ = orientation(np.asarray(picture, np.float32), seen > 0.99, step)
        return Template(np.stack([channel.real, channel.imag]), top, left)
