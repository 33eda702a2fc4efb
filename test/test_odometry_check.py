"""Odometry that goes another way than proven views is believed no more; one that only errs is."""

import numpy as np
import pytest

from aerial_vpr_cl.localization.odometry_check import OdometryCheck
from aerial_vpr_cl.mission.situation import Motion

STEP_M = 30.0
SIGMA_M = 12.0
TOLD = 0.05


def check_of():
    return OdometryCheck(TOLD, lasting_m=100.0)


def fly(check, steps, odometry, begin=0.0, seed=0, heading_deg=0.0, step_m=STEP_M, aside=()):
    """Fly north while odometry says `odometry` of each step; every view is proven and errs. When was it doubted?

    Views whose numbers are in `aside` are wrong by 100 m.
    """
    rng, doubted = np.random.default_rng(seed), []
    for k in range(steps):
        check.move(Motion(np.asarray(odometry, float) * step_m, 0.0, 2.0), heading_deg, 5.0)
        place = np.array([0.0, begin + step_m * (k + 1)]) + rng.normal(0.0, SIGMA_M, 2)
        check.see(place + np.array([100.0 if k in aside else 0.0, 0.0]), np.eye(2) * SIGMA_M**2)
        doubted.append(check.contradicted)
    return doubted


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("odometry", [(1.0, 0.0), (1.05, 0.05), (0.95, 0.0)])
def test_an_odometry_that_errs_as_stated_is_believed(odometry, seed):
    assert not any(fly(check_of(), 60, odometry, seed=seed))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(
    ("odometry", "within"), [((1.0, 0.5), 20), ((0.5, 0.0), 20), ((0.0, 1.0), 8), ((-1.0, 0.0), 8), ((0.0, 0.0), 10)]
)
def test_one_that_follows_another_way_is_not(odometry, within, seed):
    doubted = fly(check_of(), 40, odometry, seed=seed)
    assert doubted.index(True) < within


@pytest.mark.parametrize("step_m", [STEP_M, 7.5, 2.0])
@pytest.mark.parametrize("odometry", [(-1.0, 0.0), (0.0, 0.0), (1.0, 0.8)])
def test_a_false_one_is_noticed_and_believed_again_when_it_goes_with_the_views_at_any_rate_of_frames(odometry, step_m):
    check, false, honest = check_of(), round(450 / step_m), round(900 / step_m)
    assert fly(check, false, odometry, step_m=step_m)[-1]
    doubted = fly(check, honest, (1.0, 0.0), begin=450.0, step_m=step_m)
    assert doubted[round(150 / step_m)] and not doubted[-1]


@pytest.mark.parametrize("step_m", [STEP_M, 7.5])
@pytest.mark.parametrize("aside", [{0}, {10}, {10, 14, 19}])
@pytest.mark.parametrize("seed", range(5))
def test_single_views_that_are_wrong_cast_no_doubt_on_it(aside, step_m, seed):
    assert not any(fly(check_of(), 60, (1.0, 0.0), seed=seed, step_m=step_m, aside=aside))


def test_a_way_that_was_flown_with_an_unsure_heading_is_no_contradiction_once_the_heading_is_known():
    check, heading_deg = check_of(), 25.0
    for k in range(20):
        sigma_deg = 25.0 if k < 10 else 2.0
        check.move(Motion(np.array([STEP_M, 0.0]), 0.0, 2.0), heading_deg if k < 10 else 0.0, sigma_deg)
        check.see(np.array([0.0, STEP_M * (k + 1)]), np.eye(2) * SIGMA_M**2)
        assert not check.contradicted


@pytest.mark.parametrize("seed", range(10))
def test_one_that_is_false_for_long_is_not_believed_in_between(seed):
    doubted = fly(check_of(), 120, (1.0, 0.55), seed=seed)
    assert all(doubted[doubted.index(True) :])


def test_without_a_compass_or_with_a_gap_ways_are_not_compared():
    check = check_of()
    for k in range(20):
        check.move(Motion(np.array([-STEP_M, 0.0]), 0.0, 2.0) if k % 2 else None, 0.0, 5.0)
        check.see(np.array([0.0, STEP_M * k]), np.eye(2) * SIGMA_M**2)
    for k in range(20):
        check.move(Motion(np.array([-STEP_M, 0.0]), 0.0, 2.0), 0.0, 180.0)
        check.see(np.array([0.0, STEP_M * k]), np.eye(2) * SIGMA_M**2)
    assert not check.contradicted


def test_a_new_flight_begins_in_good_faith():
    check = check_of()
    assert fly(check, 10, (-1.0, 0.0))[-1]
    check.reset()
    assert not any(fly(check, 10, (1.0, 0.0)))


@pytest.mark.parametrize("step_m", [STEP_M, 7.5])
@pytest.mark.parametrize("errs", [0.2, 0.4])
def test_an_odometry_that_errs_by_more_than_told_is_found_out_by_proven_views(errs, step_m):
    found = []
    for seed in range(10):
        check, rng, error = check_of(), np.random.default_rng(seed), np.zeros(2)
        kept = np.exp(-step_m / 100.0)  # of an error, from one step to the next
        for k in range(round(900 / step_m)):
            error = kept * error + np.sqrt(1.0 - kept**2) * rng.normal(0.0, errs, 2)
            check.move(Motion(step_m * (np.array([1.0, 0.0]) + error), 0.0, 2.0), 0.0, 2.0)
            place = np.array([0.0, step_m * (k + 1)]) + rng.normal(0.0, SIGMA_M, 2)
            check.see(place, np.eye(2) * SIGMA_M**2)
        found.append(check.noise)
    assert errs / 4.0 < np.median(found) < 1.5 * errs


@pytest.mark.parametrize("step_m", [STEP_M, 7.5])
def test_one_that_errs_as_told_is_believed_as_told(step_m):
    found = []
    for seed in range(30):
        fly(check := check_of(), round(900 / step_m), (1.02, 0.02), seed=seed, step_m=step_m)
        found.append(check.noise)
    assert np.median(found) == TOLD and max(found) < 2.0 * TOLD
