"""Positions of frames come from believable fixes only, and refusals have a reason."""

import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.geo.projection import Projection
from aerial_vpr_cl.mission.gnss import REASONS, Fix, GnssGates, fault_of, interpolate, plausible

PROJECTION = Projection(32632)
ORIGIN = np.array([686_000.0, 5_330_000.0])
START_NS = 1_700_000_000_000_000_000
GATES = GnssGates()


def fix_at(seconds, east, north=0.0, **fields):
    (latitude,), (longitude,) = PROJECTION.to_wgs84([np.add(ORIGIN, (east, north))])
    return Fix(START_NS + round(seconds * 1e9), float(latitude), float(longitude), **fields)


def straight(seconds=20, speed=20.0, rate=1.0):
    """Fixes of a flight due east."""
    return [fix_at(t, speed * t) for t in np.arange(0, seconds, 1 / rate)]


def ask(seconds, fixes, gates=GATES, grid=None):
    stamps = START_NS + np.round(np.asarray(seconds, float) * 1e9).astype(np.int64)
    positions, reasons = interpolate(stamps, fixes, gates, PROJECTION, grid)
    return positions - ORIGIN, reasons.tolist()


def test_frames_between_fixes_lie_on_the_straight_line_between_them():
    positions, reasons = ask([0.0, 0.25, 7.5, 19.0], straight())
    assert reasons == ["", "", "", ""]
    np.testing.assert_allclose(positions, [[0, 0], [5, 0], [150, 0], [380, 0]], atol=1e-3)


@given(st.floats(-50, 50), st.floats(-50, 50), st.lists(st.floats(0, 9), min_size=1, max_size=20))
@settings(max_examples=40, deadline=None)
def test_a_uniform_flight_is_reproduced_wherever_it_is_asked(east_mps, north_mps, seconds):
    gates = GnssGates(max_speed_mps=200.0)
    fixes = [fix_at(t, east_mps * t, north_mps * t) for t in range(10)]
    positions, reasons = ask(seconds, fixes, gates)
    assert set(reasons) == {""}
    np.testing.assert_allclose(positions, np.outer(seconds, [east_mps, north_mps]), atol=2e-3)


def test_fixes_may_come_in_any_order_and_twice():
    fixes = straight()
    shuffled = [fixes[i] for i in np.random.default_rng(0).permutation(len(fixes))] + fixes[3:6]
    np.testing.assert_array_equal(ask([2.5, 9.1], shuffled)[0], ask([2.5, 9.1], fixes)[0])


@pytest.mark.parametrize(
    ("fault", "fields"),
    [
        ("no fix", {"status": -1}),
        ("no fix", {"status": -2}),
        ("nan", {"latitude": math.nan}),
        ("nan", {"longitude": math.inf}),
        ("zero", {"latitude": 0.0, "longitude": 0.0}),
        ("range", {"latitude": 91.0}),
        ("range", {"longitude": -181.0}),
        ("covariance", {"sigma_m": 15.1}),
        ("covariance", {"sigma_m": math.inf}),
        ("", {"sigma_m": 14.9}),
        ("", {"sigma_m": math.nan}),
    ],
)
def test_each_fault_of_a_fix_is_named(fault, fields):
    assert fault_of(fix_at(0, 0)._replace(**fields), GATES) == fault
    assert fault in REASONS or not fault


def test_a_receiver_without_covariance_is_refused_only_if_asked():
    assert fault_of(fix_at(0, 0), GnssGates(require_covariance=True)) == "covariance"


def test_frames_in_an_outage_carry_the_reason_of_the_fixes_around_them():
    fixes = straight()
    for second in range(6, 12):
        fixes[second] = fixes[second]._replace(status=-1)
    fixes[15] = fixes[15]._replace(latitude=math.nan)
    _, reasons = ask([4.5, 8.0, 11.4, 12.5, 14.9], fixes)
    assert reasons == ["", "no fix", "no fix", "", ""]  # one bad fix between good ones 2 s apart costs nothing


def test_a_gap_between_fixes_refuses_the_frames_in_it_but_not_those_on_a_fix():
    fixes = [fix for fix in straight() if not START_NS + 5e9 < fix.stamp_ns < START_NS + 9e9]
    positions, reasons = ask([5.0, 5.5, 7.0, 9.0], fixes)
    assert reasons == ["", "gap", "gap", ""]
    assert np.isnan(positions[1]).all()
    assert ask([7.0], fixes, GnssGates(max_gap_s=4.0))[1] == [""]


def test_frames_past_the_ends_are_extrapolated_a_little_and_refused_beyond():
    positions, reasons = ask([-0.6, -0.4, 19.4, 19.6, 500.0], straight())
    assert reasons == ["gap", "", "", "gap", "gap"]
    np.testing.assert_allclose(positions[1:3], [[-8, 0], [388, 0]], atol=1e-3)


def test_no_fix_at_all_and_a_single_fix_are_handled():
    assert ask([1.0], [])[1] == ["gap"]
    positions, reasons = ask([0.0, 0.1], [fix_at(0, 5)])
    assert reasons == ["", "gap"]
    np.testing.assert_allclose(positions[0], [5, 0], atol=1e-3)
    assert ask([], straight())[0].shape == (0, 2)


def test_a_run_of_fixes_moved_aside_by_multipath_is_dropped_as_a_whole():
    fixes = straight(seconds=20, rate=5.0)
    for index in range(40, 70):  # 6 s, each fix close to the next
        t = index / 5
        fixes[index] = fix_at(t, 20 * t, 80.0)
    positions, reasons = ask([7.5, 10.0, 11.0, 15.0], fixes)
    assert reasons == ["", "jump", "jump", ""]
    np.testing.assert_allclose(positions[[0, 3]], [[150, 0], [300, 0]], atol=1e-3)


def test_a_single_jump_costs_no_frame():
    fixes = straight()
    fixes[10] = fix_at(10, 5000.0)
    positions, reasons = ask([9.5, 10.0], fixes)
    assert reasons == ["", ""]
    np.testing.assert_allclose(positions, [[190, 0], [200, 0]], atol=1e-3)


def test_a_bad_first_fix_does_not_spoil_the_flight():
    fixes = straight()
    fixes[0] = fix_at(0, -9000.0)
    assert ask([5.5], fixes)[1] == [""]


def test_ordinary_noise_is_no_jump():
    rng = np.random.default_rng(1)
    fixes = [fix_at(t, 20 * t + e, n) for t, (e, n) in zip(np.arange(0, 60, 0.1), rng.normal(0, 2, (600, 2)))]
    assert set(ask(np.arange(0, 59, 0.37), fixes)[1]) == {""}


@given(st.lists(st.tuples(st.integers(0, 10), st.floats(-500, 500)), min_size=0, max_size=9))
@settings(max_examples=100, deadline=None)
def test_the_track_kept_is_flyable_and_none_made_of_whole_pieces_is_longer(entries):
    stamps = np.cumsum([1 + pause for pause, _ in entries]).astype(np.int64) * 1_000_000_000
    points = np.array([[east, 0.0] for _, east in entries]).reshape(-1, 2)
    kept = plausible(stamps, points, GATES)

    def flyable(indices):
        return all(
            abs(points[b, 0] - points[a, 0]) <= 60 * (stamps[b] - stamps[a]) / 1e9 + 15 for a, b in pairwise(indices)
        )

    assert flyable(np.flatnonzero(kept))
    pieces = []
    for index in range(len(entries)):
        if pieces and flyable([index - 1, index]):
            pieces[-1].append(index)
        else:
            pieces.append([index])
    longest = 0
    for choice in range(2 ** len(pieces)):
        chosen = [i for bit, piece in enumerate(pieces) if choice >> bit & 1 for i in piece]
        longest = max(longest, len(chosen) if flyable(chosen) else 0)
    assert kept.sum() == longest


def test_positions_outside_the_map_are_refused():
    grid = Grid.over_points(np.add(ORIGIN, [[50.0, 50.0]]), epsg=32632, cell_side_m=200.0, modulus=2)
    positions, reasons = ask([2.0, 15.0], straight(), grid=grid)
    assert reasons == ["", "outside map"]
    assert np.isnan(positions[1]).all()
    far_away = [Fix(START_NS + second * 10**9, -48.0, -168.5) for second in range(3)]
    assert ask([1.0], far_away, grid=grid)[1] == ["outside map"]


def test_a_message_without_stamp_gets_the_time_it_was_received():
    def message(sec, covariance_type, variance):
        return SimpleNamespace(
            header=SimpleNamespace(stamp=SimpleNamespace(sec=sec, nanosec=5)),
            latitude=48.0,
            longitude=11.0,
            altitude=500.0,
            status=SimpleNamespace(status=2),
            position_covariance=[variance, 0, 0, 0, 2 * variance, 0, 0, 0, 0],
            position_covariance_type=covariance_type,
        )

    assert Fix.from_message(message(3, 2, 8.0)) == Fix(3_000_000_005, 48.0, 11.0, 500.0, 2, 4.0)
    assert math.isnan(Fix.from_message(message(3, 0, 8.0)).sigma_m)
    for nonsense in (-1.0, math.nan):
        assert Fix.from_message(message(3, 2, nonsense)).sigma_m == math.inf
    unstamped = message(0, 2, 8.0)
    unstamped.header.stamp.nanosec = 0
    assert Fix.from_message(unstamped, 77).stamp_ns == 77
