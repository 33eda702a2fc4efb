"""Registration finds where a view belongs, whatever changed its looks, and says when it cannot."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from registration_support import look_down, painted_ground, painted_map, place
from synthetic_rasters import NORTH, WEST

from aerial_vpr_cl.localization import refinement
from aerial_vpr_cl.localization.correlation import Window, null_sigma
from aerial_vpr_cl.localization.map_orientation import MapOrientation
from aerial_vpr_cl.localization.registration import register
from aerial_vpr_cl.localization.template import Hypothesis, TemplateMaker

TRUTH = place(1243.0, 811.0)


@pytest.fixture(scope="module")
def satellite(tmp_path_factory):
    return painted_map(tmp_path_factory.mktemp("ground"))


@pytest.fixture(scope="module")
def ground(satellite):
    return MapOrientation.of([satellite])


def error_m(registration, truth):
    return float(np.hypot(*(registration.peak.position - truth)))


def test_scores_equal_masked_correlation_written_from_its_definition(ground, satellite):
    level = ground.levels[0]
    template = TemplateMaker(look_down(satellite, TRUTH), level.step_m).make(Hypothesis())
    height, width = template.planes.shape[1:]
    channel = level.window(-6, 20, height + 30, width + 25)
    window, larger = Window.of(channel), Window.of(channel, (height + 45, width + 40))
    scores, shares = window.scores(template), window.known_share(template)
    assert larger.size == (height + 45, width + 40)
    assert np.allclose(larger.scores(template, slice(2, 20))[:, :25], scores[2:20, :25], atol=0.05)
    for row, column in [(0, 0), (3, 7), (29, 24), (11, 19)]:
        under = channel.planes[:, row : row + height, column : column + width]
        known = channel.known[row : row + height, column : column + width]
        assert scores[row, column] == pytest.approx(float((template.planes * under).sum()), abs=0.05)
        energy = (template.planes**2).sum(axis=0)
        assert shares[row, column] == pytest.approx(float(energy[known].sum() / energy.sum()), abs=1e-3)


def test_chance_deviates_as_the_spectra_say(ground, satellite):
    """Scores of mirrored views, which belong nowhere, have the predicted standard deviation over the whole map."""
    level = ground.levels[0]
    seen = []
    for truth in [place(700, 600), place(1300, 900), place(900, 1100)]:
        view = look_down(satellite, truth)
        mirrored = dataclasses.replace(view, image=np.ascontiguousarray(view.image[:, ::-1]))
        template = TemplateMaker(mirrored, level.step_m).make(Hypothesis())
        channel = level.window(2, 2, level.height - 4, level.width - 4)
        height, width = template.planes.shape[1:]
        inside = Window.of(channel).scores(template)[: level.height - 4 - height, : level.width - 4 - width]
        seen.append(float(np.sqrt((inside**2).mean())) / null_sigma(template, level))
    assert 0.7 < np.mean(seen) < 1.4


@hypothesis_settings(max_examples=8, deadline=None)
@given(st.floats(330, 1770), st.floats(330, 1370))
def test_a_view_is_found_anywhere_within_metres_and_proven(ground, satellite, east, south):
    truth = place(east, south)
    found = register(look_down(satellite, truth), ground)
    assert error_m(found, truth) < 8.0
    assert found.peak.proof > 0.99


def test_an_unsure_tilt_leaves_room_as_far_as_it_reaches(ground, satellite):
    """Also where the whole map was searched with coarse pixels and only the best places with finer ones."""
    sigma_m = 30.0
    view = dataclasses.replace(look_down(satellite, TRUTH), offset_sigma_m=sigma_m)
    for where in (None, [(*(TRUTH - 200.0), *(TRUTH + 200.0))]):
        found = register(view, ground, where)
        (surface,) = found.surfaces
        ratio = np.exp(surface.log_likelihood.astype(float))
        east = surface.west + (np.arange(ratio.shape[1]) + 0.5) * surface.step_m - TRUTH[0]
        north = surface.north - (np.arange(ratio.shape[0]) + 0.5) * surface.step_m - TRUTH[1]
        for weights, apart in ((ratio.sum(axis=0), east), (ratio.sum(axis=1), north)):
            assert np.sqrt(weights @ apart**2 / weights.sum()) == pytest.approx(sigma_m, rel=0.15)
        assert found.peak.proof > 0.95


def test_the_answer_moves_with_the_drone(ground, satellite):
    steps = np.array([[0.0, 0.0], [37.0, 0.0], [0.0, -52.0], [3.0, 4.0]])
    answers = np.array([register(look_down(satellite, TRUTH + step), ground).peak.position for step in steps])
    assert np.abs(answers - answers[0] - steps).max() < 4.0


@pytest.mark.parametrize(
    "changed",
    [
        lambda image: 255 - image,
        lambda image: (image * 0.4 + 90).astype(np.uint8),
        lambda image: np.repeat(255 - image[..., :1], 3, axis=2),
    ],
    ids=["inverted", "dim", "inverted infrared"],
)
def test_inversion_and_brightness_change_neither_place_nor_proof(ground, satellite, changed):
    view = look_down(satellite, TRUTH)
    plain = register(view, ground)
    other = register(dataclasses.replace(view, image=changed(view.image)), ground)
    assert np.abs(other.peak.position - plain.peak.position).max() < 5.0
    assert other.peak.proof > 0.99


def test_a_known_turn_and_growth_are_recovered(ground, satellite):
    for turn, scale in [(5.0, 1.06), (-4.0, 0.95), (2.2, 1.0)]:
        view = look_down(satellite, TRUTH, turn_deg=turn, scale=scale, heading_sigma_deg=4.0, scale_sigma=0.05)
        found = register(view, ground)
        assert error_m(found, TRUTH) < 10.0
        assert found.peak.heading_correction_deg == pytest.approx(turn, abs=1.5)
        assert found.peak.scale_correction == pytest.approx(scale, abs=0.025)
        assert found.peak.heading_sigma_deg < 3.0


def test_an_unknown_heading_is_found(ground, satellite):
    found = register(look_down(satellite, TRUTH, turn_deg=143.0, heading_sigma_deg=180.0), ground)
    assert error_m(found, TRUTH) < 10.0
    assert found.peak.heading_correction_deg % 360.0 == pytest.approx(143.0, abs=3.0)


def test_the_position_is_the_drones_and_not_that_of_the_ground_it_looks_at(ground, satellite):
    view = look_down(satellite, TRUTH, turn_deg=6.0, heading_sigma_deg=4.0, offset_m=(60.0, -85.0))
    assert error_m(register(view, ground), TRUTH) < 10.0


def test_a_view_without_structure_gives_no_proof(ground, satellite):
    view = look_down(satellite, TRUTH)
    rng = np.random.default_rng(0)
    for image in [np.full_like(view.image, 93), rng.integers(90, 96, view.image.shape).astype(np.uint8)]:
        found = register(dataclasses.replace(view, image=image), ground)
        assert found.peak is None or found.peak.proof < 0.5


def test_a_view_of_another_place_gives_no_proof(ground, satellite, tmp_path):
    elsewhere = painted_map(tmp_path, painted_ground(seed=5))
    for truth in [place(700, 600), place(1300, 900)]:
        assert register(look_down(elsewhere, truth), ground).peak.proof < 0.9


def test_no_data_never_attracts(tmp_path):
    """A hole and the map's border: their edges are no gradients, and nothing is said of places above them."""
    image = painted_ground()
    image[120:240, 150:290] = 0
    holed = MapOrientation.of([painted_map(tmp_path, image, nodata=0)])
    level = holed.levels[0]
    hole = level.window(64, 80, 50, 60)
    assert not hole.known.any() and not hole.planes.any()
    border = level.window(57, 90, 8, 40)
    assert np.hypot(*border.planes[:, border.known]).max() < 1.3  # capped, as anywhere
    other = painted_map(tmp_path, painted_ground(seed=9))
    for sigma in (0.0, 4.0):  # searched finely and coarsely
        surface = register(look_down(other, place(700, 600), heading_sigma_deg=sigma), holed).surfaces[0]
        said, per_px = surface.log_likelihood, 10.0 / surface.step_m
        top, bottom, left, right = (round(edge * per_px) for edge in (75, 105, 90, 130))
        assert np.all(said[top:bottom, left:right] == 0.0)
        assert np.all(said[0] == 0.0) and np.all(said[:, -1] == 0.0)


def test_windows_say_what_the_whole_map_says(ground, satellite):
    view = look_down(satellite, TRUTH)
    whole = register(view, ground)
    east, north = TRUTH
    part = register(view, ground, [(east - 150, north - 150, east + 150, north + 150)])
    assert np.allclose(part.peak.position, whole.peak.position, atol=1e-6)
    assert part.peak.z == pytest.approx(whole.peak.z, rel=1e-3)
    surface, all_of_it = part.surfaces[0], whole.surfaces[0]
    row = round((all_of_it.north - surface.north) / surface.step_m)
    column = round((surface.west - all_of_it.west) / surface.step_m)
    height, width = surface.log_likelihood.shape
    same = all_of_it.log_likelihood[row : row + height, column : column + width]
    best = np.unravel_index(same.argmax(), same.shape)
    near = (slice(best[0] - 3, best[0] + 4), slice(best[1] - 3, best[1] + 4))
    assert np.allclose(same[near], surface.log_likelihood[near], atol=0.05)


def test_looking_at_every_peak_more_finely_would_not_change_the_answer(ground, satellite, monkeypatch):
    view = look_down(satellite, TRUTH, turn_deg=2.0, heading_sigma_deg=4.0, scale_sigma=0.05)
    quick = register(view, ground).peak
    monkeypatch.setattr(refinement, "REFINE_MARGIN", math.inf)
    thorough = register(view, ground).peak
    assert np.allclose(quick.position, thorough.position)
    assert quick.proof == pytest.approx(thorough.proof, abs=1e-4)


def test_a_window_off_the_map_says_nothing(ground, satellite):
    nothing = register(look_down(satellite, TRUTH), ground, [(WEST - 900, NORTH + 100, WEST - 300, NORTH + 500)])
    assert nothing.peak is None and nothing.surfaces == []


def test_an_unsure_tilt_widens_the_answer(ground, satellite):
    view = look_down(satellite, TRUTH)
    sure = register(view, ground).peak.covariance
    unsure = register(dataclasses.replace(view, offset_sigma_m=15.0), ground).peak.covariance
    assert np.all(np.diag(unsure) > np.diag(sure) + 50.0)
    assert np.linalg.eigvalsh(unsure).min() > 0.0
