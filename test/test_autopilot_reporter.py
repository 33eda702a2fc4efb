"""When the autopilot is told a position, and when it is not: the gate before a reset, rates, ages and states."""

import math

import numpy as np
import pytest

from aerial_vpr_cl.autopilot.answers import Position
from aerial_vpr_cl.autopilot.clock import AutopilotClock
from aerial_vpr_cl.autopilot.reporter import Reporter, ReportSettings
from aerial_vpr_cl.autopilot.reset_gate import ResetGate, ResetSettings
from aerial_vpr_cl.autopilot.telemetry import GlobalPosition, GnssFix, LocalPosition, Origin

S = 1_000_000_000
LEVEL = np.array([0.0, 0.0, 0.0, 1.0])


# The gate before a reset


def drifted():
    """A gate after a way on which dead reckoning may well have gone 200 m astray."""
    gate = ResetGate(ResetSettings())
    gate.add_way(1500.0)
    return gate


def hold(gate, seconds, difference=(200.0, 0.0), start=0, wander=0.0, sigma=10.0):
    """Positions twice a second that lie beside dead reckoning; whether one may be sent."""
    allowed = []
    for k in range(2 * seconds):
        here = np.array([difference[0] + wander * k / 2.0, difference[1]])
        allowed.append(gate.allows(start + k * S // 2, here, np.eye(2) * sigma**2))
    return allowed


def test_a_reset_needs_a_localization_that_has_held():
    gate = drifted()
    allowed = hold(gate, 8)
    assert not any(allowed[:10])
    assert all(allowed[10:])


def test_no_reset_while_gnss_is_good():
    gate = drifted()
    gate.add_gnss(30 * S, True)
    assert not any(hold(gate, 8, start=25 * S - S))


def test_a_clock_that_was_set_back_stops_no_reset_for_as_long_as_it_went_back():
    gate = drifted()
    gate.add_gnss(3600 * S, True)
    gate.add_way(1500.0)
    assert hold(gate, 8, start=30 * S)[-1]


def test_no_reset_where_dead_reckoning_is_near_enough():
    gate = drifted()
    assert not any(hold(gate, 20, difference=(20.0, 0.0)))


def test_what_drift_cannot_explain_must_hold_much_longer():
    gate = ResetGate(ResetSettings())
    gate.add_way(300.0)  # 200 m of drift after such a way would be a surprise
    allowed = hold(gate, 40)
    assert not any(allowed[:60])
    assert all(allowed[60:])
    gate.break_off()
    assert not any(hold(gate, 20, start=40 * S))


def test_no_reset_to_a_position_that_wanders_beside_dead_reckoning():
    assert not any(hold(drifted(), 20, wander=20.0))


def test_drift_alone_does_not_keep_a_filter_from_being_set_right():
    gate, allowed = drifted(), []
    for k in range(10):  # 25 m/s, of which dead reckoning misses 3
        gate.add_way(50.0)
        allowed.append(gate.allows(2 * k * S, np.array([100.0 + 6.0 * k, 0.0]), np.eye(2) * 4.0**2))
    assert all(allowed[3:])


def test_a_silence_begins_the_holding_anew():
    gate = drifted()
    hold(gate, 8)
    gate.break_off()
    assert not any(hold(gate, 5, start=100 * S))


def test_resets_keep_their_distance():
    gate = drifted()
    hold(gate, 8)
    gate.sent(8 * S)
    gate.add_way(1500.0)
    assert not any(hold(gate, 9, start=8 * S))
    assert any(hold(gate, 9, start=18 * S))


# What is told, and when


def reporter(output, **settings):
    clock = AutopilotClock()
    clock.add_reply(1000 * S, 1, 1000 * S)
    return Reporter(ReportSettings(output=output, **settings), ResetSettings(), clock)


def published(stamp_ns, east_m=0.0):
    longitude = -99.0 + east_m / (111_319.49 * math.cos(math.radians(47.0)))
    return Position(stamp_ns, 47.0, longitude, np.eye(2) * 100.0)


def kinds(messages):
    return [message.get_type() for message in messages]


def test_positions_go_out_only_while_tracking():
    told = reporter("global_position_sensor")
    assert told.answer(published(1100 * S), 1, 1100 * S) == []
    told.state("tracking", "", 1100 * S)
    assert kinds(told.answer(published(1101 * S), 1, 1101 * S)) == ["GLOBAL_POSITION_SENSOR"]
    told.state("unsure", "", 1102 * S)
    assert told.answer(published(1102 * S), 1, 1102 * S) == []


@pytest.mark.parametrize(
    "position",
    [
        published(1096 * S),  # too old
        Position(1100 * S, math.nan, -99.0, np.eye(2)),
        Position(1100 * S, 47.0, -99.0, np.full((2, 2), np.nan)),
        Position(1100 * S, 47.0, -99.0, np.zeros((2, 2))),
    ],
)
def test_what_is_not_a_position_is_not_sent(position):
    told = reporter("global_position_sensor")
    told.state("tracking", "", 1100 * S)
    assert told.answer(position, 1, 1100 * S) == []


def test_the_rate_is_bounded():
    told = reporter("global_position_sensor", rate_hz=2.0)
    told.state("tracking", "", 0)
    sent = [bool(told.answer(published(1100 * S + k * S // 10), 1, 1100 * S + k * S // 10)) for k in range(50)]
    assert 9 <= sum(sent) <= 11


def test_the_operator_reads_changes_of_state_and_no_flicker():
    told = reporter("none")
    assert kinds(told.state("searching", "cold start", 0)) == ["STATUSTEXT"]
    assert told.state("searching", "cold start", 10 * S) == []
    assert kinds(told.state("tracking", "", 20 * S)) == ["STATUSTEXT"]
    flicker = [told.state(("unsure", "tracking")[k % 2], "", 20 * S + k * S // 10) for k in range(40)]
    assert sum(map(len, flicker)) <= 2


def dead_reckoning():
    """A reporter of commands that is tracking, 3 km after the last fix."""
    told = reporter("command")
    told.state("tracking", "", 0)
    for east_m in (0.0, 3000.0):
        told.told(LocalPosition(1000 * S, np.array([east_m, 0.0, 80.0]), np.zeros(3), LEVEL))
    return told


def fly(told, seconds, east_of_truth_m, silent_at=None, gnss=False):
    """Answers and the filter's positions twice a second, the filter being off by a constant; what was sent."""
    sent = []
    for k in range(2 * seconds):
        now = 1100 * S + k * S // 2
        if gnss:
            told.told(GnssFix(now, 47.0, -99.0, 0.0, 0, 2.0))
        filtered = published(now, 10.0 * k / 2.0 + east_of_truth_m)
        told.told(GlobalPosition(now, filtered.latitude, filtered.longitude))
        if silent_at is not None and k % silent_at == 0:
            told.silent()
            continue
        sent += told.answer(published(now, 10.0 * k / 2.0), 1, now + S // 10)
    return sent


def test_a_filter_that_went_astray_without_gnss_is_reset_once_and_then_left_in_peace():
    assert kinds(fly(dead_reckoning(), 9, 300.0)) == ["COMMAND_INT"]


@pytest.mark.parametrize("flight", [{"gnss": True}, {"silent_at": 6}, {"east_of_truth_m": 15.0}])
def test_no_reset_with_gnss_after_silences_or_where_both_agree(flight):
    assert fly(dead_reckoning(), 20, **{"east_of_truth_m": 300.0, **flight}) == []


def test_no_reset_to_a_single_wrong_answer():
    told = dead_reckoning()
    fly(told, 8, 0.0)
    now = 1108 * S
    told.told(GlobalPosition(now, 47.0, -99.0))
    assert told.answer(published(now, 900.0), 1, now) == []


def test_odometry_is_steady_between_answers_and_moves_with_the_filter():
    told = reporter("odometry", rate_hz=10.0)
    told.state("tracking", "", 0)
    told.told(Origin(47.0, -99.0))
    sent = []
    for k in range(30):
        now = 1100 * S + k * S // 10
        told.told(LocalPosition(now, np.array([500.0 + k, 0.0, 80.0]), np.zeros(3), LEVEL))
        if k % 10 == 0:
            told.answer(published(now, 40.0 + k), 1, now)
        sent += told.tick(1, now)
    assert kinds(sent) == ["ODOMETRY"] * 30
    assert [message.y for message in sent] == pytest.approx([40.0 + k for k in range(30)], abs=0.1)  # east
    assert [message.z for message in sent] == pytest.approx([-80.0] * 30)
    told.silent()
    assert told.tick(1, 1103 * S) == []


@pytest.mark.parametrize("output", ["odometry", "global_position_sensor"])
def test_a_clock_that_is_set_back_does_not_carry_positions_astray(output):
    """Flying east at 15 m/s, the clock is set back by 5 s: positions of the filter from before it lie ahead in time."""
    told = reporter(output, rate_hz=10.0)
    told.state("tracking", "", 0)
    told.told(Origin(47.0, -99.0))
    errors = []
    for k in range(400):
        east_m = 1.5 * k
        now = 1100 * S + k * S // 10 - (5 * S if k >= 200 else 0)
        told.told(LocalPosition(now, np.array([500.0 + east_m, 0.0, 80.0]), np.zeros(3), LEVEL))
        if k == 200:
            told.silent()  # as the localization is when its time runs back
        sent = told.answer(published(now - S // 5, east_m - 3.0), 1, now) if k % 5 == 0 and not 200 <= k < 210 else []
        errors += [_east_m(message) - east_m for message in [*sent, *told.tick(1, now)]]
    assert len(errors) > 70
    assert np.abs(errors).max() < 5.0


@pytest.mark.parametrize("output", ["odometry", "global_position_sensor"])
def test_a_gap_of_the_cable_does_not_carry_positions_astray(output):
    """Flying east at 15 m/s, nothing is heard for 1.5 s; local positions are then counted from 300 m further west."""
    told = reporter(output, rate_hz=10.0)
    told.state("tracking", "", 0)
    told.told(Origin(47.0, -99.0))
    errors = []
    for k in range(100):
        east_m, now = 1.5 * k, 1100 * S + k * S // 10
        if k not in range(50, 65):
            local_m = east_m + (300.0 if k >= 65 else 0.0)
            told.told(LocalPosition(now, np.array([local_m, 0.0, 80.0]), np.zeros(3), LEVEL))
        sent = told.answer(published(now - 16 * S // 10, east_m - 24.0), 1, now) if k % 5 == 0 else []
        sent += told.tick(1, now)
        errors += [_east_m(message) - east_m for message in sent if k >= 65]
    assert len(errors) > 2
    assert np.abs(errors).max() < 25.0  # as far as it flew since the image, where nothing carries the position on


def _east_m(message):
    """Where a message has the drone, east of 99° west."""
    if message.get_type() == "ODOMETRY":
        return message.y
    return (message.lon / 1e7 + 99.0) * 111_319.49 * math.cos(math.radians(47.0))


def test_what_lies_between_two_ends_of_a_gap_is_no_way():
    told = reporter("command")
    told.state("tracking", "", 0)
    for second, east_m in ((1000, 0.0), (1002, 3000.0)):
        told.told(LocalPosition(second * S, np.array([east_m, 0.0, 80.0]), np.zeros(3), LEVEL))
    assert fly(told, 9, 300.0) == []  # 300 m are then more than drift explains


def test_no_odometry_of_an_image_at_whose_time_nothing_was_heard():
    told = reporter("odometry", rate_hz=10.0)
    told.state("tracking", "", 0)
    told.told(Origin(47.0, -99.0))
    told.told(LocalPosition(1100 * S, np.zeros(3), np.zeros(3), LEVEL))
    told.answer(published(1100 * S + S // 2), 1, 1100 * S + S // 2)
    assert told.tick(1, 1100 * S + S // 2) == []
    told.told(LocalPosition(1100 * S + S // 2, np.zeros(3), np.zeros(3), LEVEL))
    assert kinds(told.tick(1, 1100 * S + S // 2)) == ["ODOMETRY"]


def test_settings_that_change_in_flight_count_from_then_on():
    told = reporter("global_position_sensor", max_age_s=1.0)
    told.state("tracking", "", 0)
    for k in range(31):  # 20 m/s
        told.told(LocalPosition(1100 * S + k * S // 10, np.array([2.0 * k, 0.0, 80.0]), np.zeros(3), LEVEL))
    assert told.answer(published(1101 * S), 1, 1103 * S) == []
    told.change(ReportSettings(max_age_s=3.0), ResetSettings(drift_share=1.0))
    (message,) = told.answer(published(1101 * S), 1, 1103 * S)
    assert message.eph == pytest.approx(math.hypot(10.0, 40.0))  # the whole way is in doubt


def test_the_gate_goes_by_settings_that_change_in_flight():
    told = dead_reckoning()
    told.change(ReportSettings(output="command"), ResetSettings(held_s=12.0))
    assert fly(told, 9, 300.0) == []


def test_odometry_says_no_more_than_the_positions_it_repeats():
    told = reporter("odometry", rate_hz=10.0, lasting_s=4.0)
    told.state("tracking", "", 0)
    told.told(Origin(47.0, -99.0))
    information = 0.0
    for k in range(40):  # the 4 s for which an error lasts
        now = 1100 * S + k * S // 10
        told.told(LocalPosition(now, np.zeros(3), np.zeros(3), LEVEL))
        if k % 10 == 0:
            told.answer(published(now), 1, now)
        (message,) = told.tick(1, now)
        information += 1.0 / message.pose_covariance[0]
    assert information == pytest.approx(1.0 / 100.0)  # as one position


def test_a_filter_without_an_origin_is_given_one_first():
    told = reporter("odometry")
    told.state("tracking", "", 0)
    told.told(LocalPosition(1100 * S, np.zeros(3), np.zeros(3), LEVEL))
    told.answer(published(1100 * S), 1, 1100 * S)
    assert kinds(told.tick(1, 1100 * S)) == ["SET_GPS_GLOBAL_ORIGIN"]
    assert told.tick(1, 1101 * S) == []  # it may have had one all along, and keeps that: only its own word counts
    told.told(Origin(47.0, -99.1))
    (message,) = told.tick(1, 1102 * S)
    assert message.get_type() == "ODOMETRY"
    assert message.y == pytest.approx(0.1 * 111_319.49 * math.cos(math.radians(47.0)))
