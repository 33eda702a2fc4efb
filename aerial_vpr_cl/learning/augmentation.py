"""Random views of an image: the paper's random resized crop and, where a recipe asks for it, photometric change."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]


@dataclass(frozen=True)
class Augmentation:
    """What a random view may change. Shares and factors; zero switches a change off."""

    crop_area: tuple[float, float] = (0.66, 1.0)  # share of the image's area (paper, section 5.1.3)
    crop_aspect: tuple[float, float] = (3 / 4, 4 / 3)
    brightness: float = 0.0  # added, as a share of full scale, within ±
    contrast: float = 0.0  # factor within 1 ± contrast
    colour: float = 0.0  # factor of each channel within 1 ± colour
    grey: float = 0.0  # probability that the view loses its colour
    invert: float = 0.0  # probability that a grey view is inverted, as infrared often is


PAPER = Augmentation()
PHOTOMETRIC = Augmentation(brightness=0.2, contrast=0.5, colour=0.3, grey=0.3)


def augment(image: Image, size_px: int, rng: np.random.Generator, how: Augmentation, *, turn: bool = False) -> Image:
    """A random view of (H, W, 3) as (size, size, 3). `turn` adds quarter turns, for the satellite side."""
    if turn:
        image = np.rot90(image, int(rng.integers(4)))
    view = resize(random_crop(image, rng, how), size_px)
    if not (how.brightness or how.contrast or how.colour or how.grey):
        return view
    values = view.astype(np.float32)
    if rng.random() < how.grey:
        values = np.repeat(values.mean(axis=2, keepdims=True), 3, axis=2)
        if rng.random() < how.invert:
            values = 255.0 - values
    values *= rng.uniform(1 - how.colour, 1 + how.colour, 3)
    mean = values.mean()
    values = (values - mean) * rng.uniform(1 - how.contrast, 1 + how.contrast) + mean
    values += 255.0 * rng.uniform(-how.brightness, how.brightness)
    return np.clip(values, 0.0, 255.0).astype(np.uint8)


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
