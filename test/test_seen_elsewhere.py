"""A flight of a camera and a receiver alone: the network contradicts a shifted receiver, and no honest one."""

import numpy as np
import pytest

from aerial_vpr_cl.learning.seen_elsewhere import shift_seen_m

SIDE = 200.0
N = 120
TRUTH = np.stack([np.linspace(0.0, 3000.0, N), 400.0 * np.sin(np.arange(N) / 20.0)], axis=1) + 10_000.0


def seen(share: float, seed: int = 0) -> np.ndarray:
    """Cell centres as a network names them, which is right so often and else anywhere on 30 km²."""
    rng = np.random.default_rng(seed)
    wrong = rng.uniform([8_000.0, 8_000.0], [15_000.0, 12_000.0], (N, 2))
    named = np.where(rng.random((N, 1)) < share, TRUTH, wrong)
    return (np.floor(named / SIDE) + 0.5) * SIDE


LIES = {
    "shifted": TRUTH + np.array([600.0, 800.0]),
    "dragged off": TRUTH + np.linspace(0.0, 1.0, N)[:, None] * np.array([600.0, 800.0]),
}


@pytest.mark.parametrize("share", [0.4, 0.7, 1.0])
@pytest.mark.parametrize("lie", LIES)
def test_a_shifted_receiver_is_contradicted_by_a_network_that_knows_the_ground(lie, share):
    for seed in range(10):
        shift = shift_seen_m(LIES[lie], seen(share, seed), SIDE)
        assert shift is not None and shift @ [-0.6, -0.8] > 400.0


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4, 1.0])
def test_an_honest_receiver_is_not_contradicted_however_little_the_network_knows(share):
    for seed in range(30):
        assert shift_seen_m(TRUTH + 5.0, seen(share, seed), SIDE) is None


def test_a_network_that_knows_nothing_contradicts_nobody():
    for seed in range(30):
        assert shift_seen_m(LIES["shifted"], seen(0.0, seed), SIDE) is None


def test_one_cell_that_everything_is_taken_for_proves_nothing():
    hovering = np.full((N, 2), 9_000.0) + np.random.default_rng(0).normal(0.0, 20.0, (N, 2))
    assert shift_seen_m(hovering, np.full((N, 2), 12_100.0), SIDE) is None


def test_frames_without_an_answer_and_short_flights_say_nothing():
    blind = seen(1.0)
    blind[10:] = np.nan
    assert shift_seen_m(LIES["shifted"], blind, SIDE) is None
    assert shift_seen_m(TRUTH[:0], TRUTH[:0], SIDE) is None
