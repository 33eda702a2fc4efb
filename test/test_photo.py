"""Photographs: what DJI's XMP and EXIF say becomes what the drone knew."""

import math
import struct

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerial_vpr_cl.geo.rotation import bearing_of
from aerial_vpr_cl.localization.view import View, ViewSettings, make_view
from aerial_vpr_cl.mission.photo import PhotoSettings, situation_of

WIDTH, HEIGHT = 400, 300
DOWN = {"GimbalYawDegree": "+123.40", "GimbalPitchDegree": "-90.00", "GimbalRollDegree": "+0.00"}


def photo(xmp: dict[str, str] | None = None, focal_mm: int | None = None, order: str = "<", elements: bool = False):
    """A JPEG with the headers that a drone writes."""
    plain = cv2.imencode(".jpg", np.full((HEIGHT, WIDTH, 3), 90, np.uint8))[1].tobytes()
    headers = b""
    if focal_mm is not None:
        mark = b"II" if order == "<" else b"MM"
        value = struct.pack(order + "HHIHH", 0xA405, 3, 1, focal_mm, 0)
        tiff = mark + struct.pack(order + "HIH", 42, 8, 1) + struct.pack(order + "HHII", 0x8769, 4, 1, 26)
        tiff += struct.pack(order + "I", 0) + struct.pack(order + "H", 1) + value + struct.pack(order + "I", 0)
        headers += segment(b"Exif\0\0" + tiff)
    if xmp is not None:
        form = "<drone-dji:{0}>{1}</drone-dji:{0}>" if elements else 'drone-dji:{0}="{1}"'
        values = "\n ".join(form.format(name, value) for name, value in xmp.items())
        body = f">{values}</rdf:Description>" if elements else f" {values}/>"
        text = f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF><rdf:Description{body}</rdf:RDF></x:xmpmeta>'
        headers += segment(b"http://ns.adobe.com/xap/1.0/\0" + text.encode())
    return plain[:2] + headers + plain[2:]


def segment(content: bytes) -> bytes:
    return b"\xff\xe1" + struct.pack(">H", len(content) + 2) + content


def situation(data: bytes, **settings):
    assert cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR).shape == (HEIGHT, WIDTH, 3)
    return situation_of(data, WIDTH, HEIGHT, PhotoSettings(**settings))


def view(data: bytes, **settings) -> View:
    made = make_view(np.zeros((HEIGHT, WIDTH, 3), np.uint8), situation(data, **settings), ViewSettings(size_px=64))
    assert isinstance(made, View)
    return made


def top_of(found) -> float:
    axes = found.rotation @ found.mount
    return bearing_of(-axes[:2, 1])


@pytest.mark.parametrize("elements", [False, True])
def test_a_photo_straight_down_has_the_gimbals_heading(elements):
    found = situation(photo({**DOWN, "RelativeAltitude": "+120.50"}, 24, elements=elements))
    assert top_of(found) == pytest.approx(123.4)
    assert (found.rotation @ found.mount)[:, 2] == pytest.approx([0.0, 0.0, -1.0], abs=1e-9)
    assert found.height_m == 120.5 and found.height_sigma_m == 10.0
    assert found.heading_sigma_deg == 5.0


def test_a_gimbal_that_is_not_quite_down_looks_ahead():
    made = view(photo({**DOWN, "GimbalYawDegree": "90.0", "GimbalPitchDegree": "-75.0", "RelativeAltitude": "100"}, 24))
    assert made.offset_m == pytest.approx([100.0 * math.tan(math.radians(15.0)), 0.0], abs=0.5)


def test_a_gimbal_reported_upside_down_means_the_same():
    flipped = {"GimbalYawDegree": "-56.60", "GimbalPitchDegree": "-90.00", "GimbalRollDegree": "180.00"}
    assert top_of(situation(photo(flipped))) == pytest.approx(123.4)


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_field_of_view_follows_from_the_35_mm_focal_length(order):
    camera = situation(photo(None, 24, order)).camera
    # A 4:3 sensor with the diagonal of 35 mm film is 34.6 mm wide.
    assert camera.horizontal_fov_deg == pytest.approx(2.0 * math.degrees(math.atan(34.61 / 2.0 / 24.0)), abs=0.01)


def test_without_a_gimbal_the_drones_own_heading_is_taken_and_the_tilt_is_unsure():
    found = situation(photo({"FlightYawDegree": "-10.0"}))
    assert top_of(found) == pytest.approx(350.0)
    assert found.tilt_sigma_deg == 10.0 and found.heading_known


def test_what_the_user_says_goes_before_the_file():
    data = photo({**DOWN, "RelativeAltitude": "+120.50"}, 24)
    found = situation(data, heading_deg=10.0, height_m=80.0, fov_deg=70.0, heading_sigma_deg=1.0, tilt_sigma_deg=0.5)
    assert top_of(found) == pytest.approx(10.0)
    assert (found.height_m, found.height_sigma_m) == (80.0, 4.0)
    assert found.camera.horizontal_fov_deg == pytest.approx(70.0)
    assert (found.heading_sigma_deg, found.tilt_sigma_deg) == (1.0, 0.5)


def test_a_tilt_that_the_user_gives_looks_towards_the_top():
    made = view(photo(), heading_deg=180.0, tilt_deg=20.0, height_m=100.0, fov_deg=70.0)
    assert made.offset_m == pytest.approx([0.0, -100.0 * math.tan(math.radians(20.0))], abs=0.5)


def test_a_plain_photo_says_nothing():
    found = situation(photo())
    assert found.camera is None and found.height_m is None and not found.heading_known


def test_a_drone_on_the_ground_has_no_height():
    assert situation(photo({**DOWN, "RelativeAltitude": "-0.30"})).height_m is None


@given(st.binary(max_size=200), st.integers(0, 400))
def test_a_damaged_header_says_nothing_and_breaks_nothing(noise, cut):
    data = photo(DOWN, 24)
    for damaged in (data[:cut] + noise, noise, b"\xff\xd8\xff\xe1" + noise, b"\xff\xd8" + segment(b"Exif\0\0" + noise)):
        situation_of(damaged, WIDTH, HEIGHT)
