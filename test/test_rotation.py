"""Rotations: a pilot's angles, quaternions and matrices say the same thing."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from aerial_vpr_cl.errors import SensorError
from aerial_vpr_cl.geo.rotation import (
    angle_between,
    angles_of,
    bearing_of,
    from_angles,
    from_quaternion,
    heading_of,
    interpolate,
    is_rotation,
    turned,
)

headings = st.floats(0.0, 359.99)
tilts = st.floats(-80.0, 80.0)
EAST, NORTH, UP = np.eye(3)


def close(first, second):
    return np.allclose(first, second, atol=1e-9)


def test_level_and_north_the_nose_is_north_and_the_left_wing_west():
    forward, left, up = from_angles(0.0).T
    assert close(forward, NORTH) and close(left, -EAST) and close(up, UP)


def test_heading_turns_clockwise():
    assert close(from_angles(90.0)[:, 0], EAST)
    assert close(from_angles(180.0)[:, 0], -NORTH)


def test_pitch_lifts_the_nose_and_roll_drops_the_right_wing():
    assert from_angles(37.0, pitch_deg=10.0)[2, 0] == pytest.approx(math.sin(math.radians(10.0)))
    right_wing = -from_angles(37.0, roll_deg=10.0)[:, 1]
    assert right_wing[2] == pytest.approx(-math.sin(math.radians(10.0)))


def test_the_quaternion_of_no_turn_looks_east():
    assert close(from_quaternion([0.0, 0.0, 0.0, 1.0]), from_angles(90.0))


@pytest.mark.parametrize(
    ("axis", "angles"),
    [
        ((0.0, 0.0, 1.0), (90.0 - 30.0, 0.0, 0.0)),  # up: against the clock
        ((0.0, 1.0, 0.0), (90.0, -30.0, 0.0)),  # left: the nose goes down
        ((1.0, 0.0, 0.0), (90.0, 0.0, 30.0)),  # forward: the right wing goes down
    ],
)
def test_a_quaternion_turns_right_handed_about_its_axis(axis, angles):
    half = math.radians(30.0) / 2.0
    quaternion = [*(math.sin(half) * value for value in axis), math.cos(half)]
    assert close(from_quaternion(quaternion), from_angles(*angles))


@given(headings, tilts, st.floats(-179.0, 179.0))
def test_angles_survive_the_way_through_a_matrix(heading, pitch, roll):
    back = angles_of(from_angles(heading, pitch, roll))
    assert close(from_angles(*back), from_angles(heading, pitch, roll))
    assert back[1:] == pytest.approx((pitch, roll), abs=1e-6)
    assert abs((back[0] - heading + 180.0) % 360.0 - 180.0) < 1e-6


@given(st.tuples(*[st.floats(-1.0, 1.0)] * 4))
def test_a_quaternion_and_its_negative_are_one_rotation(values):
    q = np.array(values)
    assume(np.linalg.norm(q) > 0.01)
    q = q / np.linalg.norm(q)
    assert is_rotation(from_quaternion(q))
    assert close(from_quaternion(q), from_quaternion(-q))


@pytest.mark.parametrize("broken", [(0, 0, 0, 0), (math.nan, 0, 0, 1), (0, 0, math.inf, 1), (3, 0, 0, 0), (0, 0, 1)])
def test_a_broken_quaternion_is_refused(broken):
    with pytest.raises(SensorError, match="not a rotation"):
        from_quaternion(broken)


def test_a_rounded_quaternion_is_taken():
    assert is_rotation(from_quaternion(np.float32([0.01, 0.02, 0.3, 0.95])))


@given(headings, tilts, tilts, headings)
def test_turning_changes_the_heading_alone(heading, pitch, roll, turn):
    after = angles_of(turned(from_angles(heading, pitch, roll), turn))
    assert after[1:] == pytest.approx((pitch, roll), abs=1e-6)
    assert close(from_angles(*after), from_angles(heading + turn, pitch, roll))


@given(headings, tilts, tilts, st.floats(-170.0, 170.0), st.floats(0.0, 1.0))
def test_interpolation_goes_the_shortest_way_at_one_pace(heading, pitch, roll, turn, share):
    first = from_angles(heading, pitch, roll)
    second = turned(first, turn)
    between = interpolate(first, second, share)
    # OpenCV takes a turn of less than 6e-4° for none.
    assert np.allclose(between, turned(first, turn * share), atol=2e-5)
    assert angle_between(first, between) == pytest.approx(abs(turn) * share, abs=1e-3)


def test_interpolation_crosses_north():
    assert heading_of(interpolate(from_angles(350.0), from_angles(10.0), 0.25)) == pytest.approx(355.0)


def test_bearings_are_clockwise_from_north():
    assert [bearing_of(direction) for direction in ((0, 1), (1, 0), (0, -1), (-1, 0))] == pytest.approx(
        [0.0, 90.0, 180.0, 270.0]
    )


def test_a_mirror_and_a_stretch_are_no_rotations():
    assert not is_rotation(np.diag([1.0, 1.0, -1.0]))
    assert not is_rotation(np.diag([1.0, 1.1, 1.0]))
    assert not is_rotation(np.full((3, 3), np.nan))
    assert not is_rotation(np.eye(2))
