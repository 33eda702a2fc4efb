"""Whatever a camera driver sends, as uint8 RGB: raw and compressed ROS images of all common encodings.

Everything malformed is a MissionError that says what does not fit. An image of more than 8 bits a channel is scaled to
8 by its own 1st and 99th percentile, so that thermal cameras show the scene and not their dynamic range.
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.image_headers import TIFF_SIGNATURES, size_of
from aerial_vpr_cl.mission.messages import JPEG_SIGNATURE, PNG_SIGNATURE

MOST_PIXELS = 50_000_000
"""Pixels of the largest encoded image that is decoded unless told otherwise; as RGB it takes 150 MB."""
LOW_PERCENTILE = 1.0
HIGH_PERCENTILE = 99.0
_PERCENTILE_PIXELS = 65_536
"""Percentiles are measured on about this many pixels of a regular lattice: exact enough, and fast in flight."""
_COMPRESSED_DEPTH_HEADER = 12  # bytes before the PNG
KEPT_QUALITY = 92
"""Of JPEG images that are learnt from for years: exemplars and views."""
_REDUCED = {8: cv2.IMREAD_REDUCED_COLOR_8, 4: cv2.IMREAD_REDUCED_COLOR_4, 2: cv2.IMREAD_REDUCED_COLOR_2}
_JPEG_END = b"\xff\xd9"
_JPEG_TAIL = 4096


class _Layout(NamedTuple):
    """How an encoding lies in memory, and OpenCV's conversion of it to RGB (None: it is RGB or grey already)."""

    dtype: str
    channels: int
    to_rgb: int | None = None


# OpenCV names a Bayer pattern by its second row, ROS by its first: rggb is BayerBG.
_BAYER = {
    "rggb": cv2.COLOR_BayerBG2RGB,
    "bggr": cv2.COLOR_BayerRG2RGB,
    "gbrg": cv2.COLOR_BayerGR2RGB,
    "grbg": cv2.COLOR_BayerGB2RGB,
}
_LAYOUTS = {
    "rgb8": _Layout("u1", 3),
    "bgr8": _Layout("u1", 3, cv2.COLOR_BGR2RGB),
    "rgba8": _Layout("u1", 4, cv2.COLOR_RGBA2RGB),
    "bgra8": _Layout("u1", 4, cv2.COLOR_BGRA2RGB),
    "mono8": _Layout("u1", 1),
    "rgb16": _Layout("u2", 3),
    "bgr16": _Layout("u2", 3, cv2.COLOR_BGR2RGB),
    "rgba16": _Layout("u2", 4, cv2.COLOR_RGBA2RGB),
    "bgra16": _Layout("u2", 4, cv2.COLOR_BGRA2RGB),
    "mono16": _Layout("u2", 1),
    **{f"bayer_{pattern}8": _Layout("u1", 1, code) for pattern, code in _BAYER.items()},
    **{f"bayer_{pattern}16": _Layout("u2", 1, code) for pattern, code in _BAYER.items()},
    "yuv422": _Layout("u1", 2, cv2.COLOR_YUV2RGB_UYVY),  # the name ROS gave to UYVY first
    "uyvy": _Layout("u1", 2, cv2.COLOR_YUV2RGB_UYVY),
    "yuv422_yuy2": _Layout("u1", 2, cv2.COLOR_YUV2RGB_YUY2),
    "yuyv": _Layout("u1", 2, cv2.COLOR_YUV2RGB_YUY2),
}
_TWO_PIXELS_SHARE_CHROMA = 2
"""Channels of the encodings whose pixels come in pairs."""
_HALF_HEIGHT_CHROMA = {"nv12": cv2.COLOR_YUV2RGB_NV12, "nv21": cv2.COLOR_YUV2RGB_NV21}
_OPENCV_TYPES = {"8U": "u1", "8S": "i1", "16U": "u2", "16S": "i2", "32S": "i4", "32F": "f4", "64F": "f8"}
_OPENCV_COLOURS = {1: None, 3: cv2.COLOR_BGR2RGB, 4: cv2.COLOR_BGRA2RGB}

ENCODINGS = (*_LAYOUTS, *_HALF_HEIGHT_CHROMA, "8UC1", "8UC3", "8UC4", "16UC1", "16UC3", "16SC1", "32FC1", "64FC1")
"""The encodings in use; the decoder takes every other OpenCV type name with 1, 3 or 4 channels too."""


def decode_raw(
    height: int, width: int, encoding: str, step: int, is_bigendian: int | bool, data: Any
) -> NDArray[np.uint8]:
    """The fields of a sensor_msgs/Image to (H, W, 3) uint8 RGB.

    `data` is anything with a buffer. Dense rgb8 is returned as a read-only view of it, without a copy. OpenCV type
    names (8UC3, ...) have OpenCV's channel order, blue first.
    """
    buffer = _buffer_of(data)
    if height <= 0 or width <= 0:
        raise MissionError(f"image of {width} × {height} pixels is empty; check the camera driver")
    name = encoding.strip().lower()
    if name in _HALF_HEIGHT_CHROMA:
        return _decode_half_height_chroma(height, width, name, step, buffer)
    layout = _layout_of(encoding)
    dtype = np.dtype(layout.dtype).newbyteorder(">" if is_bigendian else "<")
    pixels = _rows(height, width * layout.channels, step, dtype, buffer, encoding)
    if layout.channels == _TWO_PIXELS_SHARE_CHROMA and width % 2:  # some OpenCV versions read beyond the row
        raise MissionError(f"{name} image of {width} × {height} pixels; its width must be even")
    image = pixels if layout.channels == 1 else pixels.reshape(height, width, layout.channels)
    if not image.dtype.isnative:
        image = image.astype(image.dtype.newbyteorder("="))
    if layout.to_rgb is not None:
        image = _convert(image, layout.to_rgb, f"{width} × {height} {encoding}")
    return to_rgb8(image)


def decode_compressed(
    data: Any, format: str = "", most_pixels: int = MOST_PIXELS, *, enough_px: float = math.inf
) -> NDArray[np.uint8]:
    """Encoded bytes (JPEG, PNG or TIFF, also of 16 bit) to (H, W, 3) uint8 RGB.

    `format` is that of sensor_msgs/CompressedImage and only used to recognise depth images. An orientation in the
    file is not applied: it is the sensor's own image that the calibration and the heading belong to. Where a longer
    side of `enough_px` is enough, a JPEG may come at a half, a quarter or an eighth of its size, which is quicker.
    """
    buffer = _buffer_of(data)
    image = _imdecode(buffer, _reduced(buffer, enough_px), format, most_pixels)
    colour = {3: cv2.COLOR_BGR2RGB, 4: cv2.COLOR_BGRA2RGB}.get(image.shape[2] if image.ndim == 3 else 1)
    return to_rgb8(image if colour is None else _convert(image, colour, "compressed image"))


def _reduced(buffer: NDArray[np.uint8], enough_px: float) -> int:
    """OpenCV's flag for the smallest size of a JPEG that is enough.

    Only where the sides can be divided: then every pixel is the mean of a whole block, and a camera model fits both.
    """
    if math.isfinite(enough_px) and buffer[: len(JPEG_SIGNATURE)].tobytes() == JPEG_SIGNATURE:
        width, height = size_of(buffer.data)
        for factor, flag in _REDUCED.items():
            if not (width % factor or height % factor) and max(width, height) >= enough_px * factor:
                return flag | cv2.IMREAD_IGNORE_ORIENTATION
    return cv2.IMREAD_UNCHANGED


def check_encoded(encoded: bytes) -> None:
    """Raise MissionError if an encoded image is damaged; it is decoded at an eighth of its size, to be quick."""
    _imdecode(_buffer_of(encoded), cv2.IMREAD_REDUCED_GRAYSCALE_8, "", MOST_PIXELS)


def encode_jpeg(image: NDArray[np.uint8], quality: int = KEPT_QUALITY) -> bytes:
    """(H, W, 3) RGB as JPEG."""
    _, data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality])
    return data.tobytes()


def squeeze(image: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """A whole RGB frame as a square of this many pixels a side; its aspect ratio is lost."""
    height, width = image.shape[:2]
    if (height, width) == (side, side):
        return image
    how = cv2.INTER_AREA if height >= side and width >= side else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, (side, side), interpolation=how), np.uint8)


def to_rgb8(image: NDArray[Any]) -> NDArray[np.uint8]:
    """Grey (H, W) or (H, W, 1), RGB or RGBA of any depth to (H, W, 3) uint8 RGB; uint8 RGB is returned as it is."""
    if image.ndim == 3 and image.shape[2] == 1:
        image = image[:, :, 0]
    if image.ndim not in (2, 3) or image.size == 0 or image.shape[2:] not in ((), (3,), (4,)):
        raise MissionError(f"array of shape {image.shape} is not an image; expected (H, W), (H, W, 3) or (H, W, 4)")
    image = image[:, :, :3] if image.ndim == 3 else image
    if image.dtype != np.uint8:
        image = scale_to_8_bits(image)
    if image.ndim == 2:
        return np.asarray(cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_GRAY2RGB), np.uint8)
    return image


def scale_to_8_bits(image: NDArray[Any]) -> NDArray[np.uint8]:
    """Stretch the 1st to 99th percentile over 0 to 255; NaN and infinities become 0, a constant image mid-grey.

    All channels share one scale, so colours keep their hue.
    """
    if image.dtype.kind not in "uif":
        raise MissionError(f"pixels of type {image.dtype} are not numbers")
    every = max(1, int(np.sqrt(image.shape[0] * image.shape[1] / _PERCENTILE_PIXELS)))
    sample = image[::every, ::every].astype(np.float32, copy=False)
    sample = sample[np.isfinite(sample)]
    if sample.size == 0:
        return np.zeros(image.shape, np.uint8)
    low, high = (float(value) for value in np.percentile(sample, [LOW_PERCENTILE, HIGH_PERCENTILE]))
    if high <= low:  # nearly constant: whatever differs shows by the full range
        low, high = float(sample.min()), float(sample.max())
    values = image.astype(np.float32)
    finite = np.isfinite(values) if image.dtype.kind == "f" else None
    if high <= low:
        scaled = np.full(image.shape, 128, np.uint8)
    else:
        values = (values - np.float32(low)) * np.float32(255.0 / (high - low))
        scaled = np.clip(np.nan_to_num(values + np.float32(0.5), copy=False), 0, 255).astype(np.uint8)
    if finite is not None:
        scaled[~finite] = 0
    return scaled


def _layout_of(encoding: str) -> _Layout:
    name = encoding.strip()
    if layout := _LAYOUTS.get(name.lower()):
        return layout
    opencv = re.fullmatch(r"(8U|8S|16U|16S|32S|32F|64F)(?:C([0-9]{1,3}))?", name.upper())
    channels = int(opencv[2] or 1) if opencv else 0
    if opencv is None or channels not in _OPENCV_COLOURS:
        raise MissionError(f"image encoding '{encoding[:40]}' is not supported; supported are {', '.join(ENCODINGS)}")
    # Colour conversion of signed and 64-bit images is beyond OpenCV; nobody sends them, and grey is all there is.
    if channels > 1 and opencv[1] not in ("8U", "16U", "32F"):
        raise MissionError(f"image encoding '{encoding}' is not a camera image; use one channel, or 8U, 16U or 32F")
    return _Layout(_OPENCV_TYPES[opencv[1]], channels, _OPENCV_COLOURS[channels])


def _buffer_of(data: Any) -> NDArray[np.uint8]:
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    try:
        return np.frombuffer(data, np.uint8) if len(data) else np.empty(0, np.uint8)
    except (TypeError, ValueError) as error:
        raise MissionError(f"image data of type {type(data).__name__} cannot be read: {error}") from None


def _rows(
    height: int, samples: int, step: int, dtype: np.dtype[Any], buffer: NDArray[np.uint8], encoding: str
) -> NDArray[Any]:
    """(height, samples) view of rows that lie `step` bytes apart; the padding of the last row may be missing."""
    row = samples * dtype.itemsize
    if step < row:
        raise MissionError(f"image step is {step} bytes, but a row of {encoding} has {row}; check the camera driver")
    needed = step * (height - 1) + row
    if buffer.size < needed:
        raise MissionError(f"image data has {buffer.size} bytes, but {height} rows of {step} need {step * height}")
    if buffer.size > step * height:
        raise MissionError(
            f"image data has {buffer.size} bytes, more than {height} rows of {step}; size or step is wrong"
        )
    return np.ndarray((height, samples), dtype, buffer.data, strides=(step, dtype.itemsize))


def _decode_half_height_chroma(
    height: int, width: int, name: str, step: int, buffer: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """NV12 and NV21: the brightness, then half as many rows with both chroma values in turn."""
    if height % 2 or width % 2:
        raise MissionError(f"{name} image of {width} × {height} pixels; both sides must be even")
    planes = _rows(height * 3 // 2, width, step, np.dtype("u1"), buffer, name)
    return _convert(planes, _HALF_HEIGHT_CHROMA[name], f"{width} × {height} {name}")


def _imdecode(buffer: NDArray[np.uint8], flags: int, format: str, most_pixels: int) -> NDArray[Any]:
    if buffer.size == 0:
        raise MissionError("compressed image is empty; check the camera driver")
    start = buffer[: _COMPRESSED_DEPTH_HEADER + len(PNG_SIGNATURE)].tobytes()
    if "compressedDepth" in format or start[_COMPRESSED_DEPTH_HEADER:] == PNG_SIGNATURE:
        raise MissionError("image is a compressedDepth one, which shows distance, not the ground; use a camera topic")
    # OpenCV fills what is missing of a JPEG with grey and says nothing. Drivers may pad the end, so look before it.
    if start.startswith(JPEG_SIGNATURE) and _JPEG_END not in buffer[-_JPEG_TAIL:].tobytes():
        raise MissionError(f"JPEG image of {buffer.size} bytes is cut short")
    if not start.startswith((JPEG_SIGNATURE, PNG_SIGNATURE, *TIFF_SIGNATURES)):
        raise MissionError(
            f"{buffer.size} bytes cannot be decoded as an image: neither JPEG, PNG nor TIFF (format '{format[:40]}')"
        )
    width, height = size_of(buffer.data)
    if width * height > most_pixels:  # a few kilobytes may claim gigabytes
        raise MissionError(
            f"image of {width} × {height} pixels is larger than the {most_pixels / 1e6:g} megapixels allowed"
        )
    try:
        image = cv2.imdecode(buffer, flags)
    except cv2.error as error:
        raise MissionError(f"{buffer.size} bytes cannot be decoded as an image: {error.err}") from None
    if image is None or image.size == 0:
        raise MissionError(f"{buffer.size} bytes cannot be decoded as an image: cut short or damaged")
    return np.asarray(image)


def _convert(image: NDArray[Any], code: int, what: str) -> NDArray[Any]:
    try:
        return np.asarray(cv2.cvtColor(np.ascontiguousarray(image), code))
    except cv2.error as error:
        raise MissionError(f"{what} cannot be converted to RGB: {error.err}") from None
