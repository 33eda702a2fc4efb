"""Calibration: what is held back for it, and what it is fitted on."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aerial_vpr_cl.learning.calibration import RUN, hold_back, in_other_looks


@given(st.integers(0, 400), st.floats(0.0, 0.5))
def test_every_frame_is_learnt_or_held_back_and_both_stay_in_order(n, share):
    learnt, held = hold_back(range(n), share)
    assert sorted(learnt + held) == list(range(n)) and learnt == sorted(learnt) and held == sorted(held)
    assert share * n - RUN < len(held) <= share * n + 1e-9
    assert len(held) % RUN == 0


@given(st.integers(50, 400))
def test_neighbours_are_held_back_together_and_all_over_the_flight(n):
    _, held = hold_back(range(n), 0.2)
    runs = np.array(held).reshape(-1, RUN)
    assert (np.diff(runs, axis=1) == 1).all()
    edges = [0, *runs.mean(axis=1), n]
    assert np.ptp(np.diff(runs[:, 0])) <= 1 and max(np.diff(edges)) < 2 * n / len(runs)


def test_a_short_flight_is_learnt_whole():
    assert hold_back(range(40), 0.1) == (list(range(40)), [])


def test_other_looks_follow_from_the_seed_and_differ_from_each_other():
    same = np.repeat(np.random.default_rng(0).integers(0, 256, (1, 24, 24, 3), np.uint8), 6, axis=0)
    looks = in_other_looks(same, seed=4)
    assert np.array_equal(looks, in_other_looks(same, seed=4)) and looks.shape == same.shape
    assert len({look.tobytes() for look in looks}) == 6
    assert not np.array_equal(looks, in_other_looks(same, seed=5))
