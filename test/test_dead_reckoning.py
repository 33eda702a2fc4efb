"""Positions between frames: carried on by odometry, for a while, with growing doubt."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerial_vpr_cl.localization.dead_reckoning import LONGEST_S, Carried, DeadReckoning
from aerial_vpr_cl.mission.readings import OdometryReading

START_NS = 10**15


def odometry(second, along_m, turn_deg=0.0, yaw_deg=0.0):
    """A drone that flies along its own x axis, in a frame that is turned by `yaw_deg`."""
    yaw = math.radians(yaw_deg - turn_deg)
    east, north = along_m * math.cos(math.radians(yaw_deg)), along_m * math.sin(math.radians(yaw_deg))
    orientation = (0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2))
    return OdometryReading(START_NS + round(second * 1e9), (east, north, 0.0), orientation)


def found(heading_deg=90.0, sigma_deg=3.0):
    return Carried(START_NS, np.array([500.0, 700.0]), np.eye(2) * 25.0, heading_deg, sigma_deg)


@given(heading=st.floats(0.0, 360.0), yaw=st.floats(-180.0, 180.0), speed=st.floats(0.0, 30.0))
def test_a_position_moves_along_the_heading_whatever_frame_odometry_has(heading, yaw, speed):
    reckoning = DeadReckoning(0.05, 0.5, 60.0)
    for step in range(11):
        reckoning.add(odometry(step / 10, speed * step / 10, yaw_deg=yaw))
        if step == 0:
            reckoning.anchor(found(heading))
    carried = reckoning.carry()
    expected = [500.0 + speed * math.sin(math.radians(heading)), 700.0 + speed * math.cos(math.radians(heading))]
    np.testing.assert_allclose(carried.position, expected, atol=1e-6)
    assert carried.stamp_ns == START_NS + 10**9 and carried.covariance[0, 0] >= 25.0
    assert reckoning.carry() is None  # no news


def test_doubt_grows_with_the_way_and_a_turn_turns_the_heading():
    reckoning = DeadReckoning(0.05, 0.5, 60.0)
    reckoning.add(odometry(0.0, 0.0))
    reckoning.anchor(found())
    variances = []
    for step in range(1, 6):
        reckoning.add(odometry(step / 5, 4.0 * step, turn_deg=2.0 * step))
        carried = reckoning.carry()
        variances.append(carried.covariance[0, 0])
    assert variances == sorted(variances) and variances[-1] > 25.5
    assert carried.heading_deg == pytest.approx(100.0)


def test_nothing_is_carried_on_after_silence_for_long_across_a_jump_or_without_a_heading():
    reckoning = DeadReckoning(0.05, 0.5, 60.0)
    reckoning.add(odometry(0.0, 0.0))
    assert reckoning.carry() is None  # no frame yet
    reckoning.anchor(found(sigma_deg=180.0))
    reckoning.add(odometry(0.1, 1.0))
    assert reckoning.carry() is None
    reckoning.anchor(found())
    reckoning.add(odometry(0.2, 500.0))  # another origin
    assert reckoning.carry() is None
    reckoning.anchor(found())
    reckoning.anchor(None)
    reckoning.add(odometry(0.3, 501.0))
    assert reckoning.carry() is None
    late = DeadReckoning(0.05, 0.5, 60.0)
    late.add(odometry(0.0, 0.0))
    late.anchor(found())
    for step in range(1, 30):
        late.add(odometry(step / 10, step / 10))
        carried = late.carry()
        assert (carried is not None) == (step / 10 <= LONGEST_S)
