"""A position of a moment ago, carried on to now: by the motion that the autopilot reports, and by nothing else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerial_vpr_cl.autopilot.answers import Position
from aerial_vpr_cl.autopilot.carrying import carried_on, offset_m
from aerial_vpr_cl.autopilot.telemetry import LocalPosition

S = 1_000_000_000
LEVEL = np.array([0.0, 0.0, 0.0, 1.0])


def track(velocity, seconds, start=(300.0, -200.0), first_s=0.0):
    """Twenty local positions a second."""
    steps = np.arange(round(first_s * 20), round(seconds * 20) + 1) / 20
    at = np.array([*start, 80.0]) + steps[:, None] * np.array([*velocity, 0.0])
    return [LocalPosition(round(step * S), place, np.array([*velocity, 0.0]), LEVEL) for step, place in zip(steps, at)]


def found(seconds, latitude=47.0):
    return Position(round(seconds * S), latitude, -99.0, np.diag([25.0, 16.0]))


speeds = st.floats(-40.0, 40.0)


@given(speeds, speeds, st.floats(0.0, 3.0), st.floats(-70.0, 70.0))
def test_a_position_is_carried_by_the_way_flown_since_the_image(east, north, taken_s, latitude):
    before = found(taken_s, latitude)
    now = carried_on(before, track((east, north), 3.0), 0.1)
    moved = offset_m(before.latitude, before.longitude, now.latitude, now.longitude)
    way = np.array([east, north]) * (3.0 - taken_s)
    assert moved == pytest.approx(way, abs=0.026 * np.hypot(east, north) + 1e-3)  # half of the time between two samples
    assert now.stamp_ns == 3 * S


def test_what_is_carried_is_less_certain_by_a_share_of_the_way():
    now = carried_on(found(1.0), track((20.0, 0.0), 3.0), 0.1)
    assert now.covariance == pytest.approx(np.diag([25.0, 16.0]) + np.eye(2) * 4.0**2)


@pytest.mark.parametrize(
    "told", [[], track((20.0, 0.0), 0.5), track((20.0, 0.0), 3.0, first_s=2.0)], ids=["nothing", "old", "begins late"]
)
def test_where_nothing_tells_the_motion_a_position_stays_what_it_was(told):
    before = found(1.0)
    assert carried_on(before, told, 0.1) is before
