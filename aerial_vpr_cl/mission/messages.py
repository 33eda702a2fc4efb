"""The ROS messages of a mission as CDR bytes, by the rosbags type store: no ROS installation is needed.

The bytes are those that ROS itself writes and reads; a test holds them equal.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.store import Typestore

from aerial_vpr_cl.errors import MissionError

IMAGE = "sensor_msgs/msg/Image"
COMPRESSED_IMAGE = "sensor_msgs/msg/CompressedImage"
NAV_SAT_FIX = "sensor_msgs/msg/NavSatFix"

COVARIANCE_UNKNOWN = 0
COVARIANCE_DIAGONAL_KNOWN = 2

JPEG_SIGNATURE = b"\xff\xd8\xff"
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@lru_cache(maxsize=1)
def type_store() -> Typestore:
    """The message types of ROS 2 Jazzy."""
    return get_typestore(Stores.ROS2_JAZZY)


def serialize(message: Any, message_type: str) -> bytes:
    """A rosbags message to CDR bytes."""
    return bytes(type_store().serialize_cdr(message, message_type))


def deserialize(data: bytes | memoryview, message_type: str) -> Any:
    """CDR bytes to a rosbags message, which has the fields of the ROS message; MissionError if they do not fit."""
    try:
        return type_store().deserialize_cdr(bytes(data), message_type)
    except Exception as error:  # rosbags lets whatever its generated code trips over through
        raise MissionError(f"{len(data)} bytes are not a {message_type}: {error}") from None


def stamp_of(message: Any) -> int:
    """header.stamp in nanoseconds; 0 if the driver did not set it, or to a time before 1970."""
    stamp = message.header.stamp
    return max(0, int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec))


def image_format(encoded: bytes) -> str:
    """The word CompressedImage.format has for encoded bytes; MissionError for neither JPEG nor PNG."""
    if encoded[:3] == JPEG_SIGNATURE:
        return "jpeg"
    if encoded[:8] == PNG_SIGNATURE:
        return "png"
    raise MissionError(f"{len(encoded)} bytes are neither a JPEG nor a PNG image; encode the frame first")


def compressed_image(stamp_ns: int, encoded: bytes, frame_id: str = "camera") -> bytes:
    """JPEG or PNG bytes as a serialized sensor_msgs/CompressedImage."""
    data = np.frombuffer(encoded, np.uint8)
    message = make(COMPRESSED_IMAGE, header=header(stamp_ns, frame_id), format=image_format(encoded), data=data)
    return serialize(message, COMPRESSED_IMAGE)


def raw_image(stamp_ns: int, image: NDArray[Any], frame_id: str = "camera") -> bytes:
    """(H, W, 3) uint8 RGB, (H, W) uint8 or (H, W) uint16 as a serialized sensor_msgs/Image: rgb8, mono8 or mono16."""
    encoding = {(3, "uint8"): "rgb8", (2, "uint8"): "mono8", (2, "uint16"): "mono16"}.get(
        (image.ndim, image.dtype.name)
    )
    if encoding is None or image.size == 0 or image.shape[2:] not in ((), (3,)):
        raise MissionError(f"an image of shape {image.shape} and {image.dtype} is neither RGB, grey nor 16-bit grey")
    little = np.ascontiguousarray(image.astype(image.dtype.newbyteorder("<"), copy=False))
    message = make(
        IMAGE,
        header=header(stamp_ns, frame_id),
        height=image.shape[0],
        width=image.shape[1],
        encoding=encoding,
        is_bigendian=0,
        step=little.strides[0],
        data=little.reshape(-1).view(np.uint8),
    )
    return serialize(message, IMAGE)


def nav_sat_fix(
    stamp_ns: int,
    latitude: float,
    longitude: float,
    altitude: float,
    *,
    status: int = 0,
    variance_m2: float | None = None,
    frame_id: str = "gnss",
) -> bytes:
    """A position in degrees and metres as a serialized sensor_msgs/NavSatFix; no variance: covariance unknown."""
    known = variance_m2 is not None
    message = make(
        NAV_SAT_FIX,
        header=header(stamp_ns, frame_id),
        status=make("sensor_msgs/msg/NavSatStatus", status=status, service=1),
        latitude=float(latitude),
        longitude=float(longitude),
        altitude=float(altitude),
        position_covariance=np.diag([float(variance_m2 or 0.0)] * 3).reshape(-1),
        position_covariance_type=COVARIANCE_DIAGONAL_KNOWN if known else COVARIANCE_UNKNOWN,
    )
    return serialize(message, NAV_SAT_FIX)


def header(stamp_ns: int, frame_id: str) -> Any:
    """A std_msgs/Header."""
    sec, nanosec = divmod(int(stamp_ns), 1_000_000_000)
    stamp = make("builtin_interfaces/msg/Time", sec=sec, nanosec=nanosec)
    return make("std_msgs/msg/Header", stamp=stamp, frame_id=frame_id)


def make(message_type: str, **fields: Any) -> Any:
    """A rosbags message of a type; every field has to be given."""
    return type_store().types[message_type](**fields)
