"""A camera that leans further than the attitude says is caught by the perspective it leaves in the view."""

import dataclasses
import math

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from registration_support import FOOTPRINT_M, PIXEL_M, VIEW_PX, painted_ground, painted_map, place
from synthetic_rasters import NORTH, WEST

from aerial_vpr_cl.localization.map_orientation import MapOrientation
from aerial_vpr_cl.localization.perspective import derivatives, displaced, tilt
from aerial_vpr_cl.localization.registration import RegistrationSettings, register
from aerial_vpr_cl.localization.view import View

TRUTH = place(1043.0, 811.0)
HEIGHT_M = 330.0
TILT_SIGMA = math.radians(3.0)
AS_STATED = RegistrationSettings(read_tilt=False)

angles = st.floats(-0.08, 0.08)
ground_points = st.tuples(st.floats(-300.0, 300.0), st.floats(-300.0, 300.0))


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    return MapOrientation.of([painted_map(tmp_path_factory.mktemp("ground"))])


def leaning(east_deg: float, north_deg: float, position=TRUTH) -> View:
    """The view of a camera that leans so far and is thought to look straight down."""
    steps = (np.arange(VIEW_PX) - (VIEW_PX - 1) / 2.0) * FOOTPRINT_M / VIEW_PX
    supposed = np.stack(np.meshgrid(steps, -steps), axis=-1).reshape(-1, 2)
    seen = position + tilt(supposed, HEIGHT_M, np.radians([east_deg, north_deg]))
    pixels = ((seen - [WEST, NORTH]) * [1.0, -1.0] / PIXEL_M - 0.5).astype(np.float32).reshape(VIEW_PX, VIEW_PX, 2)
    image = cv2.remap(painted_ground(), pixels[..., 0], pixels[..., 1], cv2.INTER_LINEAR)
    return View(
        image=np.asarray(image, np.uint8),
        mask=np.ones((VIEW_PX, VIEW_PX), np.bool_),
        metres_per_px=FOOTPRINT_M / VIEW_PX,
        offset_m=np.zeros(2),
        offset_sigma_m=HEIGHT_M * TILT_SIGMA,
        heading_sigma_deg=2.0,
        scale_sigma=0.02,
        height_m=HEIGHT_M,
    )


@given(ground_points, angles, angles)
def test_tilted_rays_meet_the_ground_where_a_rotation_puts_them(point, east, north):
    angle = math.hypot(east, north)
    # Straight down leans east by a turn about the axis that points north, and north by one against east.
    turn, _ = cv2.Rodrigues(np.array([north, -east, 0.0]))
    ray = turn @ np.array([*point, -HEIGHT_M])
    expected = ray[:2] * HEIGHT_M / -ray[2]
    found = tilt(np.array([point]), HEIGHT_M, np.array([east, north]))[0]
    assert found == pytest.approx(expected, abs=1e-6 + 1e-6 * angle)


@given(ground_points, st.integers(0, 5))
def test_derivatives_are_those_of_the_displacement(point, which):
    values = np.zeros(6)
    values[which] = 1e-5
    points = np.array([point])
    slope = (displaced(values, points, HEIGHT_M) - displaced(-values, points, HEIGHT_M)) / 2e-5
    assert derivatives(points, HEIGHT_M)[:, :, which] == pytest.approx(slope, abs=1e-3)


@hypothesis_settings(max_examples=6, deadline=None)
@given(st.floats(0.0, 360.0))
def test_a_known_tilt_is_recovered_and_the_drone_put_where_it_is(ground, bearing_deg):
    lean = 3.5 * np.array([math.sin(math.radians(bearing_deg)), math.cos(math.radians(bearing_deg))])
    view = leaning(*lean)
    stated, read = register(view, ground, settings=AS_STATED).peak, register(view, ground).peak
    assert np.hypot(*(stated.position - TRUTH)) > 12.0
    assert np.hypot(*(read.position - TRUTH)) < 8.0
    assert np.hypot(*(read.perspective.tilt_deg - lean)) < 1.2
    assert np.linalg.det(read.covariance) < 0.5 * np.linalg.det(stated.covariance)
    assert read.proof > 0.99


def test_a_level_camera_stays_where_it_is(ground):
    found = register(leaning(0.0, 0.0), ground).peak
    assert np.hypot(*(found.position - TRUTH)) < 6.0
    assert np.hypot(*found.perspective.tilt_deg) < 1.0


def test_the_belief_is_told_of_the_corrected_place(ground):
    """The likelihood surface lies around the drone, and holds as much evidence as before."""
    view = leaning(0.0, 3.5)
    where = [(*(TRUTH - 160.0), *(TRUTH + 160.0))]
    stated, read = (register(view, ground, where, s).surfaces[0] for s in (AS_STATED, RegistrationSettings()))
    row, column = np.unravel_index(read.log_likelihood.argmax(), read.log_likelihood.shape)
    best = [read.west + (column + 0.5) * read.step_m, read.north - (row + 0.5) * read.step_m]
    assert np.hypot(*(best - TRUTH)) < 12.0
    evidence = [float(np.logaddexp.reduce(s.log_likelihood, axis=None)) for s in (stated, read)]
    assert evidence[1] == pytest.approx(evidence[0], abs=0.7)


@pytest.mark.parametrize("changes", [{"height_m": None}, {"offset_sigma_m": 0.0}, {"offset_sigma_m": 60.0}])
def test_without_a_height_or_with_a_tilt_that_is_exact_or_unknown_nothing_is_read(ground, changes):
    assert register(dataclasses.replace(leaning(0.0, 3.5), **changes), ground).peak.perspective is None


def test_ground_that_shows_nothing_moves_nothing(ground):
    """Noise fits somewhere by chance; what its parts tell must leave the stated tilt about as unsure as it was."""
    noise = np.random.default_rng(0).integers(0, 256, (VIEW_PX, VIEW_PX, 3), np.uint8)
    found = register(dataclasses.replace(leaning(0.0, 0.0), image=noise), ground).peak
    if found.perspective is not None:
        assert np.sqrt(found.perspective.covariance.diagonal()).min() > 0.5 * HEIGHT_M * TILT_SIGMA
    assert found.proof < 0.5
