"""Laying a template on a window of the map at every shift, by FFT, with the deviation that chance alone would give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from aerial_vpr_cl.localization.map_orientation import Channel, OrientationLevel
from aerial_vpr_cl.localization.template import Template

REMEMBERED = 4
REMEMBERED_PX = 200_000
"""Transformed windows that are kept, and from which size: 20 MB each at the most."""

WORTH_SHARING = 2.0
"""How much larger than needed a transform may be if the templates have theirs at that size already."""


@dataclass(frozen=True, eq=False)
class Window:
    """A window of the map, Fourier transformed once for all templates that are laid on it."""

    size: tuple[int, int]  # of the transform
    planes: NDArray[np.complex64]  # (2, h, w // 2 + 1)
    known: NDArray[np.complex64] | None  # of the mask; None where the whole window is known

    @classmethod
    def at(
        cls, level: OrientationLevel, top: int, left: int, height: int, width: int, size: tuple[int, int] = (0, 0)
    ) -> Window:
        """A window of a level; large ones are remembered, as a whole map is searched again and again."""
        size = size_for(height, width, size)
        key = (top, left, height, width, *size)
        window: Window | None = level.transforms.pop(key, None)
        if window is None:
            window = cls.of(level.window(top, left, height, width), size)
        if height * width >= REMEMBERED_PX:
            level.transforms[key] = window
            while len(level.transforms) > REMEMBERED:
                level.transforms.popitem(last=False)
        return window

    @classmethod
    def of(cls, channel: Channel, size: tuple[int, int] = (0, 0)) -> Window:
        """Transform a window, at this size if it suits; what wraps around falls outside the shifts asked for."""
        height, width = channel.known.shape
        size = size_for(height, width, size)
        known = None
        if not channel.known.all():
            known = scipy.fft.rfft2(channel.known.astype(np.float32), size)
        return cls(size, scipy.fft.rfft2(channel.planes, size), known)

    def scores(self, template: Template, rows: slice = slice(None)) -> NDArray[np.float32]:
        """Re Σ conj(T(x)) M(x + p) for shifts p of the template's corner, in these rows; only those inside count."""
        cos, sin = template.spectrum(self.size)
        product = cos * self.planes[0]
        product += sin * self.planes[1]
        asked = scipy.fft.ifft(product, axis=0, overwrite_x=True)[rows]
        return scipy.fft.irfft(asked, self.size[1], axis=1)

    def known_share(self, template: Template) -> NDArray[np.float32] | None:
        """Share of the template's energy that falls on known ground, for every shift; None: all of it everywhere."""
        if self.known is None:
            return None
        energy = (template.planes**2).sum(axis=0)
        spectrum = np.conj(scipy.fft.rfft2(energy, self.size)) * self.known
        return (scipy.fft.irfft2(spectrum, self.size) / max(template.energy, 1e-9)).clip(0.0, 1.0)


def size_for(height: int, width: int, given: tuple[int, int]) -> tuple[int, int]:
    """Size at which to transform a window: the given one if it is not much too large, else the window's own."""
    own = (scipy.fft.next_fast_len(height, real=True), scipy.fft.next_fast_len(width, real=True))
    suits = given[0] >= height and given[1] >= width and given[0] * given[1] <= WORTH_SHARING * own[0] * own[1]
    return given if suits else own


def null_sigma(template: Template, level: OrientationLevel) -> float:
    """Standard deviation of the template's score on unrelated ground of this map, from the power spectra of both."""
    lags = (level.covariance.shape[1] - 1) // 2
    size = scipy.fft.next_fast_len(max(template.planes.shape[1:]) + lags, real=True)
    size += size % 2  # so that every column but the first and the last stands for two
    cos, sin = scipy.fft.rfft2(template.planes, (size, size))
    cc, ss, cs = level.spectra(size)
    power = np.abs(cos) ** 2 * cc.real + np.abs(sin) ** 2 * ss.real + 2.0 * (cos * np.conj(sin) * cs).real
    power[:, 1:-1] *= 2.0
    return float(np.sqrt(max(power.sum(dtype=np.float64), 0.0)) / size)
