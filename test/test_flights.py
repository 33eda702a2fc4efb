"""Flights and their GNSS: inside the world, at a realistic pace, with exactly the frames asked for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.geo.projection import Projection
from aerial_vpr_cl.simulation.flights import box_of, plan_flight
from aerial_vpr_cl.simulation.gnss import STATUS_NO_FIX, GnssSettings, receive
from aerial_vpr_cl.simulation.tracks import KINDS, TrackSettings

BOUNDS = (500_000.0, 4_000_000.0, 502_000.0, 4_001_500.0)
START_NS = 1_780_000_000_000_000_000
UTM = Projection(32650)


def fly(kind="out_and_back", frames=80, seed=0, reach_m=200.0, **options):
    track = TrackSettings(kind=kind, **options)
    box = box_of(BOUNDS, track, reach_m)
    return plan_flight(track, box, frames, START_NS, np.random.default_rng(seed)), track, box


anything = given(
    kind=st.sampled_from(KINDS),
    frames=st.integers(2, 220),
    seed=st.integers(0, 10_000),
    reach_m=st.floats(20.0, 600.0),
    spacing_m=st.floats(5.0, 80.0),
)


@settings(max_examples=60, deadline=None)
@anything
def test_every_flight_stays_in_its_box_and_takes_exactly_the_frames_asked_for(kind, frames, seed, reach_m, spacing_m):
    flight, _, box = fly(kind, frames, seed, reach_m, spacing_m=spacing_m)
    assert len(flight.stamps_ns) == frames
    assert flight.stamps_ns[0] == START_NS
    positions = flight.positions_at(flight.stamps_ns)
    assert (positions >= box.low - 1e-6).all() and (positions <= box.high + 1e-6).all()
    intervals = np.diff(flight.stamps_ns)
    assert intervals.min() > 0
    assert np.ptp(intervals) <= 1  # a constant rate, to the nanosecond


@settings(max_examples=60, deadline=None)
@anything
def test_no_flight_turns_flies_or_brakes_harder_than_it_may(kind, frames, seed, reach_m, spacing_m):
    flight, track, _ = fly(kind, frames, seed, reach_m, spacing_m=spacing_m)
    seconds = np.diff(flight.path_s)
    turn_rate = np.degrees(np.abs(np.diff(flight.path_heading))) / seconds
    moved = np.hypot(*np.diff(flight.path, axis=0).T)
    speed = moved / seconds
    assert turn_rate.max() <= 1.05 * track.turn_rate_deg_s
    assert speed.max() <= track.speed_m_s + 1e-6
    assert (np.abs(np.diff(speed)) <= 0.55 * track.acceleration_m_s2 * (seconds[1:] + seconds[:-1]) + 1e-6).all()


@pytest.mark.parametrize("kind", KINDS)
def test_headings_follow_the_track(kind):
    flight, _, _ = fly(kind, frames=120)
    moments = np.linspace(0.02, 0.98, 200) * flight.duration_s
    before = START_NS + np.round((moments - 0.05) * 1e9).astype(np.int64)
    after = START_NS + np.round((moments + 0.05) * 1e9).astype(np.int64)
    east, north = (flight.positions_at(after) - flight.positions_at(before)).T
    course = np.degrees(np.arctan2(east, north))
    now = flight.headings_deg_at(START_NS + np.round(moments * 1e9).astype(np.int64))
    difference = (course - now + 180.0) % 360.0 - 180.0
    assert np.abs(difference).max() < 8.0


def test_out_and_back_sees_the_same_ground_twice_from_beside_and_in_opposite_direction():
    flight, track, _ = fly(frames=100, seed=4, reach_m=150.0)
    positions, headings = flight.positions_at(flight.stamps_ns), flight.headings_deg_at(flight.stamps_ns)
    out, back = positions[:50], positions[50:]
    nearest = np.hypot(*(out[:, None] - back).transpose(2, 0, 1))
    assert np.median(nearest.min(axis=1)) < track.offset_m + track.spacing_m
    assert np.median(nearest.min(axis=1)) > 0.5 * track.offset_m
    opposite = (headings[5] - headings[94] + 360.0) % 360.0
    assert abs(opposite - 180.0) < 30.0


def test_a_survey_flies_parallel_lines_and_a_transit_never_returns():
    survey, _, _ = fly("survey", frames=100, seed=2)
    axes = survey.headings_deg_at(survey.stamps_ns) % 180.0
    counts, _ = np.histogram(axes, bins=36, range=(0, 180))
    assert np.sort(counts)[-4:].sum() > 0.8 * 100
    transit, _, _ = fly("transit", frames=60, seed=2)
    positions = transit.positions_at(transit.stamps_ns)
    progress = (positions - positions[0]) @ (positions[-1] - positions[0])
    assert (np.diff(progress) > 0).all()


def test_the_number_of_frames_sets_the_length_of_the_route():
    short, track, _ = fly(frames=40)
    long, _, _ = fly(frames=160)
    assert 0.7 * 39 * track.spacing_m < short.length_m < 1.1 * 39 * track.spacing_m
    assert long.length_m > 3.0 * short.length_m


def test_a_flight_keeps_to_its_area():
    flight, _, _ = fly(reach_m=100.0, frames=150, area=(0.5, 0.0, 1.0, 1.0))
    assert flight.positions_at(flight.stamps_ns)[:, 0].min() >= 501_000.0 - 1e-6


def test_a_footprint_larger_than_the_world_is_refused_with_a_remedy():
    with pytest.raises(SettingsError, match=r"sees up to 900 m .* 2000 × 1500 m; fly lower"):
        fly(reach_m=900.0)


def test_an_area_that_is_no_rectangle_is_refused():
    with pytest.raises(SettingsError, match="ascending shares"):
        fly(area=(0.5, 0.0, 0.5, 1.0))


def received(seed=0, **options):
    flight, _, _ = fly(frames=200)
    gnss = GnssSettings(**options)
    fixes = receive(flight, gnss, UTM, np.random.default_rng(seed))
    stamps = np.array([fix.stamp_ns for fix in fixes])
    estimated = UTM.to_utm([fix.latitude for fix in fixes], [fix.longitude for fix in fixes])
    return flight, fixes, stamps, np.hypot(*(estimated - flight.positions_at(stamps)).T)


def test_gnss_covers_the_flight_and_errs_as_much_as_it_says():
    flight, fixes, stamps, error = received(drift_m=1.5, noise_m=0.5)
    assert stamps[0] < flight.stamps_ns[0] and stamps[-1] >= flight.stamps_ns[-1]
    assert np.allclose(np.diff(stamps), 2e8, atol=1)
    rms = np.sqrt(np.mean(error**2) / 2.0)
    assert 0.5 < rms / np.sqrt(fixes[0].variance_m2) < 1.6


def test_an_outage_says_no_fix_or_says_nothing():
    _, fixes, _, error = received(outages=2, outage_s=10.0)
    lost = np.array([fix.status == STATUS_NO_FIX for fix in fixes])
    assert 98 <= lost.sum() <= 102
    assert np.isnan(error[lost]).all() and not np.isnan(error[~lost]).any()
    _, fixes, stamps, _ = received(outages=1, outage_s=10.0, silent_outages=True)
    assert all(fix.status != STATUS_NO_FIX for fix in fixes)
    assert 9.5e9 < np.diff(stamps).max() < 10.5e9


def test_multipath_shifts_the_position_and_an_honest_receiver_admits_it():
    _, fixes, _, error = received(jumps=2, jump_m=40.0)
    shifted = error > 15.0
    assert 50 <= shifted.sum() <= 62
    variance = np.array([fix.variance_m2 for fix in fixes])
    assert np.sqrt(variance[shifted]).min() > 20.0 and np.sqrt(variance[~shifted]).max() < 2.0
    _, fixes, _, _ = received(jumps=2, jump_m=40.0, honest=False)
    assert max(fix.variance_m2 for fix in fixes) < 4.0
