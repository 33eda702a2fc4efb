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

PLENTY_PX = 3.0
"""Pixels of a view to one of the channel above which straight lines between them do not blur it."""


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
        return float(np.vdot(self.planes, self.planes))

    @cached_property
    def _spectra(self) -> dict[tuple[int, int], NDArray[np.complex64]]:
        return {}

    def spectrum(self, size: tuple[int, int]) -> NDArray[np.complex64]:
        """(2, h, w // 2 + 1) conjugate transform at this size; the last one is kept."""
        if size not in self._spectra:
            self._spectra.clear()
            # Row by row, then column by column: rows below the template are zero and need no transform.
            rows = scipy.fft.rfft(self.planes, size[1], axis=2)
            spectrum = scipy.fft.fft(rows, size[0], axis=1)
            self._spectra[size] = np.conjugate(spectrum, out=spectrum)
        return self._spectra[size]


class TemplateMaker:
    """Makes the templates of one view at one pixel size; the view's channel is made once, then turned and grown."""

    def __init__(self, view: View, step_m: float) -> None:
        self.view = view
        self.step_m = step_m
        pixels = step_m / view.metres_per_px
        sigma = math.sqrt(max(0.0, (BLUR_PX**2 + BOX_SIGMA**2) * pixels**2 - BOX_SIGMA**2))
        picture = smooth(view.image, view.mask, sigma)
        channel, _ = orientation(picture, view.mask, max(step_m, view.metres_per_px), max(1.0, pixels))
        self._channel = channel.view(np.float32).reshape(*channel.shape, 2)
        self._between = cv2.INTER_LINEAR if pixels >= PLENTY_PX else cv2.INTER_CUBIC

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
        flags = self._between | cv2.WARP_INVERSE_MAP
        moved = cv2.warpAffine(self._channel, to_view, (side, side), flags=flags, borderMode=cv2.BORDER_CONSTANT)
        # The angles turn with the places, and are doubled.
        cos, sin = math.cos(2.0 * turn), math.sin(2.0 * turn)
        planes = np.array([[cos, -sin], [sin, cos]], np.float32) @ np.asarray(moved, np.float32).reshape(-1, 2).T
        return Template(planes.reshape(2, side, side), top, left)
