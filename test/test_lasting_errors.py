"""What is stated of a track holds when errors last: against flights drawn one by one, the slow obvious way."""

import numpy as np
import pytest

from aerial_vpr_cl.localization.lasting_errors import LONGER, SLOW_SHARE, LastingErrors, PlaceError

FRAMES, FLIGHTS = 80, 3000


def lasting_noise(rng, passed, lasting):
    """(FRAMES, FLIGHTS) of unit deviation, of which exp(−passed / lasting) stays from one frame to the next."""
    kept = np.exp(-passed / lasting)
    values = rng.standard_normal((FRAMES, FLIGHTS))
    for k in range(1, FRAMES):
        values[k] = kept * values[k - 1] + np.sqrt(1.0 - kept**2) * values[k]
    return values


@pytest.mark.parametrize(
    ("seconds", "length_m", "sigma_m", "noise", "slow_share", "ground_share"),
    [
        (1.9, 30.0, 25.0, 0.05, SLOW_SHARE, 0.0),
        (0.5, 8.0, 25.0, 0.05, SLOW_SHARE, 0.0),
        (5.0, 80.0, 10.0, 0.05, SLOW_SHARE, 0.0),
        (1.9, 30.0, 40.0, 0.2, SLOW_SHARE, 0.0),
        (1.9, 30.0, 17.0, 0.05, 0.2, 0.0),
        (1.9, 30.0, 17.0, 0.05, 0.2, 0.6),
        (1.9, 3.0, 17.0, 0.05, 0.2, 0.6),
    ],
)
def test_the_stated_variance_is_the_one_that_flights_have(seconds, length_m, sigma_m, noise, slow_share, ground_share):
    attitude_s, odometry_m, ground_m, shape = 10.0, 100.0, 70.0, 0.2
    rng = np.random.default_rng(0)
    slow = lasting_noise(rng, seconds, LONGER * attitude_s)
    odometry = noise * lasting_noise(rng, length_m, LONGER * odometry_m)
    ground = lasting_noise(rng, length_m, ground_m)
    quick = np.sqrt(1.0 - slow_share - ground_share) * rng.standard_normal((FRAMES, FLIGHTS))
    seen = sigma_m * (np.sqrt(slow_share) * slow + np.sqrt(ground_share) * ground + quick)
    error, lasting = PlaceError(sigma_m, slow_share, ground_share), LastingErrors(attitude_s, odometry_m, ground_m)
    errors, believed, spread_m2 = seen[0], sigma_m**2, 50.0
    lasting.see(error, 1.0)
    assert lasting.share == 1.0
    for k in range(1, FRAMES):
        lasting.move(length_m, seconds, noise, spread_m2)
        lasting.see(error, shape)
        gain = (believed + spread_m2) / (believed + spread_m2 + sigma_m**2 / shape)
        believed = (1.0 - gain) * (believed + spread_m2)
        errors = (1.0 - gain) * (errors + length_m * odometry[k]) + gain * seen[k]
    assert errors.var() / believed == pytest.approx(lasting.share, rel=0.12)


def test_nothing_is_narrowed_before_a_view_was_used_and_after_all_was_forgotten():
    lasting = LastingErrors(10.0, 100.0, 70.0)
    lasting.move(30.0, 2.0, 0.05, 40.0)
    assert lasting.share == 1.0
    for _ in range(20):
        lasting.see(PlaceError(25.0), 0.2)
        lasting.move(30.0, 2.0, 0.05, 40.0)
    assert lasting.share < 0.95
    lasting.reset()
    assert lasting.share == 1.0


def test_a_tilt_that_is_known_exactly_and_views_that_are_no_news_change_nothing():
    lasting = LastingErrors(0.0, 0.0, 0.0)
    lasting.see(PlaceError(20.0), 1.0)
    lasting.see(PlaceError(0.0), 1.0)
    lasting.see(PlaceError(20.0), 0.0)
    assert lasting.share == 1.0


def test_hovering_never_averages_what_the_ground_misleads_by():
    error, lasting, believed = PlaceError(16.0, 0.2, 0.6), LastingErrors(10.0, 100.0, 70.0), 16.0**2
    lasting.see(error, 1.0)
    for _ in range(600):
        lasting.move(0.0, 1.0, 0.05, 0.09)
        lasting.see(error, 0.1)
        believed = 1.0 / (1.0 / (believed + 0.09) + 0.1 / 16.0**2)
    assert lasting.share * believed > 0.6 * 16.0**2 > 5.0 * believed
