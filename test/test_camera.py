"""The camera model: pixels and directions, against OpenCV and against themselves."""

import math

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerial_vpr_cl.errors import SensorError
from aerial_vpr_cl.geo.camera import EQUIDISTANT, PLUMB_BOB, RATIONAL, CameraModel

LENSES = {
    "pinhole": (PLUMB_BOB, ()),
    "barrel": (PLUMB_BOB, (-0.28, 0.09, 0.001, -0.002, -0.01)),
    "pincushion": (PLUMB_BOB, (0.12, 0.03)),
    "rational": (RATIONAL, (0.6, 0.1, 0.0005, -0.0007, 0.02, 0.9, 0.25, 0.03)),
    "fisheye": (EQUIDISTANT, (0.03, -0.01, 0.004, -0.001)),
}


def camera(lens: str, width: int = 640, height: int = 480) -> CameraModel:
    model, coefficients = LENSES[lens]
    return CameraModel(width, height, 0.7 * width, 0.72 * width, 0.49 * width, 0.51 * height, coefficients, model)


@pytest.fixture(params=LENSES)
def lens(request):
    return camera(request.param)


def test_straight_ahead_is_the_principal_point(lens):
    assert lens.project(np.array([0.0, 0.0, 2.0])) == pytest.approx([lens.cx, lens.cy])


def test_right_is_right_and_down_is_down(lens):
    right, down = lens.project(np.array([[0.1, 0.0, 1.0], [0.0, 0.1, 1.0]]))
    assert right[0] > lens.cx + 10.0 and abs(right[1] - lens.cy) < 1.0
    assert down[1] > lens.cy + 10.0 and abs(down[0] - lens.cx) < 1.0


def test_distortion_is_opencvs(lens):
    points = np.random.default_rng(0).uniform([-0.5, -0.4, 1.0], [0.5, 0.4, 1.0], (200, 3))
    k = np.array([[lens.fx, 0.0, lens.cx], [0.0, lens.fy, lens.cy], [0.0, 0.0, 1.0]])
    zero = np.zeros(3)
    if lens.distortion_model == EQUIDISTANT:
        expected, _ = cv2.fisheye.projectPoints(points[:, None], zero, zero, k, np.array(lens.distortion))
    else:
        coefficients = np.zeros(8)
        coefficients[: len(lens.distortion)] = lens.distortion
        expected, _ = cv2.projectPoints(points, zero, zero, k, coefficients)
    assert np.allclose(lens.project(points), expected.reshape(-1, 2), atol=1e-6)


@given(st.sampled_from(sorted(LENSES)), st.floats(0.0, 639.0), st.floats(0.0, 479.0))
def test_every_pixel_comes_back_from_its_ray(name, u, v):
    model = camera(name)
    (ray,) = model.rays([[u, v]])
    assert np.linalg.norm(ray) == pytest.approx(1.0)
    assert model.project(ray) == pytest.approx([u, v], abs=1e-5)


def test_what_lies_behind_is_not_seen(lens):
    behind = np.array([[0.1, 0.1, -1.0], [0.0, 0.0, -1.0]])
    assert np.isnan(lens.project(behind)).all()


def test_a_polynomial_that_folds_back_shows_nothing_twice():
    model = camera("barrel")
    outside = np.array([[x, 0.0, 1.0] for x in np.linspace(3.0, 30.0, 50)])
    pixels = model.project(outside)
    inside = (pixels[:, 0] >= 0.0) & (pixels[:, 0] < 640.0)
    assert not inside.any()


def test_a_fisheye_sees_beyond_a_right_angle():
    model = CameraModel(800, 800, 200.0, 200.0, 399.5, 399.5, (), EQUIDISTANT)
    pixel = model.project(np.array([math.sin(1.7), 0.0, math.cos(1.7)]))
    assert pixel == pytest.approx([399.5 + 200.0 * 1.7, 399.5])
    assert model.rays([pixel])[0] == pytest.approx([math.sin(1.7), 0.0, math.cos(1.7)], abs=1e-9)


@given(st.floats(5.0, 150.0), st.integers(16, 4000))
def test_a_field_of_view_reaches_from_border_to_border(fov, width):
    model = CameraModel.from_fov(width, 480, fov)
    left, right = model.rays([[-0.5, 239.5], [width - 0.5, 239.5]])
    assert math.degrees(math.acos(float(np.clip(left @ right, -1.0, 1.0)))) == pytest.approx(fov, abs=1e-4)
    assert model.horizontal_fov_deg == pytest.approx(fov)


@given(st.sampled_from(sorted(LENSES)), st.integers(1, 8), st.floats(-0.4, 0.4), st.floats(-0.3, 0.3))
def test_a_resized_image_shows_the_same_directions(name, factor, x, y):
    full, small = camera(name), camera(name).at_size(640 // factor, 480 // factor)
    across, down = (640 // factor) / 640, (480 // factor) / 480
    u, v = full.project(np.array([x, y, 1.0]))
    assert small.project(np.array([x, y, 1.0])) == pytest.approx([(u + 0.5) * across - 0.5, (v + 0.5) * down - 0.5])
    assert small.middle_ray == pytest.approx(full.middle_ray, abs=1e-9)


def test_a_camera_info_is_read():
    k = [700.0, 0.0, 310.0, 0.0, 705.0, 250.0, 0.0, 0.0, 1.0]
    model = CameraModel.from_camera_info(640, 480, k, [-0.1, 0.01, 0.0, 0.0, 0.0], "plumb_bob")
    assert model == CameraModel(640, 480, 700.0, 705.0, 310.0, 250.0, (-0.1, 0.01))
    assert CameraModel.from_camera_info(640, 480, k, [0.0] * 5, "").distortion == ()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((640, 480, [0.0] * 9), "calibrate the camera"),
        ((640, 480, [math.nan] * 9), "calibrate the camera"),
        ((640, 480, [700.0] * 4), "not 9"),
        ((0, 0, [700.0, 0, 1, 0, 700.0, 1, 0, 0, 1]), "empty"),
        ((640, 480, [700.0, 0, 1, 0, 700.0, 1, 0, 0, 1], [0.1] * 5, "equidistant"), "too many"),
        ((640, 480, [700.0, 0, 1, 0, 700.0, 1, 0, 0, 1], [0.1], "double_sphere"), "plumb_bob"),
    ],
)
def test_a_camera_info_without_a_calibration_is_refused(arguments, words):
    with pytest.raises(SensorError, match=words):
        CameraModel.from_camera_info(*arguments)


@pytest.mark.parametrize("fov", [0.0, 180.0, -10.0, math.nan])
def test_an_impossible_field_of_view_is_refused(fov):
    with pytest.raises(SensorError, match="field of view"):
        CameraModel.from_fov(640, 480, fov)
