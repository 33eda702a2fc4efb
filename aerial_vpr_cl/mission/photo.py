"""What a photograph tells of how it was taken: EXIF's focal length, and the XMP that DJI drones write."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from aerial_vpr_cl.geo.camera import CameraModel
from aerial_vpr_cl.geo.rotation import from_angles
from aerial_vpr_cl.mission.messages import JPEG_SIGNATURE
from aerial_vpr_cl.mission.situation import UNKNOWN_HEADING_DEG, UNKNOWN_TILT_DEG, Situation, camera_mount
from aerial_vpr_cl.settings import setting

FILM_DIAGONAL_MM = math.hypot(36.0, 24.0)
"""Of the film whose focal length EXIF compares with."""

TAKE_OFF_SIGMA_M = 10.0
"""Sigma of a height that is counted from where the drone took off: the ground is not level, the barometer drifts."""

_APP1, _START_OF_SCAN = 0xE1, 0xDA
_EXIF_HEADER, _XMP_HEADER = b"Exif\0\0", b"http://ns.adobe.com/xap/1.0/\0"
_EXIF_FOLDER, _FOCAL_LENGTH_35MM = 0x8769, 0xA405
_SHORT, _LONG = 3, 4


@dataclass(frozen=True)
class PhotoSettings:
    """What is known of images; it goes before what their files say."""

    heading_deg: float | None = setting(
        None, "direction of the image's top, clockwise from north; unset: as the file says, else unknown"
    )
    tilt_deg: float | None = setting(
        None, "how far from straight down the camera looked, towards the image's top; unset: as the file says, else 0"
    )
    height_m: float | None = setting(
        None, "of the camera above ground, metres; unset: as the file says, else unknown", low=0.1
    )
    fov_deg: float | None = setting(
        None, "horizontal field of view; unset: as the file says, else unknown", low=1.0, high=170.0
    )
    heading_sigma_deg: float = setting(5.0, "sigma of the heading", low=0.0, high=180.0)
    tilt_sigma_deg: float | None = setting(
        None, f"sigma of the tilt; unset: 2 where it is known, else {UNKNOWN_TILT_DEG:g}", low=0.0, high=90.0
    )
    height_sigma_m: float | None = setting(
        None, f"sigma of the height; unset: 5 % of one that is given, {TAKE_OFF_SIGMA_M:g} m of the file's", low=0.0
    )


def situation_of(encoded: bytes, width_px: int, height_px: int, settings: PhotoSettings | None = None) -> Situation:
    """What the file of an image and the settings say together. An unreadable header says nothing."""
    settings = settings or PhotoSettings()
    dji = _dji_values(encoded)
    heading, tilt = settings.heading_deg, settings.tilt_deg
    mount, rotation = camera_mount(), None
    if heading is None and tilt is None and {"GimbalYawDegree", "GimbalPitchDegree"} <= dji.keys():
        # The gimbal's angles are those of a camera that looks along the nose: -90° of pitch is straight down.
        mount = camera_mount(forward_deg=90.0)
        angles = dji["GimbalYawDegree"], dji["GimbalPitchDegree"], dji.get("GimbalRollDegree", 0.0)
        rotation, tilt = from_angles(*angles), 90.0 + angles[1]
        heading = angles[0]
    else:
        heading = heading if heading is not None else dji.get("GimbalYawDegree", dji.get("FlightYawDegree"))
        if tilt is None and "GimbalPitchDegree" in dji:
            tilt = 90.0 + dji["GimbalPitchDegree"]
        rotation = from_angles(heading or 0.0, tilt or 0.0)
    height_m, height_sigma_m = _height(settings, dji)
    tilt_sigma = 2.0 if tilt is not None else UNKNOWN_TILT_DEG
    return Situation(
        camera=_camera(settings, encoded, width_px, height_px),
        mount=mount,
        rotation=rotation,
        heading_sigma_deg=UNKNOWN_HEADING_DEG if heading is None else settings.heading_sigma_deg,
        tilt_sigma_deg=tilt_sigma if settings.tilt_sigma_deg is None else settings.tilt_sigma_deg,
        height_m=height_m,
        height_sigma_m=height_sigma_m,
    )


def _height(settings: PhotoSettings, dji: dict[str, float]) -> tuple[float | None, float]:
    height_m, sigma_m = settings.height_m, 0.05 * (settings.height_m or 0.0)
    if height_m is None:
        height_m, sigma_m = dji.get("RelativeAltitude"), TAKE_OFF_SIGMA_M
    if height_m is None or height_m <= 0.0:
        return None, 0.0
    return height_m, sigma_m if settings.height_sigma_m is None else settings.height_sigma_m


def _camera(settings: PhotoSettings, encoded: bytes, width_px: int, height_px: int) -> CameraModel | None:
    fov = settings.fov_deg
    if fov is None:
        focal_mm = _focal_length_35mm(encoded)
        if not focal_mm:
            return None
        # Equal diagonals: the film is 3:2, most drones' sensors are 4:3.
        focal_px = focal_mm / FILM_DIAGONAL_MM * math.hypot(width_px, height_px)
        fov = 2.0 * math.degrees(math.atan(width_px / 2.0 / focal_px))
    return CameraModel.from_fov(width_px, height_px, fov)


def _dji_values(encoded: bytes) -> dict[str, float]:
    """Numbers of DJI's XMP by name, written as attributes or as elements."""
    text = b"".join(part for part in _headers(encoded, _XMP_HEADER)).decode("utf-8", "replace")
    found = re.findall(r'drone-dji:(\w+)(?:\s*=\s*"|>)\s*([+-]?\d+(?:\.\d+)?)\s*["<]', text)
    return {name: float(value) for name, value in found}


def _focal_length_35mm(encoded: bytes) -> int | None:
    """FocalLengthIn35mmFilm of the EXIF header, if there is one."""
    for tiff in _headers(encoded, _EXIF_HEADER):
        try:
            order = {b"II": "<", b"MM": ">"}[tiff[:2]]
            (first,) = struct.unpack_from(order + "I", tiff, 4)
            folder = _entries(tiff, order, first).get(_EXIF_FOLDER)
            if folder is not None:
                return _entries(tiff, order, folder).get(_FOCAL_LENGTH_35MM)
        except (KeyError, struct.error):
            continue
    return None


def _entries(tiff: bytes, order: str, offset: int) -> dict[int, int]:
    """Single whole numbers of a TIFF folder, by tag."""
    (count,) = struct.unpack_from(order + "H", tiff, offset)
    entries = {}
    for place in range(offset + 2, offset + 2 + 12 * count, 12):
        tag, kind, _ = struct.unpack_from(order + "HHI", tiff, place)
        if kind in (_SHORT, _LONG):
            (entries[tag],) = struct.unpack_from(order + ("H" if kind == _SHORT else "I"), tiff, place + 8)
    return entries


def _headers(encoded: bytes, name: bytes) -> Iterator[bytes]:
    """Contents of a JPEG's application segments of this name, before the image itself."""
    place = 2 if encoded[:3] == JPEG_SIGNATURE else len(encoded)
    while place + 4 <= len(encoded) and encoded[place] == 0xFF and encoded[place + 1] != _START_OF_SCAN:
        (length,) = struct.unpack_from(">H", encoded, place + 2)
        content = encoded[place + 4 : place + 2 + length]
        if encoded[place + 1] == _APP1 and content.startswith(name):
            yield content[len(name) :]
        place += 2 + max(length, 2)
