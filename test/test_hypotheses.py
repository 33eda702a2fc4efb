"""Headings and scales that are tried lie close enough, and what is believed of them adds up."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from aerial_vpr_cl.localization.hypotheses import Axis, Spread, settle, vertex
from aerial_vpr_cl.localization.view import View

VIEW = View(np.zeros((8, 8, 3), np.uint8), np.ones((8, 8), np.bool_), 50.0, np.zeros(2), 0.0, 0.0, 0.0)


@hypothesis_settings(deadline=None)
@given(st.floats(0.0, 25.0), st.floats(0.0, 0.3), st.sampled_from([10.0, 5.0, 2.5]))
def test_hypotheses_reach_two_sigmas_and_their_weights_add_up(heading_sigma, scale_sigma, step):
    view = dataclasses.replace(VIEW, heading_sigma_deg=heading_sigma, scale_sigma=scale_sigma)
    spread = Spread.of(view, step)
    tried = spread.all()
    assert sum(hypothesis.weight for hypothesis in tried) == pytest.approx(1.0)
    for axis, sigma in [(spread.turns, heading_sigma), (spread.scales, scale_sigma)]:
        assert max(axis.values) + axis.spacing / 2 >= 2.0 * sigma - 1e-9


def test_what_is_known_is_tried_once_and_an_unknown_heading_all_round():
    assert len(Spread.of(VIEW, 10.0).all()) == 1
    assert len(Spread.of(VIEW, 10.0).around(Spread.of(VIEW, 10.0).all()[0])) == 1
    turns = np.sort([h.turn_deg for h in Spread.of(dataclasses.replace(VIEW, heading_sigma_deg=180.0), 5.0).all()])
    assert np.allclose(np.diff(turns), 360.0 / len(turns))
    assert 36 <= len(turns) <= 72


def test_a_finer_look_at_one_value_believes_as_much():
    axis = Axis.spread(4.0, 0.9)
    assert axis.values == (0.0,)
    assert sum(weight for _, weight in axis.finer(0.0, 2.0)) == pytest.approx(1.0)


@hypothesis_settings(deadline=None)
@given(st.floats(-0.49, 0.49), st.floats(0.2, 5.0))
def test_a_parabola_is_found_between_its_samples(middle, curvature):
    samples = -curvature * (np.arange(-2, 3) - middle) ** 2
    assert vertex(samples, 2) == pytest.approx(middle, abs=1e-9)


def test_the_best_value_lies_between_those_tried_and_its_sigma_shrinks():
    values = np.repeat([-2.0, 0.0, 2.0], 2)
    masses = np.exp(-0.5 * ((values - 0.6) / 1.0) ** 2)
    best, sigma = settle(values, masses, 5.0)
    assert best == pytest.approx(0.6, abs=1e-6)
    assert 0.5 < sigma < 2.0
