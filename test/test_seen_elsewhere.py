"""A flight of a camera and a receiver alone: the network contradicts a shifted receiver, and no honest one."""

import numpy as np
import pytest

from aerial_vpr_cl.learning.seen_elsewhere import shift_seen_m

SIDE = 200.0
LENGTH_M = 4000.0
SPACINGS_M = [25.0, 7.5, 2.0]


def flown(spacing_m: float) -> np.ndarray:
    """Positions along a winding track."""
    way = np.arange(0.0, LENGTH_M, spacing_m)
    return np.stack([way, 400.0 * np.sin(way / 500.0)], axis=1) + 10_000.0


def seen(truth: np.ndarray, share: float, seed: int = 0, *, lasting_m: float = 0.0, spacing_m: float = 25.0):
    """Cell centres as a network names them, which is right so often and else anywhere on 30 km².

    Ground that it errs over it takes for the same other ground for so long.
    """
    rng, named = np.random.default_rng(seed), truth.copy()
    run = max(1, round(lasting_m / spacing_m))
    for start in range(0, len(truth), run):
        if rng.random() >= share:
            part = slice(start, start + run)
            named[part] += rng.uniform([8_000.0, 8_000.0], [15_000.0, 12_000.0]) - truth[start]
    return (np.floor(named / SIDE) + 0.5) * SIDE


def lies(truth: np.ndarray) -> dict[str, np.ndarray]:
    off = np.array([600.0, 800.0])
    return {"shifted": truth + off, "dragged off": truth + np.linspace(0.0, 1.0, len(truth))[:, None] * off}


TRUTH = flown(25.0)
N = len(TRUTH)
LIES = lies(TRUTH)


@pytest.mark.parametrize("spacing_m", SPACINGS_M)
@pytest.mark.parametrize("share", [0.7, 1.0])
@pytest.mark.parametrize("lie", LIES)
def test_a_shifted_receiver_is_contradicted_by_a_network_that_knows_the_ground(lie, share, spacing_m):
    truth = flown(spacing_m)
    for seed in range(10):
        answers = seen(truth, share, seed, lasting_m=60.0, spacing_m=spacing_m)
        shift = shift_seen_m(lies(truth)[lie], answers, SIDE)
        assert shift is not None and shift @ [-0.6, -0.8] > 400.0


@pytest.mark.parametrize("spacing_m", SPACINGS_M)
@pytest.mark.parametrize("share", [0.7, 1.0])
@pytest.mark.parametrize("lie", ["another track", "backwards", "dragged on and on"])
def test_a_lie_that_is_no_shift_is_contradicted_too(lie, share, spacing_m):
    truth = flown(spacing_m)
    told = {
        "another track": (truth - 10_000.0)[:, ::-1] + [10_500.0, 8_000.0],
        "backwards": truth[::-1],
        "dragged on and on": truth + np.linspace(0.0, 3.0, len(truth))[:, None] ** 2 * [300.0, 400.0],
    }[lie]
    for seed in range(10):
        answers = seen(truth, share, seed, lasting_m=60.0, spacing_m=spacing_m)
        assert shift_seen_m(told, answers, SIDE) is not None


@pytest.mark.parametrize("spacing_m", SPACINGS_M)
@pytest.mark.parametrize("lasting_m", [25.0, 100.0])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.4])
def test_an_honest_receiver_is_not_contradicted_by_a_network_that_errs_for_a_while(share, lasting_m, spacing_m):
    truth = flown(spacing_m)
    for seed in range(20):
        answers = seen(truth, share, seed, lasting_m=lasting_m, spacing_m=spacing_m)
        assert shift_seen_m(truth + 5.0, answers, SIDE) is None


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4, 1.0])
def test_an_honest_receiver_is_not_contradicted_however_little_the_network_knows(share):
    for seed in range(30):
        assert shift_seen_m(TRUTH + 5.0, seen(TRUTH, share, seed), SIDE) is None


def test_a_network_that_knows_nothing_contradicts_nobody():
    for seed in range(30):
        assert shift_seen_m(LIES["shifted"], seen(TRUTH, 0.0, seed), SIDE) is None


def test_one_cell_that_everything_is_taken_for_proves_nothing():
    hovering = np.full((N, 2), 9_000.0) + np.random.default_rng(0).normal(0.0, 20.0, (N, 2))
    assert shift_seen_m(hovering, np.full((N, 2), 12_100.0), SIDE) is None


def test_frames_without_an_answer_and_short_flights_say_nothing():
    blind = seen(TRUTH, 1.0)
    blind[10:] = np.nan
    assert shift_seen_m(LIES["shifted"], blind, SIDE) is None
    assert shift_seen_m(TRUTH[:0], TRUTH[:0], SIDE) is None
