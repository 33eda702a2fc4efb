"""Ground that changed comes in stretches: views over it say nothing, and a track outlives them."""

from __future__ import annotations

import numpy as np
import pytest
from belief_support import lattice_of, peak_at
from hypothesis import given
from hypothesis import strategies as st
from registration_support import painted_map
from tracker_support import Drone, tracker_over

from aerial_vpr_cl.localization.belief import Belief
from aerial_vpr_cl.localization.blind_stretch import USUAL, BlindStretch
from aerial_vpr_cl.localization.estimate import Estimate, Rejection
from aerial_vpr_cl.localization.instruments import Instrument
from aerial_vpr_cl.localization.states import OFF_MAP, SEARCHING, TRACKING, Signs, StateMachine


@given(st.lists(st.tuples(st.floats(0.0, 2.0), st.floats(0.0, 1e6)), max_size=30))
def test_it_stays_a_probability(views):
    stretch = BlindStretch()
    for news, evidence in views:
        stretch.move(news)
        stretch.see(evidence)
        assert 0.0 <= stretch.probability <= 1.0


def test_views_that_fit_nowhere_make_the_next_one_suspect_and_new_ground_gives_it_its_chance_back():
    stretch = BlindStretch()
    for _ in range(5):
        stretch.see(0.2)
    assert stretch.probability > 0.9
    stretch.move(100.0)
    assert stretch.probability == pytest.approx(USUAL)
    stretch.see(1e4)
    assert stretch.probability < 1e-4


def test_a_blind_view_says_nothing_and_a_half_blind_one_is_the_mixture_of_both():
    surfaces = [peak_at((700.0, 1000.0), 3.0)]
    sighted, half, blind = Belief(lattice_of()), Belief(lattice_of()), Belief(lattice_of())
    before = blind.histogram.window((0, 200), (0, 300)).copy()
    evidence = sighted.update(surfaces)
    assert half.update(surfaces, blind=0.5) == pytest.approx(evidence)
    blind.update(surfaces, blind=1.0)
    np.testing.assert_allclose(blind.histogram.window((0, 200), (0, 300)), before)
    seen = sighted.histogram.window((0, 200), (0, 300))
    mixture = (0.5 * before + 0.5 * evidence * seen) / (0.5 + 0.5 * evidence)
    np.testing.assert_allclose(half.histogram.window((0, 200), (0, 300)), mixture, rtol=1e-9)


def test_a_frame_that_told_nothing_neither_confirms_nor_unsettles():
    states = StateMachine(confirmations=2)
    speaks, silent = Signs(True, True, False, 0.0), Signs(True, None, None, 0.0)
    against = Signs(True, False, False, 0.0)
    assert [states.advance(signs) for signs in (speaks, silent, silent, speaks)] == [SEARCHING] * 3 + [TRACKING]
    states.reset()
    assert [states.advance(signs) for signs in (speaks, against, speaks)] == [SEARCHING] * 3


def test_an_instrument_errs_no_more_than_it_states_until_it_is_believed_no_more():
    compass = Instrument(180.0, 0.5, period=360.0)
    for _ in range(2000):
        compass.predict(0.0, 1.0, 5.0)
        compass.read(90.0, 4.0)
    assert 2.0 < compass.sigma < 5.0
    compass.widen()
    for _ in range(5):
        compass.predict(0.0, 1.0, 5.0)
        compass.read(90.0, 4.0)
    assert compass.sigma > 100.0


def test_a_track_outlives_ground_that_is_not_what_the_map_shows(tmp_path):
    satellite = painted_map(tmp_path)
    tracker, drone = tracker_over(satellite), Drone(satellite)
    rng, answers = np.random.default_rng(0), []
    for number in range(27):
        motion = drone.fly(20.0, 10.0) if number else None  # a circle
        image = drone.look()
        if 8 <= number < 20:
            coarse = rng.integers(0, 256, (15, 15, 3), np.uint8)  # fields of another country
            image = np.kron(coarse, np.ones((8, 8, 1), np.uint8)).astype(np.uint8)
        answers.append(tracker.step(drone.stamp_ns, image, drone.situation(), motion))
        if isinstance(answers[-1], Estimate):
            assert np.hypot(*(answers[-1].position - drone.position)) < 60.0
    assert isinstance(answers[7], Estimate)
    assert all(isinstance(answer, Rejection) for answer in answers[10:20])
    assert OFF_MAP not in [answer.state for answer in answers]
    assert isinstance(answers[-1], Estimate)
