"""Random views of an image: the paper's random resized crop and, where a recipe asks for it, another look.

A look is what season, sun and sensor change while the ground stays: brightness, colours, which surfaces are bright.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.unseen import fill_unseen, seen_by_camera, turn_and_zoom

Image = NDArray[np.uint8]
Pixels = NDArray[np.float32]

TONE_SEGMENTS = 5
SHADES = 4
"""Shading is drawn at so many places a side and is smooth between them."""
KERNEL_PX = (3, 5)
BORDERS = 4
"""Most borders between fields that are laid over a view."""
BANDS = 2
"""Most bands along the borders of surfaces, as water leaves them that rose or fell."""
BAND_REACH = 1 / 16
"""Widest of them, as a share of the view's side."""
SHARP = 0.0025
"""Blur below this, as a share of the view's side, changes nothing."""
CAMERA_SIDE = (0.8, 1.5)
"""How much of a view cameras see, as the root of the area on the ground, in sides of the view."""
CAMERA_ASPECT = (1.0, 16 / 9)


@dataclass(frozen=True)
class Augmentation:
    """What a random view may change. Shares and factors; zero switches a change off."""

    crop_area: tuple[float, float] = (0.66, 1.0)  # share of the image's area (paper, section 5.1.3)
    crop_aspect: tuple[float, float] = (3 / 4, 4 / 3)
    turn_sigma_deg: float = 0.0  # of a small turn about the middle, as an unsure heading makes it
    zoom_sigma: float = 0.0  # of the logarithm of a small change of scale
    unseen: float = 0.0  # probability that a satellite view lacks what a camera of any heading would not see
    bands: float = 0.0  # probability of each band along borders of surfaces: shores and field edges that moved
    softness: float = 0.0  # largest blur, as a share of the view's side: cameras are softer than maps
    noise: float = 0.0  # largest deviation of a sensor's noise, in grey levels
    mixing: float = 0.0  # largest share of a random mixture of all channels in each
    signed: float = 0.0  # probability that channels are differences of each other as well as sums
    texture: float = 0.0  # largest weight of random neighbours beside the pixel itself (random convolution)
    colour: float = 0.0  # factor of each channel within 1 ± colour
    grey: float = 0.0  # probability that the view loses its colour
    tone: float = 0.0  # bend of a random tone curve: deviation of the logarithm of its slopes
    fold: float = 0.0  # probability that the tone curve goes up and down, as crops and seasons change places
    patchwork: float = 0.0  # largest deviation of the brightness of fields that the map does not have
    invert: float = 0.0  # probability that bright and dark change places, as they often do in infrared
    shading: float = 0.0  # smooth change of brightness over the view: largest deviation of its logarithm
    contrast: float = 0.0  # factor within 1 ± contrast
    brightness: float = 0.0  # added, as a share of full scale, within ±

    @property
    def changes_look(self) -> bool:
        """Whether more than the crop is random."""
        looks = (self.mixing, self.signed, self.texture, self.colour, self.grey, self.tone, self.fold, self.patchwork)
        camera = (self.softness, self.noise, self.shading, self.contrast, self.brightness)
        return any((*looks, *camera, self.bands, self.invert))

    def uncropped(self) -> Augmentation:
        """The same of whole images."""
        return replace(self, crop_area=(1.0, 1.0), crop_aspect=(1.0, 1.0))


PAPER = Augmentation()
PHOTOMETRIC = Augmentation(brightness=0.2, contrast=0.5, colour=0.3, grey=0.3)
STYLE = Augmentation(
    bands=0.3,
    softness=0.01,
    noise=3.0,
    mixing=1.0,
    signed=0.5,
    texture=1.5,
    colour=0.3,
    grey=0.3,
    tone=0.7,
    fold=0.5,
    patchwork=0.15,
    invert=0.25,
    shading=0.3,
    contrast=0.5,
    brightness=0.1,
)
AUGMENTATIONS = {"crop": PAPER, "photometric": PHOTOMETRIC, "style": STYLE}
"""By the names that settings use."""


def augment(image: Image, size_px: int, rng: np.random.Generator, how: Augmentation, *, turn: bool = False) -> Image:
    """A random view of (H, W, 3) as (size, size, 3). `turn` adds quarter turns, for the satellite side."""
    if turn:
        image = np.rot90(image, int(rng.integers(4)))
    if how.turn_sigma_deg or how.zoom_sigma:
        angle, zoom = rng.normal(scale=how.turn_sigma_deg), np.exp(rng.normal(scale=how.zoom_sigma))
        image = turn_and_zoom(resize(image, size_px), float(angle), float(zoom))
    view = resize(random_crop(image, rng, how), size_px)
    if how.changes_look:
        view = change_look(view, rng, how)
    return by_turned_camera(view, rng) if how.unseen and rng.random() < how.unseen else view


def by_turned_camera(view: Image, rng: np.random.Generator) -> Image:
    """A satellite view with what a camera of random heading, height and shape would see of it."""
    side = float(np.exp(rng.uniform(*np.log(CAMERA_SIDE))))
    stretch = float(np.sqrt(rng.uniform(*CAMERA_ASPECT)))
    seen = seen_by_camera(len(view), side * stretch, side / stretch, float(rng.uniform(0, 2 * np.pi)))
    return fill_unseen(view, seen)


def change_look(view: Image, rng: np.random.Generator, how: Augmentation) -> Image:
    """The same ground in another season, light or sensor. What comes after the channels treats grey ones alike."""
    channels = random_channels(rng, how)
    values = through_camera(move_borders(view.astype(np.float32), rng, how.bands), rng, how)
    if how.mixing or how.colour or how.grey:
        values = np.asarray(cv2.transform(values, channels), np.float32)
    if how.signed:
        values = as_bright_as(view, values)
    values = convolve(values, rng, how.texture)
    alike = bool((channels == channels[0]).all())
    if how.fold and rng.random() < how.fold:
        values = fold_tones(values, rng, alike=alike)
    else:
        values = bend_tones(values, rng, how.tone, alike=alike)
    values = lay_fields(values, rng, how.patchwork)
    factor = rng.uniform(1 - how.contrast, 1 + how.contrast) * (-1 if rng.random() < how.invert else 1)
    mean = float(values.mean())
    middle = mean if factor > 0 else 255.0 - mean
    values = shade((values - mean) * factor + middle, rng, how.shading)
    values += 255.0 * rng.uniform(-how.brightness, how.brightness)
    return np.clip(values, 0.0, 255.0).astype(np.uint8)


def move_borders(values: Pixels, rng: np.random.Generator, share: float) -> Pixels:
    """Bands along the borders of surfaces in a tone of their own: a lake that fell, a field ploughed further."""
    for _ in range(BANDS):
        if not share or rng.random() >= share:
            continue
        side = max(values.shape[:2])
        tone = cv2.transform(values, rng.normal(size=(1, 3)).astype(np.float32))
        tone = cv2.GaussianBlur(tone, (0, 0), side * rng.uniform(1 / 128, 3 / 128))
        surface = (tone > np.quantile(tone[::4, ::4], rng.uniform(0.1, 0.9))).astype(np.uint8)
        inside = cv2.distanceTransform(surface, cv2.DIST_L2, 3)
        reach = side * rng.uniform(1 / 128, BAND_REACH)
        band = cv2.GaussianBlur(((inside > 0) & (inside <= reach)).astype(np.float32), (0, 0), side / 180)
        strength = (band * np.float32(rng.uniform(0.4, 1.0)))[:, :, None]
        texture = np.float32(rng.uniform(0.0, 0.6)) * (values - np.array(cv2.mean(values)[:3], np.float32))
        values = values + strength * (rng.uniform(0, 255, 3).astype(np.float32) + texture - values)
    return np.asarray(values, np.float32)


def through_camera(values: Pixels, rng: np.random.Generator, how: Augmentation) -> Pixels:
    """As soft and noisy as a camera in flight shows it; as often as not hardly softer than the map."""
    if how.softness:
        blur = rng.uniform(-0.5 * how.softness, how.softness)
        if blur > SHARP:
            values = np.asarray(cv2.GaussianBlur(values, (0, 0), blur * max(values.shape[:2])), np.float32)
    if how.noise:
        values = values + rng.standard_normal(values.shape, np.float32) * np.float32(rng.uniform(0, how.noise))
    return values


def random_channels(rng: np.random.Generator, how: Augmentation) -> Pixels:
    """(3, 3) what each new channel takes of red, green and blue: some of its own, some of a mixture, tinted or grey."""
    share = rng.uniform(0, how.mixing)
    matrix = (1 - share) * np.eye(3) + share * rng.dirichlet(np.ones(3), 3)
    if how.signed and rng.random() < how.signed:
        matrix = rng.normal(size=(3, 3))
    matrix *= rng.uniform(1 - how.colour, 1 + how.colour, (3, 1))
    if rng.random() < how.grey:
        matrix[:] = matrix.mean(axis=0)
    return matrix.astype(np.float32)


def convolve(values: Pixels, rng: np.random.Generator, most: float) -> Pixels:
    """Random weights of the neighbours, which sum to zero: flat ground stays, edges and texture become others."""
    if not most:
        return values
    side = int(rng.choice(KERNEL_PX))
    kernel = rng.normal(size=(side, side)) / side
    kernel = rng.uniform(0, most) * (kernel - kernel.mean())
    kernel[side // 2, side // 2] += 1.0
    return np.asarray(cv2.filter2D(values, -1, kernel.astype(np.float32)), np.float32)


def bend_tones(values: Pixels, rng: np.random.Generator, bend: float, *, alike: bool = False) -> Pixels:
    """A random rising curve from black to white for each channel, or one for all."""
    if not bend:
        return values
    slopes = rng.normal(scale=bend, size=TONE_SEGMENTS) + rng.normal(scale=bend / 2, size=(3, TONE_SEGMENTS))
    rises = np.exp(slopes[[0, 0, 0]] if alike else slopes)
    knots = np.concatenate([np.zeros((3, 1)), np.cumsum(rises, axis=1)], axis=1)
    return through_curves(values, np.linspace(0, 255, TONE_SEGMENTS + 1), 255 * knots / knots[:, -1:])


def as_bright_as(view: Image, values: Pixels) -> Pixels:
    """Values of any range with mean and contrast of the view, each channel by itself."""
    means, spreads = (moment.ravel() for moment in cv2.meanStdDev(values))  # ten times as quick as numpy here
    of_channels, within = (moment.ravel() for moment in cv2.meanStdDev(view))
    target, spread = float(of_channels.mean()), float(np.sqrt(np.mean(within**2) + of_channels.var()))
    factors = spread / (spreads + 1.0)
    return values * factors.astype(np.float32) + (target - means * factors).astype(np.float32)


def fold_tones(values: Pixels, rng: np.random.Generator, *, alike: bool) -> Pixels:
    """Any curve over the tones that the view has, for each channel or one for all: bright may become dark and back."""
    low, high = np.percentile(values[::2, ::2], (2, 98))
    places = np.linspace(low, max(high, low + 1.0), TONE_SEGMENTS + 1)
    heights = rng.uniform(0, 255, (1 if alike else 3, TONE_SEGMENTS + 1))
    return through_curves(values, places, np.broadcast_to(heights, (3, TONE_SEGMENTS + 1)))


def through_curves(values: Pixels, places: NDArray[np.float64], heights: NDArray[np.float64]) -> Pixels:
    """Every channel through its own curve, given by (3, k) heights at k tones and straight between them."""
    curves = np.stack([np.interp(np.arange(256), places, own) for own in heights], axis=1)
    levels = np.clip(values, 0, 255).astype(np.uint8)
    return np.asarray(cv2.LUT(levels, curves[None].astype(np.float32)), np.float32)


def lay_fields(values: Pixels, rng: np.random.Generator, depth: float) -> Pixels:
    """Some straight borders, and another brightness on every side of them: fields that change from year to year."""
    if not depth:
        return values
    rows, columns = np.mgrid[0 : values.shape[0], 0 : values.shape[1]] / max(values.shape[:2]) - 0.5
    label = np.zeros(values.shape[:2], np.int64)
    for line in range(int(rng.integers(0, BORDERS + 1))):
        angle, offset = rng.uniform(0, np.pi), rng.uniform(-0.5, 0.5)
        label |= (rows * np.sin(angle) + columns * np.cos(angle) > offset).astype(np.int64) << line
    steps = 255.0 * rng.normal(scale=rng.uniform(0, depth), size=2**BORDERS)
    return values + steps[label].astype(np.float32)[:, :, None]


def shade(values: Pixels, rng: np.random.Generator, depth: float) -> Pixels:
    """Lighter and darker parts with smooth borders, as clouds, haze and the lens make them."""
    if not depth:
        return values
    coarse = rng.normal(scale=rng.uniform(0, depth), size=(SHADES, SHADES)).astype(np.float32)
    smooth = cv2.resize(coarse, values.shape[1::-1], interpolation=cv2.INTER_CUBIC)
    return values * np.exp(np.asarray(smooth, np.float32))[:, :, None]


def in_colours_of(image: Image, model: Image) -> Image:
    """The image with the mean colour of another one, and with its spread of colours.

    The linear map between two normal distributions that moves colours least (Pitie and Kokaram, CVMP 2007). Towards a
    picture without colour it gives one without colour.
    """
    own, target = (picture.reshape(-1, 3).astype(np.float64) for picture in (image, model))
    spread, wanted = (np.cov(colours, rowvar=False) + np.eye(3) for colours in (own, target))
    root = symmetric_root(spread)
    inverse = np.linalg.inv(root)
    warp = inverse @ symmetric_root(root @ wanted @ root) @ inverse
    moved = (own - own.mean(axis=0)) @ warp + target.mean(axis=0)
    return np.clip(moved, 0.0, 255.0).astype(np.uint8).reshape(image.shape)


def symmetric_root(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The square root of a symmetric matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def random_crop(image: Image, rng: np.random.Generator, how: Augmentation) -> Image:
    """A random rectangle of the image, by area and aspect, as torchvision's RandomResizedCrop draws it."""
    height, width = image.shape[:2]
    area = height * width * rng.uniform(*how.crop_area)
    aspect = np.exp(rng.uniform(*np.log(how.crop_aspect)))
    crop_height = min(height, max(1, round(np.sqrt(area / aspect))))
    crop_width = min(width, max(1, round(np.sqrt(area * aspect))))
    top = rng.integers(height - crop_height + 1)
    left = rng.integers(width - crop_width + 1)
    return image[top : top + crop_height, left : left + crop_width]


def resize(image: Image, size_px: int) -> Image:
    """To a square of the network's input size; the aspect ratio gives way, as in the paper."""
    if image.shape[:2] == (size_px, size_px):
        return image
    shrinks = min(image.shape[:2]) > size_px
    how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(np.ascontiguousarray(image), (size_px, size_px), interpolation=how), np.uint8)
