"""Labels of a flight: from GNSS where the proven track agrees, else from the track, never from a lie."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.learning.labels import (
    GNSS,
    GNSS_UNPROVEN,
    NO_TRACK,
    TRACK,
    UNSURE_TRACK,
    Label,
    LabelSettings,
    Place,
    backwards,
    choose,
    join,
    label_flight,
    reverse,
)
from aerial_vpr_cl.localization.estimate import Estimate, Rejection
from aerial_vpr_cl.mission.frames import Frame
from aerial_vpr_cl.mission.gnss import Fix
from aerial_vpr_cl.mission.mission import Flight
from aerial_vpr_cl.mission.situation import Motion

S = 1_000_000_000
N = 60
ORIGIN = np.array([500_000.0, 5_200_000.0])
TRUTH = ORIGIN + np.stack([np.linspace(0.0, 1500.0, N), 200.0 * np.sin(np.arange(N) / 8.0)], axis=1)
GRID = Grid.over_points(
    np.stack(np.meshgrid(np.arange(-500, 2500, 100.0), np.arange(-800, 800, 100.0)), axis=-1).reshape(-1, 2) + ORIGIN,
    epsg=32614,
    cell_side_m=200.0,
    modulus=2,
)


def place(position, sigma_m=10.0):
    return Place(np.asarray(position, float), np.eye(2) * sigma_m**2)


def flight(gnss, gaps=()):
    """A flight whose receiver says `gnss` (n, 2) at every frame, but for some."""
    latitudes, longitudes = GRID.projection.to_wgs84(gnss)
    fixes = tuple(
        Fix(k * S, float(latitudes[k]), float(longitudes[k]), 0.0, -1 if k in gaps else 0, 2.0) for k in range(N)
    )
    frames = tuple(Frame(k * S, TRUTH[k], b"", motion=Motion(np.array([25.0, 0.0]), 0.0, 1.0)) for k in range(N))
    return Flight(Path("bag"), "flight", "VIS", frames, {}, fixes, "truth")


def tracker(sure=lambda k: True, error=lambda k: 5.0, sigma_m=10.0):
    """Something that follows the flight as a tracker does, right or wrong, where it is sure."""

    def new():
        times = []

        def step(frame, now_ns, motion):
            assert not times or now_ns > times[-1], "time runs forwards whichever way the flight is flown"
            times.append(now_ns)
            k = frame.stamp_ns // S
            if not sure(k):
                return Rejection("unsure")
            position = TRUTH[k] + [error(k), 0.0]
            cells = np.array([0])
            return Estimate(0, position, np.eye(2) * sigma_m**2, 2.4 * sigma_m, 1.0, cells, np.array([1.0]))

        return step

    return new


def labelled(gnss, new_tracker=None, gaps=(), **settings):
    made = label_flight(flight(gnss, gaps), GRID, new_tracker or tracker(), LabelSettings(**settings))
    return made, [label for label in made.labels if isinstance(label, Label)]


def worst_m(made):
    errors = [np.hypot(*(label.position - TRUTH[k])) for k, label in enumerate(made.labels) if isinstance(label, Label)]
    return max(errors)


def test_gnss_that_agrees_with_the_track_gives_the_labels():
    made, _ = labelled(TRUTH + 2.0)
    assert made.sources == {GNSS: N}
    assert worst_m(made) < 4.0


def test_a_flight_jammed_from_start_to_end_is_labelled_by_its_track():
    made, _ = labelled(TRUTH, gaps=range(N))
    assert made.sources == {TRACK: N}
    assert worst_m(made) < 10.0


LIES = {
    "constant offset of a kilometre": TRUTH + np.array([1000.0, 0.0]),
    "growing drift": TRUTH + np.stack([np.linspace(0.0, 800.0, N), np.zeros(N)], axis=1),
    "another flight replayed": TRUTH[::-1],
    "one place for ever": np.repeat(TRUTH[:1], N, axis=0),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_false_gnss_teaches_nothing(lie):
    made, labels = labelled(LIES[lie])
    assert len(labels) > 0.9 * N
    assert worst_m(made) < 100.0  # half a cell


@pytest.mark.parametrize("lie", ["constant offset of a kilometre", "another flight replayed"])
def test_a_false_gnss_is_not_believed_where_the_track_is_lost_for_a_while(lie):
    made, _ = labelled(LIES[lie], tracker(sure=lambda k: not 20 <= k < 30))
    assert made.left_out == {GNSS_UNPROVEN: 10}
    assert worst_m(made) < 100.0


def test_good_gnss_bridges_ground_without_a_track():
    made, _ = labelled(TRUTH, tracker(sure=lambda k: not 20 <= k < 30))
    assert made.sources == {GNSS: N}


def test_a_long_stretch_without_a_track_is_not_bridged():
    made, _ = labelled(TRUTH, tracker(sure=lambda k: k < 10 or k >= 50), gnss_bridge_s=5.0)
    assert made.left_out[GNSS_UNPROVEN] == 40


def test_a_stretch_is_as_long_as_from_the_last_proof_to_the_next():
    blind = tracker(sure=lambda k: not 20 <= k < 40)
    assert labelled(TRUTH, blind, gnss_bridge_s=15.0)[0].left_out == {GNSS_UNPROVEN: 20}
    assert labelled(TRUTH, blind, gnss_bridge_s=21.0)[0].sources == {GNSS: N}


def test_a_receiver_that_is_caught_lying_is_believed_nowhere_in_that_flight():
    """A drift that grows by five metres a frame is near the truth for a while; so is a track of 20 m sigma."""
    drifting = TRUTH + np.stack([5.0 * np.arange(N), np.zeros(N)], axis=1)
    made, _ = labelled(drifting, tracker(sigma_m=20.0))
    assert made.sources == {TRACK: N}


def test_a_few_fixes_that_contradict_the_track_cost_no_others_their_word():
    gnss = TRUTH + 2.0
    gnss[[10, 40]] += 300.0
    labels = choose([place(point) for point in TRUTH], gnss, np.full(N, 2.0), [k * S for k in range(N)], 50.0, 10.0)
    assert [k for k, label in enumerate(labels) if label.source == TRACK] == [10, 40]


def test_gnss_that_calls_itself_unsure_is_not_taken_far_from_the_track():
    off = TRUTH + np.array([90.0, 0.0])
    labels = choose([place(point) for point in TRUTH], off, np.full(N, 60.0), [k * S for k in range(N)], 50.0, 10.0)
    assert {label.source for label in labels} == {TRACK}


def test_gnss_that_is_refused_at_both_ends_of_a_gap_is_not_taken_in_it():
    off = TRUTH + np.array([90.0, 0.0])
    track = [None if 20 <= k < 30 else place(point) for k, point in enumerate(TRUTH)]
    labels = choose(track, off, np.full(N, 60.0), [k * S for k in range(N)], 50.0, 20.0)
    assert [k for k, label in enumerate(labels) if label == GNSS_UNPROVEN] == list(range(20, 30))
    assert {label.source for label in labels if label != GNSS_UNPROVEN} == {TRACK}


def test_a_flight_that_was_never_found_has_no_labels():
    made, labels = labelled(TRUTH, tracker(sure=lambda k: False))
    assert labels == []
    assert made.left_out == {GNSS_UNPROVEN: N}
    assert labelled(TRUTH, tracker(sure=lambda k: False), gaps=range(N))[0].left_out == {NO_TRACK: N}


def test_a_track_that_knows_only_the_neighbourhood_names_no_cell():
    made, _ = labelled(TRUTH, tracker(sigma_m=60.0), gaps=range(N))
    assert made.left_out == {UNSURE_TRACK: N}


@pytest.mark.parametrize("off_m", [60.0, 110.0, 180.0])
def test_a_vague_track_is_no_proof_of_gnss(off_m):
    made, _ = labelled(TRUTH + np.array([off_m, 0.0]), tracker(sigma_m=55.0))
    assert made.left_out == {UNSURE_TRACK: N}


def test_gnss_bridges_a_stretch_where_the_track_is_vague_only_if_it_is_proven_around_it():
    def track(k):
        return place(TRUTH[k], 55.0 if 20 <= k < 30 else 10.0)

    stamps = [k * S for k in range(N)]
    track, sigmas = [track(k) for k in range(N)], np.full(N, 2.0)
    assert all(label.source == GNSS for label in choose(track, TRUTH, sigmas, stamps, 50.0, 12.0))
    off = TRUTH + np.array([110.0, 0.0])
    labels = choose(track, off, sigmas, stamps, 50.0, 12.0)
    assert [label if isinstance(label, str) else label.source for label in labels[18:32]] == (
        2 * [TRACK] + 10 * [UNSURE_TRACK] + 2 * [TRACK]
    )


def test_fixes_that_are_refused_do_not_widen_those_that_are_believed():
    """A receiver that says "3 km" in between must not make a lie of one kilometre agree with the track."""
    lying = flight(LIES["constant offset of a kilometre"])
    lost = [fix._replace(stamp_ns=fix.stamp_ns + S // 2, sigma_m=3000.0) for fix in lying.fixes]
    without_fix = [fix._replace(stamp_ns=fix.stamp_ns + S // 4, status=-1, sigma_m=4e6) for fix in lying.fixes]
    mixed = replace(lying, fixes=(*lying.fixes, *lost, *without_fix))
    made = label_flight(mixed, GRID, tracker(), LabelSettings())
    assert made.sources == {TRACK: N}
    assert worst_m(made) < 10.0


def test_two_ways_that_contradict_each_other_prove_nothing():
    assert join(place([0.0, 0.0]), place([100.0, 0.0])) is None


def test_one_way_is_enough_where_the_other_was_not_sure():
    one = place([1.0, 2.0])
    assert join(one, None) is one and join(None, one) is one and join(None, None) is None


@given(st.floats(-20.0, 20.0), st.floats(1.0, 20.0), st.floats(1.0, 20.0))
def test_joining_is_never_surer_than_the_surer_way(apart, first_m, second_m):
    joined = join(place([0.0, 0.0], first_m), place([apart, 0.0], second_m))
    if joined is not None:
        assert np.linalg.eigvalsh(joined.covariance)[0] >= min(first_m, second_m) ** 2 * 0.999
        assert min(0.0, apart) - 1e-6 <= joined.position[0] <= max(0.0, apart) + 1e-6


@given(st.floats(-170.0, 170.0), st.floats(-50.0, 50.0), st.floats(-50.0, 50.0))
def test_there_and_back_is_no_way_at_all(turn_deg, forward, left):
    motion = Motion(np.array([forward, left]), turn_deg, 1.0)
    again = backwards(backwards(motion))
    assert again.forward_left_m == pytest.approx(motion.forward_left_m, abs=1e-9)
    assert again.turn_deg == motion.turn_deg


def test_a_way_back_points_where_the_drone_came_from():
    # Heading north, turned right to east while it flew 10 m east: seen from the start that is 10 m to the right.
    back = backwards(Motion(np.array([10.0, 0.0]), 90.0, 1.0))
    assert back.forward_left_m == pytest.approx([0.0, 10.0], abs=1e-9)  # so the way back is 10 m to the left
    assert back.turn_deg == -90.0


def test_a_reversed_flight_ends_where_it_began():
    headings = np.cumsum(np.full(N, 7.0))
    frames = []
    for k in range(N):
        motion = None if k == 0 else Motion(np.array([20.0, 3.0]), 7.0, 1.0)
        frames.append(Frame(k * S, TRUTH[k], b"", motion=motion))

    def flown(frames, heading_of):
        position = np.zeros(2)
        for frame in frames:
            if frame.motion is not None:
                heading = math.radians(heading_of[frame.stamp_ns // S])
                forward, left = frame.motion.forward_left_m
                east = forward * math.sin(heading) - left * math.cos(heading)
                north = forward * math.cos(heading) + left * math.sin(heading)
                position = position + np.array([east, north])
        return position

    assert flown(frames, headings) + flown(reverse(frames), headings) == pytest.approx(np.zeros(2), abs=1e-6)


def test_labels_carry_their_sigma():
    labels = choose([place([0.0, 0.0], 8.0)], np.full((1, 2), np.nan), np.array([np.nan]), [0], 50.0, 10.0)
    assert labels[0].sigma_m == pytest.approx(8.0, rel=0.01)
