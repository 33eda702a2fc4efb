"""What crosses the autopilot's cable: axes, clocks, telemetry and answers, against closed forms."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymavlink.dialects.v20 import ardupilotmega as mavlink

from aerial_vpr_cl.autopilot.answers import (
    Position,
    external_position_estimate,
    global_position_sensor,
    odometry,
    status_text,
)
from aerial_vpr_cl.autopilot.axes import aeronautical_to_ros, frd_to_flu, ned_to_enu, ros_to_aeronautical
from aerial_vpr_cl.autopilot.clock import AutopilotClock
from aerial_vpr_cl.autopilot.telemetry import (
    Attitude,
    GlobalPosition,
    GnssFix,
    Height,
    Landed,
    LocalPosition,
    Telemetry,
    wanted_rates_hz,
)

S = 1_000_000_000


def rotate(quaternion_xyzw, vector):
    """v' = v + 2 q × (q × v + w v), from the definition."""
    q, w = np.asarray(quaternion_xyzw[:3]), quaternion_xyzw[3]
    return vector + 2.0 * np.cross(q, np.cross(q, vector) + w * np.asarray(vector))


def aeronautical(roll, pitch, yaw):
    """(w, x, y, z) of yaw, then pitch, then roll about down, right and forward: MAVLink's convention."""
    half = np.array([roll, pitch, yaw]) / 2.0
    (cr, cp, cy), (sr, sp, sy) = np.cos(half), np.sin(half)
    return np.array(
        [
            cr * cp * cy + sr * sp * sy,
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
        ]
    )


@pytest.mark.parametrize(
    ("yaw_deg", "east", "north"), [(0.0, 0.0, 1.0), (90.0, 1.0, 0.0), (180.0, 0.0, -1.0), (270.0, -1.0, 0.0)]
)
def test_a_drone_that_points_along_a_compass_direction_points_there_in_ros(yaw_deg, east, north):
    quaternion = aeronautical_to_ros(aeronautical(0.0, 0.0, math.radians(yaw_deg)))
    assert rotate(quaternion, [1.0, 0.0, 0.0]) == pytest.approx([east, north, 0.0], abs=1e-12)
    assert rotate(quaternion, [0.0, 0.0, 1.0]) == pytest.approx([0.0, 0.0, 1.0], abs=1e-12)


def test_nose_up_and_right_wing_down_stay_what_they_are():
    nose_up = aeronautical_to_ros(aeronautical(0.0, math.radians(20.0), 0.0))
    assert rotate(nose_up, [1.0, 0.0, 0.0])[2] == pytest.approx(math.sin(math.radians(20.0)))
    right_down = aeronautical_to_ros(aeronautical(math.radians(20.0), 0.0, 0.0))
    assert rotate(right_down, [0.0, -1.0, 0.0])[2] == pytest.approx(-math.sin(math.radians(20.0)))


@given(st.tuples(*[st.floats(-3.0, 3.0)] * 3), st.tuples(*[st.floats(-5.0, 5.0)] * 3))
def test_turning_in_either_convention_is_the_same_turn(angles, vector):
    quaternion = aeronautical(*angles)
    w, x, y, z = quaternion
    in_ned = rotate([x, y, z, w], frd_to_flu(vector))
    assert rotate(aeronautical_to_ros(quaternion), np.array(vector)) == pytest.approx(ned_to_enu(in_ned), abs=1e-9)
    assert ros_to_aeronautical(aeronautical_to_ros(quaternion)) == pytest.approx(quaternion, abs=1e-12)


# Clocks


def test_the_quickest_reply_ties_the_clocks():
    clock = AutopilotClock()
    clock.add_reply(100 * S, 5 * S + 200_000_000, 100 * S + 400_000_000)  # slow, symmetric
    clock.add_reply(101 * S, 6 * S + 9_000_000, 101 * S + 10_000_000)  # quick, but nearly all of it on the way there
    assert abs(clock.ours(6 * S) - 101 * S) <= clock.uncertainty_ns
    assert clock.theirs(clock.ours(7 * S)) == 7 * S


def test_a_drifting_clock_is_followed():
    clock = AutopilotClock()
    for k in range(600):  # 100 ppm over ten minutes is 60 ms
        ours = 1000 * S + k * S
        clock.add_reply(ours, round(k * S * (1 + 1e-4)) + S, ours + 4_000_000)
    assert clock.ours(round(599 * S * (1 + 1e-4)) + S) == pytest.approx(1599 * S, abs=10_000_000)


def test_an_autopilot_that_boots_again_is_tied_anew():
    clock = AutopilotClock()
    clock.add_reply(100 * S, 90 * S, 100 * S + 1000)
    clock.add_reply(110 * S, 1 * S, 110 * S + 1000)
    assert clock.resets == 1
    assert clock.ours(1 * S) == pytest.approx(110 * S, abs=1000)


def test_packets_from_the_past_are_told_apart():
    clock = AutopilotClock()
    clock.add_reply(100 * S, 50 * S, 100 * S + 1000)
    assert clock.add_arrival(51 * S, 101 * S)
    assert not clock.add_arrival(10 * S, 102 * S)
    assert not clock.add_arrival(10 * S + 1, 102 * S + 1)
    assert clock.add_arrival(53 * S, 103 * S)


# Telemetry


def telemetry(offset_s=1000):
    clock = AutopilotClock()
    clock.add_reply(offset_s * S, 1, offset_s * S)
    return Telemetry(clock)


def test_attitude_comes_in_ros_axes_and_in_our_time():
    w, x, y, z = aeronautical(0.0, 0.0, math.radians(90.0))
    message = mavlink.MAVLink_attitude_quaternion_message(2000, w, x, y, z, 0.1, 0.2, 0.3)
    (attitude,) = telemetry().take(message, 0)
    assert isinstance(attitude, Attitude)
    assert rotate(attitude.quaternion, [1.0, 0.0, 0.0]) == pytest.approx([1.0, 0.0, 0.0], abs=1e-6)
    assert attitude.rates == pytest.approx([0.1, -0.2, -0.3])
    assert attitude.stamp_ns == pytest.approx(1002 * S, abs=10)


@pytest.mark.parametrize("quaternion", [(0.0, 0.0, 0.0, 0.0), (math.nan, 0.0, 0.0, 0.0), (9.0, 9.0, 9.0, 9.0)])
def test_an_attitude_that_is_none_is_left_out(quaternion):
    assert telemetry().take(mavlink.MAVLink_attitude_quaternion_message(1, *quaternion, 0, 0, 0), 0) == []


def distance(centimetres, orientation=mavlink.MAV_SENSOR_ROTATION_PITCH_270, quality=0):
    return mavlink.MAVLink_distance_sensor_message(
        1000, 20, 12000, centimetres, 0, 0, orientation, 0, signal_quality=quality
    )


def position(relative_mm=80_000, lat=470_000_000, lon=-990_000_000):
    return mavlink.MAVLink_global_position_int_message(1000, lat, lon, 500_000, relative_mm, 0, 0, 0, 0)


def test_a_range_finder_goes_before_height_above_home():
    told = telemetry()
    assert told.take(position(), 10 * S)[1] == Height(pytest.approx(1001 * S, abs=10), 80.0, is_above_home=True)
    (height,) = told.take(distance(5000), 11 * S)
    assert (height.height_m, height.is_range, height.least_m, height.most_m) == (50.0, True, 0.2, 120.0)
    assert [type(value) for value in told.take(position(), 11 * S + 1)] == [GlobalPosition]
    assert len(told.take(position(), 13 * S)) == 2
    told.take(distance(5000), 100 * S)
    assert len(told.take(position(), 20 * S)) == 2  # after a clock was set back, too


@pytest.mark.parametrize(
    "message", [distance(5), distance(13000), distance(5000, orientation=0), distance(5000, quality=1)]
)
def test_a_range_that_means_nothing_is_left_out(message):
    assert telemetry().take(message, 0) == []


def altitude(clearance_m):
    """ALTITUDE of PX4 over ground that lies 12 m above its origin."""
    return mavlink.MAVLink_altitude_message(1_000_000, 0.0, 500.0, 92.0, 80.0, 12.0, clearance_m)


def test_the_height_of_the_filter_is_its_clearance_and_not_where_the_terrain_lies():
    told = telemetry()
    assert told.take(altitude(80.0), 10 * S) == [Height(pytest.approx(1001 * S, abs=10), 80.0)]
    assert [type(value) for value in told.take(position(), 10 * S + 1)] == [GlobalPosition]
    told.take(distance(5000), 11 * S)
    assert told.take(altitude(80.0), 11 * S + 1) == []


@pytest.mark.parametrize("clearance_m", [math.nan, math.inf, 0.0, -1.0])
def test_a_filter_that_knows_no_clearance_leaves_the_height_above_home(clearance_m):
    told = telemetry()
    assert told.take(altitude(clearance_m), 10 * S) == []
    assert told.take(position(), 10 * S + 1)[1].is_above_home


def test_a_filter_without_an_origin_tells_no_position():
    assert not any(isinstance(value, GlobalPosition) for value in telemetry().take(position(lat=0, lon=0), 10 * S))


def test_local_position_is_east_north_up_with_the_attitude_of_its_moment():
    told = telemetry()
    local = mavlink.MAVLink_local_position_ned_message(1010, 10.0, 20.0, -30.0, 1.0, 2.0, -3.0)
    assert told.take(local, 0) == []  # no attitude yet
    told.take(mavlink.MAVLink_attitude_quaternion_message(1000, 1, 0, 0, 0, 0, 0, 0), 0)
    (moved,) = told.take(local, 0)
    assert isinstance(moved, LocalPosition)
    assert moved.position == pytest.approx([20.0, 10.0, 30.0])
    assert moved.velocity == pytest.approx([2.0, 1.0, 3.0])


def test_a_filter_that_is_set_elsewhere_does_not_move_the_drone():
    told = telemetry()
    moved = []
    for k in range(30):  # 5 m/s to the north; after a second the filter is put 300 m to the east
        ms, east_m = 1000 + 50 * k, 300.0 if k >= 20 else 0.0
        told.take(mavlink.MAVLink_attitude_quaternion_message(ms, 1, 0, 0, 0, 0, 0, 0), 0)
        moved += told.take(mavlink.MAVLink_local_position_ned_message(ms, 0.25 * k, east_m, -80, 5, 0, 0), 0)
    assert moved[-1].position == pytest.approx([0.0, 29 * 0.25, 80.0])


@pytest.mark.parametrize(("fix_type", "status"), [(0, -1), (1, -1), (2, -1), (3, 0), (4, 1), (5, 2), (6, 2)])
def test_gnss_keeps_its_quality(fix_type, status):
    message = mavlink.MAVLink_gps_raw_int_message(
        0, fix_type, 470_000_000, -990_000_000, 512_000, 100, 100, 0, 0, 9, h_acc=2500
    )
    (fix,) = telemetry().take(message, 7 * S)
    assert fix == GnssFix(7 * S, 47.0, -99.0, 512.0, status, 2.5)


@pytest.mark.parametrize(
    ("state", "armed", "expected"),
    [
        (mavlink.MAV_LANDED_STATE_ON_GROUND, False, [Landed(True)]),
        (mavlink.MAV_LANDED_STATE_ON_GROUND, True, [Landed(False)]),
        (mavlink.MAV_LANDED_STATE_IN_AIR, True, [Landed(False)]),
        (mavlink.MAV_LANDED_STATE_UNDEFINED, True, [Landed(False)]),
        (mavlink.MAV_LANDED_STATE_UNDEFINED, False, []),
    ],
)
def test_landed_means_on_the_ground_and_not_armed(state, armed, expected):
    assert telemetry().take(mavlink.MAVLink_extended_sys_state_message(0, state), 0, armed) == expected


# Answers


ANSWER = Position(100 * S, 47.1234567, -99.7654321, np.array([[25.0, 0.0], [0.0, 100.0]]))


def test_the_autopilot_is_told_when_the_image_was_taken():
    message = global_position_sensor(ANSWER, 7, 1, 100 * S + 150_000_000, 5_000_000)
    assert (message.id, message.source, message.flags) == (7, mavlink.GLOBAL_POSITION_SRC_VISION, 0)
    assert (message.time_usec, message.processing_time) == (5_000_000, 150_000)
    assert (message.lat, message.lon) == (471_234_567, -997_654_321)
    assert message.eph == 10.0
    assert all(math.isnan(value) for value in (message.alt, message.alt_ellipsoid, message.epv))


def test_the_command_for_ardupilot_says_time_age_and_accuracy():
    message = external_position_estimate(ANSWER, 1, 100 * S + 200_000_000)
    assert message.command == mavlink.MAV_CMD_EXTERNAL_POSITION_ESTIMATE
    assert message.frame == mavlink.MAV_FRAME_GLOBAL
    assert (message.param1, message.param2, message.param3) == (pytest.approx(100.2), pytest.approx(0.2), 10.0)
    assert (message.x, message.y) == (471_234_567, -997_654_321)
    assert math.isnan(message.z)


def test_odometry_is_north_east_down_with_its_covariance_in_that_order():
    covariance = np.array([[4.0, 1.0], [1.0, 9.0]])  # east, north
    message = odometry(5, np.array([1.0, 2.0, 3.0]), np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]), covariance)
    assert (message.x, message.y, message.z) == (2.0, 1.0, -3.0)
    assert (message.pose_covariance[0], message.pose_covariance[1], message.pose_covariance[6]) == (9.0, 1.0, 4.0)
    w, x, y, z = message.q  # the drone points east
    assert rotate([x, y, z, w], [1.0, 0.0, 0.0]) == pytest.approx([0.0, 1.0, 0.0], abs=1e-9)


def test_odometry_is_what_ardupilot_reads():
    velocity = np.array([20.0, 3.0, -1.0])  # east, north, up; the drone points east
    message = odometry(5, np.zeros(3), velocity, np.array([0.0, 0.0, 0.0, 1.0]), np.diag([4.0, 9.0]))
    assert (message.vx, message.vy, message.vz) == pytest.approx((20.0, -3.0, 1.0))  # forward, right, down
    assert (message.frame_id, message.child_frame_id) == (mavlink.MAV_FRAME_LOCAL_FRD, mavlink.MAV_FRAME_BODY_FRD)
    # It adds up the variances of the three axes, and of the three angles; one NaN among them would spoil the sum.
    metres, angles = (sum(message.pose_covariance[k] for k in places) for places in ((0, 6, 11), (15, 18, 20)))
    assert metres == 13.0
    assert angles > 1.5**2  # a heading that is the filter's own is none to fuse


def test_ardupilot_is_not_asked_for_what_it_does_not_know():
    altitude = mavlink.MAVLINK_MSG_ID_ALTITUDE
    assert altitude not in wanted_rates_hz(mavlink.MAV_AUTOPILOT_ARDUPILOTMEGA)
    assert altitude in wanted_rates_hz(mavlink.MAV_AUTOPILOT_PX4)
    assert max(wanted_rates_hz(mavlink.MAV_AUTOPILOT_ARDUPILOTMEGA).values()) <= 40.0  # ArduPlane refuses more


def test_a_long_text_is_cut_not_refused():
    assert len(status_text("ä" + "x" * 80, is_warning=False).text) == 50
