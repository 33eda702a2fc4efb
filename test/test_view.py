"""The view: markers on the ground appear where the map has them, whichever way the drone looks."""

import math
from dataclasses import replace

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aerial_vpr_cl.errors import SensorError
from aerial_vpr_cl.geo.camera import EQUIDISTANT, CameraModel
from aerial_vpr_cl.geo.rotation import from_angles
from aerial_vpr_cl.images import decode_compressed, encode_jpeg
from aerial_vpr_cl.localization.estimate import LOOKS_AWAY, OTHER_CAMERA, SEES_LITTLE, Rejection
from aerial_vpr_cl.localization.view import AS_SEEN, UNKNOWN_SCALE, View, ViewSettings, enough_px, make_view
from aerial_vpr_cl.mission.situation import Situation, camera_mount
from aerial_vpr_cl.simulation.camera import CameraSettings, Pose, ground_to_image

WIDTH, HEIGHT, FOV = 640, 480, 62.0
SETTINGS = ViewSettings(footprint_m=200.0, size_px=160)
PINHOLE = CameraModel.from_fov(WIDTH, HEIGHT, FOV)
BARREL = replace(PINHOLE, distortion=(-0.25, 0.08, 0.001, -0.001))
FISHEYE = CameraModel(WIDTH, HEIGHT, 520.0, 520.0, 315.0, 245.0, (0.02, -0.004), EQUIDISTANT)
GREY, MARKER = 60, 255


def known(camera=PINHOLE, mount=None, angles=(0.0, 0.0, 0.0), height_m=200.0, **more) -> Situation:
    mount = camera_mount() if mount is None else mount
    return Situation(camera, mount, from_angles(*angles), 3.0, 1.0, height_m, **more)


def frame_with_marker(pixel) -> np.ndarray:
    image = np.full((HEIGHT, WIDTH, 3), GREY, np.uint8)
    # Four bits of fraction: the marker is drawn where it is, not at the next whole pixel.
    cv2.circle(image, [round(float(value) * 16) for value in pixel], 6 * 16, (MARKER,) * 3, -1, cv2.LINE_AA, 4)
    return image


def marker_in(view: View) -> np.ndarray:
    """(2,) east and north of the marker from the drone, as the view shows it."""
    weight = np.where(view.mask, view.image[..., 0].astype(float) - GREY, 0.0).clip(0.0)
    assert weight.max() > 0.5 * (MARKER - GREY), "the marker is not in the view"
    rows, columns = np.indices(weight.shape)
    middle = (len(weight) - 1) / 2.0
    column, row = (np.sum(place * weight) / weight.sum() for place in (columns, rows))
    return view.offset_m + np.array([column - middle, middle - row]) * view.metres_per_px


def pixel_by_vectors(camera, heading, pitch, roll, height_m, east_north):
    """Where a camera that looks straight down from the body sees a point, written from the flight axes by hand."""
    heading, pitch, roll = np.radians([heading, pitch, roll])
    flat_forward = np.array([math.sin(heading), math.cos(heading), 0.0])
    flat_right = np.array([math.cos(heading), -math.sin(heading), 0.0])
    up = np.array([0.0, 0.0, 1.0])
    forward = math.cos(pitch) * flat_forward + math.sin(pitch) * up
    belly = math.cos(pitch) * -up + math.sin(pitch) * flat_forward
    right = math.cos(roll) * flat_right + math.sin(roll) * belly
    belly = math.cos(roll) * belly - math.sin(roll) * flat_right
    to_point = np.array([*east_north, -height_m])
    point = np.array([to_point @ right, to_point @ -forward, to_point @ belly])
    k = np.array([[camera.fx, 0.0, camera.cx], [0.0, camera.fy, camera.cy], [0.0, 0.0, 1.0]])
    if camera.distortion_model == EQUIDISTANT:
        coefficients = np.array([*camera.distortion, 0.0, 0.0])
        pixel, _ = cv2.fisheye.projectPoints(point[None, None], np.zeros(3), np.zeros(3), k, coefficients)
    else:
        coefficients = np.array([*camera.distortion, 0.0] if camera.distortion else [0.0] * 5)
        pixel, _ = cv2.projectPoints(point[None], np.zeros(3), np.zeros(3), k, coefficients)
    return pixel.reshape(2)


def shown(situation: Situation, pixel) -> np.ndarray:
    view = make_view(frame_with_marker(pixel), situation, SETTINGS)
    assert isinstance(view, View)
    return marker_in(view)


def near(found, expected, metres=1.5):
    return float(np.hypot(*(np.asarray(found) - expected))) < metres


@pytest.mark.parametrize(
    ("heading", "east_north"),
    [(0.0, (0.0, 60.0)), (90.0, (60.0, 0.0)), (180.0, (0.0, -60.0)), (270.0, (-60.0, 0.0))],
)
def test_what_is_at_the_top_of_the_frame_lies_where_the_drone_heads(heading, east_north):
    above_the_middle = (PINHOLE.cx, PINHOLE.cy - 60.0 / 200.0 * PINHOLE.fy)
    assert near(shown(known(angles=(heading, 0.0, 0.0)), above_the_middle), east_north)


@pytest.mark.parametrize(
    ("mount", "east_north"),
    [
        (camera_mount(turn_deg=90.0), (60.0, 0.0)),  # the image's top points to the drone's right
        (camera_mount(turn_deg=-90.0), (-60.0, 0.0)),
        (camera_mount(forward_deg=20.0), (0.0, 200.0 * math.tan(math.radians(20.0) + math.atan(0.3)))),
        (camera_mount(turn_deg=90.0, forward_deg=20.0), (200.0 * math.tan(math.radians(20.0) + math.atan(0.3)), 0.0)),
    ],
)
def test_the_mount_of_the_camera_is_taken_out(mount, east_north):
    above_the_middle = (PINHOLE.cx, PINHOLE.cy - 60.0 / 200.0 * PINHOLE.fy)
    assert near(shown(known(mount=mount), above_the_middle), east_north)


def test_a_camera_that_is_tilted_to_the_right_looks_to_the_right():
    view = make_view(frame_with_marker((5, 5)), known(mount=camera_mount(right_deg=15.0)), SETTINGS)
    assert view.offset_m == pytest.approx([200.0 * math.tan(math.radians(15.0)), 0.0])


@given(
    st.sampled_from([PINHOLE, BARREL, FISHEYE]),
    st.floats(0.0, 360.0),
    st.floats(-20.0, 20.0),
    st.floats(-20.0, 20.0),
    st.floats(150.0, 400.0),
    st.tuples(st.floats(-0.15, 0.15), st.floats(-0.15, 0.15)),
)
@settings(max_examples=60, deadline=None)
def test_a_marker_appears_where_it_lies(camera, heading, pitch, roll, height_m, beside):
    situation = known(camera, angles=(heading, pitch, roll), height_m=height_m)
    seen_from = make_view(np.zeros((HEIGHT, WIDTH, 3), np.uint8), situation, SETTINGS)
    place = seen_from.offset_m + np.array(beside) * height_m
    pixel = pixel_by_vectors(camera, heading, pitch, roll, height_m, place)
    assert near(shown(situation, pixel), place)


@given(st.floats(0.0, 360.0), st.floats(-8.0, 8.0), st.floats(-8.0, 8.0), st.floats(-40.0, 40.0))
@settings(max_examples=30, deadline=None)
def test_the_simulated_camera_sees_the_same_ground(heading, pitch, roll, east):
    simulated = CameraSettings(width_px=WIDTH, height_px=HEIGHT, hfov_deg=FOV)
    pose = Pose(np.zeros(2), 200.0, heading, pitch, roll)
    place = np.array([east, 25.0])
    x, y, w = ground_to_image(simulated, pose) @ [*place, 1.0]
    assert near(shown(known(angles=(heading, pitch, roll)), (x / w, y / w)), place)


@pytest.mark.parametrize("wrong", ["heading", "pitch", "roll", "turn", "forward", "right"])
def test_a_wrong_sign_is_seen(wrong):
    angles = {"heading": 40.0, "pitch": 8.0, "roll": -9.0, "turn": 25.0, "forward": 7.0, "right": 6.0}
    place = np.array([30.0, 45.0])

    def situation(values):
        mount = camera_mount(values["turn"], values["forward"], values["right"])
        return known(mount=mount, angles=(values["heading"], values["pitch"], values["roll"]))

    right = situation(angles)
    (pixel,) = PINHOLE.project((np.array([[*place, -200.0]])) @ right.rotation @ right.mount)
    assert near(shown(right, pixel), place)
    mistaken = make_view(frame_with_marker(pixel), situation({**angles, wrong: -angles[wrong]}), SETTINGS)
    assert not near(marker_in(mistaken), place, metres=10.0)


def test_leaving_the_offset_out_or_taking_it_the_wrong_way_is_seen():
    situation = known(angles=(40.0, 12.0, 0.0))
    ahead = 200.0 * math.tan(math.radians(12.0))
    view = make_view(frame_with_marker((5, 5)), situation, SETTINGS)
    bearing = math.radians(40.0)
    assert view.offset_m == pytest.approx([ahead * math.sin(bearing), ahead * math.cos(bearing)], abs=0.5)


@pytest.mark.parametrize("height_m", [150.0, 200.0, 300.0])
def test_distances_on_the_ground_do_not_depend_on_the_height(height_m):
    left, right = (pixel_by_vectors(PINHOLE, 0.0, 0.0, 0.0, height_m, (east, 0.0)) for east in (-40.0, 40.0))
    situation = known(height_m=height_m)
    assert (shown(situation, right) - shown(situation, left)) == pytest.approx([80.0, 0.0], abs=1.0)


def test_a_camera_that_sees_more_is_cut_and_one_that_sees_less_is_masked():
    frame = np.full((HEIGHT, WIDTH, 3), GREY, np.uint8)
    high, low = (make_view(frame, known(height_m=height_m), SETTINGS) for height_m in (400.0, 100.0))
    assert high.mask.all() and high.footprint_m == low.footprint_m == pytest.approx(200.0)
    width_m = 2.0 * 100.0 * math.tan(math.radians(FOV / 2.0))
    assert low.seen == pytest.approx(width_m * (width_m * HEIGHT / WIDTH) / 200.0**2, rel=0.05)
    middle = len(low.mask) // 2
    assert low.mask[middle, middle] and not low.mask[0].any() and not low.mask[:, 0].any()


def test_a_fine_stripe_pattern_becomes_grey_and_not_a_coarse_one():
    frame = np.zeros((2400, 3200, 3), np.uint8)
    frame[:, ::2] = 255
    situation = known(CameraModel.from_fov(3200, 2400, FOV), height_m=200.0)
    view = make_view(frame, situation, SETTINGS)
    assert view.image[view.mask].std() < 10.0
    assert view.image[view.mask].mean() == pytest.approx(127.5, abs=3.0)


def test_a_resized_image_gives_the_same_view():
    place = (30.0, -20.0)
    full = frame_with_marker(pixel_by_vectors(PINHOLE, 30.0, 5.0, 3.0, 200.0, place))
    small = cv2.resize(full, (WIDTH // 2, HEIGHT // 2), interpolation=cv2.INTER_AREA)
    assert near(marker_in(make_view(small, known(angles=(30.0, 5.0, 3.0)), SETTINGS)), place)


def test_without_attitude_the_top_of_the_frame_is_up_and_the_heading_unknown():
    above_the_middle = (PINHOLE.cx, PINHOLE.cy - 0.2 * PINHOLE.fy)
    situation = Situation(PINHOLE, height_m=200.0)
    view = make_view(frame_with_marker(above_the_middle), situation, SETTINGS)
    assert view.heading_sigma_deg == 180.0
    assert near(marker_in(view), (0.0, 40.0))
    assert view.offset_sigma_m > 20.0  # a drone of unknown tilt may look anywhere around its own place


def test_an_attitude_with_an_unknown_heading_still_levels_the_view():
    place_ahead = 200.0 * math.tan(math.radians(10.0) + 0.2)
    pixel = pixel_by_vectors(
        PINHOLE, 77.0, 10.0, 0.0, 200.0, np.array([math.sin(1.3439), math.cos(1.3439)]) * place_ahead
    )
    situation = replace(known(angles=(77.0, 10.0, 0.0)), heading_sigma_deg=180.0)
    view = make_view(frame_with_marker(pixel), situation, SETTINGS)
    assert view.heading_sigma_deg == 180.0
    assert near(marker_in(view), (0.0, place_ahead))


@pytest.mark.parametrize("missing", ["height", "camera"])
def test_without_height_or_camera_the_frame_fills_the_footprint_and_the_scale_is_unknown(missing):
    situation = known(height_m=None) if missing == "height" else replace(known(), camera=None)
    frame = np.full((HEIGHT, WIDTH, 3), GREY, np.uint8)
    view = make_view(frame, situation, SETTINGS)
    assert view.scale_sigma == UNKNOWN_SCALE
    assert view.seen > 0.99
    a_bit_larger = make_view(frame, situation, replace(SETTINGS, footprint_m=2.0 * SETTINGS.footprint_m))
    assert a_bit_larger.seen > 0.99


def test_nothing_known_is_still_a_view():
    view = make_view(np.full((HEIGHT, WIDTH, 3), GREY, np.uint8), Situation(), SETTINGS)
    assert isinstance(view, View) and view.mask.all()
    assert (view.heading_sigma_deg, view.scale_sigma) == (180.0, UNKNOWN_SCALE)


def test_sigmas_come_from_what_is_known():
    frame = np.full((HEIGHT, WIDTH, 3), GREY, np.uint8)
    level = make_view(frame, replace(known(), height_sigma_m=10.0), SETTINGS)
    assert level.heading_sigma_deg == 3.0
    assert level.scale_sigma == pytest.approx(0.05)
    assert level.offset_sigma_m == pytest.approx(200.0 * math.tan(math.radians(1.0)), rel=0.01)
    tilted = make_view(frame, known(angles=(0.0, 30.0, 0.0)), SETTINGS)
    moved = make_view(frame, known(angles=(0.0, 31.0, 0.0)), SETTINGS)
    assert tilted.offset_sigma_m == pytest.approx(np.hypot(*(moved.offset_m - tilted.offset_m)), rel=0.05)
    assert [math.degrees(view.tilt_sigma) for view in (level, tilted)] == pytest.approx([1.0, 1.0])


def test_as_seen_is_the_whole_frame_squeezed():
    frame = np.random.default_rng(0).integers(0, 255, (HEIGHT, WIDTH, 3), np.uint8)
    view = make_view(frame, known(angles=(90.0, 10.0, 0.0)), replace(SETTINGS, kind=AS_SEEN))
    assert np.array_equal(view.image, cv2.resize(frame, (160, 160), interpolation=cv2.INTER_AREA))
    assert view.mask.all() and view.heading_sigma_deg == 180.0


@pytest.mark.parametrize(
    ("situation", "reason"),
    [
        (known(angles=(0.0, 75.0, 0.0)), LOOKS_AWAY),
        (known(angles=(0.0, 0.0, 180.0)), LOOKS_AWAY),
        (known(mount=camera_mount(forward_deg=90.0)), LOOKS_AWAY),
        (known(height_m=0.5), SEES_LITTLE),
        (known(BARREL, height_m=0.5), SEES_LITTLE),
        (known(CameraModel.from_fov(1920, 1080, FOV)), OTHER_CAMERA),
    ],
)
def test_a_frame_that_shows_no_ground_is_refused_with_a_reason(situation, reason):
    answer = make_view(np.full((HEIGHT, WIDTH, 3), GREY, np.uint8), situation, SETTINGS)
    assert isinstance(answer, Rejection) and answer.reason == reason


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"height_m": 0.0}, "height"),
        ({"height_m": -3.0}, "height"),
        ({"height_m": math.nan}, "height"),
        ({"rotation": np.zeros((3, 3))}, "attitude"),
        ({"rotation": np.full((3, 3), np.nan)}, "attitude"),
        ({"mount": np.diag([1.0, 1.0, -1.0])}, "mount"),
        ({"tilt_sigma_deg": math.nan}, "sigmas"),
    ],
)
def test_impossible_knowledge_is_refused_with_words(values, words):
    with pytest.raises(SensorError, match=words):
        Situation(**values)


@pytest.mark.parametrize("camera", [PINHOLE, BARREL])
@pytest.mark.parametrize("angles", [(0.0, 0.0, 0.0), (70.0, 12.0, -8.0)])
@pytest.mark.parametrize("height_m", [60.0, 110.0])
def test_a_view_of_as_many_pixels_as_are_enough_is_the_view_of_all(camera, angles, height_m):
    noise = np.random.default_rng(1).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
    scene = cv2.normalize(cv2.GaussianBlur(noise, (0, 0), 8), None, 0, 255, cv2.NORM_MINMAX)
    jpeg, situation = encode_jpeg(scene, 97), known(camera, angles=angles, height_m=height_m)
    whole = decode_compressed(jpeg)
    small = decode_compressed(jpeg, enough_px=enough_px(situation, SETTINGS))
    assert len(small) < len(whole)
    one, other = (make_view(image, situation, SETTINGS) for image in (whole, small))
    np.testing.assert_array_equal(one.mask, other.mask)
    np.testing.assert_allclose(one.offset_m, other.offset_m)
    inside = cv2.erode(one.mask.astype(np.uint8), np.ones((5, 5))).astype(bool)
    grey = [cv2.cvtColor(view.image, cv2.COLOR_RGB2GRAY).astype(np.float32) * inside for view in (one, other)]
    (across, down), _ = cv2.phaseCorrelate(*grey)
    assert abs(across) < 0.15 and abs(down) < 0.15  # pixels of the view
    assert np.abs(grey[0] - grey[1])[inside].mean() < 6.0


def test_every_pixel_is_wanted_where_nothing_is_known_of_the_camera_or_the_ground():
    assert enough_px(Situation(), SETTINGS) == math.inf
    assert enough_px(known(), ViewSettings(AS_SEEN)) == math.inf
    assert enough_px(known(angles=(0.0, 80.0, 0.0)), SETTINGS) == math.inf


@given(st.floats(20.0, 500.0), st.floats(-40.0, 40.0))
def test_higher_or_more_tilted_cameras_need_more_pixels(height_m, tilt_deg):
    level = enough_px(known(height_m=height_m), SETTINGS)
    assert enough_px(known(height_m=1.5 * height_m), SETTINGS) == pytest.approx(1.5 * level)
    assert enough_px(known(angles=(0.0, tilt_deg, 0.0), height_m=height_m), SETTINGS) >= level * (1 - 1e-9)
