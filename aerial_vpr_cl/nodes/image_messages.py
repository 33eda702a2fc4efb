"""sensor_msgs/Image and CompressedImage to RGB: by cv_bridge where ROS provides one that can be trusted, else by us."""

from __future__ import annotations

import importlib
import logging
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import CompressedImage, Image

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.images import MOST_PIXELS, decode_compressed, decode_raw, to_rgb8

log = logging.getLogger(__name__)

Decoder = Callable[[Image], NDArray[np.uint8]]

BRIDGED = ("rgb8", "bgr8", "rgba8", "bgra8", "mono8")
"""Encodings given to cv_bridge. Of more than 8 bits it would keep the upper ones, where thermal images hold nothing."""


def decode_image(message: Image) -> NDArray[np.uint8]:
    """Our own decoder: all common encodings, row padding, endianness; MissionError says what does not fit."""
    return decode_raw(message.height, message.width, message.encoding, message.step, message.is_bigendian, message.data)


def decode_compressed_image(
    message: CompressedImage, most_pixels: int = MOST_PIXELS, enough_px: float = math.inf
) -> NDArray[np.uint8]:
    """JPEG, PNG and TIFF; a JPEG with a longer side of more than `enough_px` may come smaller."""
    return decode_compressed(message.data, message.format, most_pixels, enough_px=enough_px)


def bridged_decoder(bridge: Any) -> Decoder:
    """A decoder that uses cv_bridge for what it does well, and ours for the rest."""

    def decode(message: Image) -> NDArray[np.uint8]:
        if message.encoding not in BRIDGED:
            return decode_image(message)
        needed = message.step * message.height
        if message.height == 0 or message.width == 0 or len(message.data) != needed:
            return decode_image(message)  # has the better words for what is wrong
        try:
            return to_rgb8(np.asarray(bridge.imgmsg_to_cv2(message, desired_encoding="rgb8")))
        except Exception as error:
            raise MissionError(f"cv_bridge cannot decode {message.encoding}: {error}") from None

    return decode


def pick_decoder(module: str = "cv_bridge") -> tuple[str, Decoder]:
    """Name and function of the decoder to use.

    PyPI's cv-bridge is of ROS 1 and ignores row padding, so a bridge is taken only if it decodes a few test images as
    our own decoder does.
    """
    try:
        decoder = bridged_decoder(importlib.import_module(module).CvBridge())
        agrees = all(np.array_equal(decoder(image), decode_image(image)) for image in sample_images())
    except Exception as error:  # not installed, or built against another numpy or OpenCV
        log.debug("no cv_bridge: %r", error)
        return "own", decode_image
    if not agrees:
        log.warning("the installed cv_bridge decodes images wrongly (is it the ROS 1 one from PyPI?); it is not used")
        return "own", decode_image
    return "cv_bridge", decoder


def sample_images() -> list[Image]:
    """Small images of every encoding given to cv_bridge, with and without padded rows."""
    rng = np.random.default_rng(0)
    images = []
    for encoding in BRIDGED:
        channels = {"mono8": 1, "rgba8": 4, "bgra8": 4}.get(encoding, 3)
        for padding in (0, 5):
            step = 6 * channels + padding
            data = rng.integers(0, 256, 4 * step, np.uint8).tobytes()
            images.append(Image(height=4, width=6, encoding=encoding, step=step, is_bigendian=0, data=data))
    return images
