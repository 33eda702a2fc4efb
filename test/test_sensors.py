"""What the drone knows at a frame: interpolated, honest about its error, and named where it is missing."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerial_vpr_cl.geo.rotation import angles_of, from_angles, heading_of
from aerial_vpr_cl.mission.readings import (
    ABOVE_HOME,
    SLANT,
    VERTICAL,
    CameraReading,
    HeightReading,
    ImuReading,
    OdometryReading,
)
from aerial_vpr_cl.mission.sensors import FlightSensors, SensorSettings
from aerial_vpr_cl.mission.situation import camera_mount
from aerial_vpr_cl.simulation.camera import CameraSettings, body_axes, camera_axes
from aerial_vpr_cl.simulation.sensors import quaternions

START_NS = 1_700_000_000_000_000_000


def stamp(seconds):
    return START_NS + round(seconds * 1e9)


def quaternion(heading_deg, pitch_deg=0.0, roll_deg=0.0):
    return tuple(quaternions(from_angles(heading_deg, pitch_deg, roll_deg)[None])[0].tolist())


def imu(seconds, heading_deg=40.0, pitch_deg=0.0, roll_deg=0.0, sigma_deg=3.0):
    return ImuReading(stamp(seconds), quaternion(heading_deg, pitch_deg, roll_deg), sigma_deg, 2.0)


def odometry(seconds, x, y, yaw_deg=0.0):
    """A pose with a yaw counted as ROS does, anticlockwise from x."""
    return OdometryReading(stamp(seconds), (x, y, 0.0), quaternion(90.0 - yaw_deg))


def sensors(*readings, **settings):
    flight = FlightSensors(SensorSettings(**settings))
    for reading in readings:
        flight.add(reading)
    return flight


# Attitude


@given(st.floats(0, 360), st.floats(-170, 170), st.floats(0, 1), st.floats(-20, 20))
def test_attitude_is_interpolated_by_the_shorter_turn(heading, turn, share, roll):
    flight = sensors(imu(0.0, heading, roll_deg=roll), imu(0.4, heading + turn, roll_deg=roll))
    situation, _ = flight.at(stamp(0.4 * share))
    expected = heading + share * turn
    # With roll the shortest turn between two attitudes is not quite about the vertical.
    allowed = 1e-3 if abs(roll) < 1e-6 else 15.0
    assert abs((heading_of(situation.rotation) - expected + 180.0) % 360.0 - 180.0) < allowed
    assert situation.heading_sigma_deg == pytest.approx(3.0) and situation.tilt_sigma_deg == 2.0


def test_the_last_attitude_before_a_frame_is_used_while_it_is_young_and_its_age_costs_certainty():
    flight = sensors(imu(0.0))
    young, _ = flight.at(stamp(0.2))
    assert heading_of(young.rotation) == pytest.approx(40.0)
    assert young.heading_sigma_deg == pytest.approx(math.hypot(3.0, 4.0)) and not flight.problems
    assert young.tilt_sigma_deg == pytest.approx(math.hypot(2.0, 4.0))
    old, _ = flight.at(stamp(0.7))
    assert old.rotation is None and not old.heading_known
    assert "0.7 s away" in flight.problems["imu"]


def test_an_imu_that_stops_in_flight_is_named_and_one_that_comes_back_is_used():
    flight = sensors()
    for second in range(3):
        flight.add(imu(second))
        assert flight.at(stamp(second))[0].heading_known
    for second in range(3, 30):
        situation, _ = flight.at(stamp(second))
        assert not situation.heading_known
    assert "it is too slow or has stopped" in flight.problems["imu"]
    flight.add(imu(30.0))
    assert flight.at(stamp(30.0))[0].heading_known and not flight.problems


@pytest.mark.parametrize(("offset_s", "side"), [(-86_400.0, "behind"), (7.0, "ahead of"), (-START_NS / 1e9, "behind")])
def test_stamps_of_another_clock_are_noticed_and_said(offset_s, side):
    flight = sensors()
    for second in range(12):
        flight.add(imu(second + offset_s))
        flight.add(odometry(second + offset_s, 10.0 * second, 0.0))
        situation, motion = flight.at(stamp(second))
        assert not situation.heading_known and motion is None
    for topic in ("imu", "odometry"):
        assert f"s {side} those of the images: give both the same clock" in flight.problems[topic]


@pytest.mark.parametrize(
    "orientation", [(0.0, 0.0, 0.0, 0.0), (math.nan, 0.0, 0.0, 1.0), (math.inf, 0.0, 0.0, 1.0), (3.0, 0.0, 0.0, 4.0)]
)
def test_a_broken_quaternion_is_named_and_not_used(orientation):
    flight = sensors(imu(0.0), ImuReading(stamp(1.0), orientation))
    assert flight.at(stamp(1.0))[0].rotation is None
    assert "is not a rotation" in flight.problems["imu"]


def test_a_driver_without_orientation_says_so_by_its_covariance():
    flight = sensors(ImuReading(stamp(0.0), None))
    assert flight.at(stamp(0.0))[0].rotation is None
    assert "no orientation" in flight.problems["imu"]


@pytest.mark.parametrize("sigma_deg", [57.3, 180.0, math.inf])
def test_a_heading_of_huge_variance_is_unknown_and_the_tilt_is_kept(sigma_deg):
    flight = sensors(imu(0.0, pitch_deg=7.0, sigma_deg=sigma_deg))
    situation, _ = flight.at(stamp(0.0))
    assert not situation.heading_known and situation.heading_sigma_deg == 180.0
    assert angles_of(situation.rotation)[1] == pytest.approx(7.0)
    assert "its heading is unknown" in flight.problems["imu"]
    believed, _ = sensors(imu(0.0, sigma_deg=sigma_deg), stated_sigmas=False).at(stamp(0.0))
    assert believed.heading_sigma_deg == 5.0


def test_nothing_lies_between_a_heading_that_is_known_and_one_that_is_lost():
    flight = sensors(imu(0.0, 40.0), imu(0.4, 250.0, pitch_deg=5.0, sigma_deg=180.0))
    early, _ = flight.at(stamp(0.1))
    late, _ = flight.at(stamp(0.3))
    assert not early.heading_known and not late.heading_known
    assert heading_of(early.rotation) == pytest.approx(40.0) and angles_of(late.rotation)[1] == pytest.approx(5.0)


def test_an_imu_whose_yaw_begins_anywhere_gives_tilt_only_and_that_is_no_problem():
    flight = sensors(imu(0.0, roll_deg=6.0), compass=False)
    situation, _ = flight.at(stamp(0.0))
    assert not situation.heading_known and angles_of(situation.rotation)[2] == pytest.approx(6.0)
    assert not flight.problems


def test_declination_mounting_and_the_north_of_the_map_turn_the_heading():
    flight = FlightSensors(SensorSettings(heading_offset_deg=-12.0), north_deg=-2.0)
    flight.add(imu(0.0, 40.0))
    assert heading_of(flight.at(stamp(0.0))[0].rotation) == pytest.approx(26.0)


def test_a_levelled_gimbal_leaves_the_heading_only():
    situation, _ = sensors(imu(0.0, 40.0, 12.0, -9.0), levelled=True).at(stamp(0.0))
    assert angles_of(situation.rotation) == pytest.approx((40.0, 0.0, 0.0), abs=1e-6)
    assert sensors(levelled=True).at(stamp(0.0))[0].tilt_sigma_deg == 3.0


def test_a_driver_that_states_no_sigma_gets_the_one_that_is_set_and_none_is_perfect():
    silent, _ = sensors(ImuReading(stamp(0.0), quaternion(40.0))).at(stamp(0.0))
    assert (silent.heading_sigma_deg, silent.tilt_sigma_deg) == (5.0, 3.0)
    boastful, _ = sensors(ImuReading(stamp(0.0), quaternion(40.0), 1e-6, 1e-6)).at(stamp(0.0))
    assert (boastful.heading_sigma_deg, boastful.tilt_sigma_deg) == (1.0, 0.5)


@given(st.floats(0, 30), st.floats(0, 360), st.floats(-10, 10), st.floats(-10, 10))
def test_the_mount_and_the_attitude_look_where_the_simulated_camera_looks(tilt, heading, pitch, roll):
    camera = CameraSettings(tilt_deg=tilt)
    body = body_axes(camera, heading, pitch, roll)
    flight = sensors(ImuReading(stamp(0.0), tuple(quaternions(body[None])[0])), mount_forward_deg=tilt)
    situation, _ = flight.at(stamp(0.0))
    seen = camera_axes(camera, heading, pitch, roll).T
    np.testing.assert_allclose(situation.rotation @ situation.mount, seen, atol=1e-9)
    np.testing.assert_allclose(situation.mount, camera_mount(forward_deg=tilt))


# Height


def test_height_is_interpolated_with_the_sigma_its_driver_states():
    flight = sensors(HeightReading(stamp(0.0), 100.0, 5.0), HeightReading(stamp(1.0), 110.0, 6.0))
    situation, _ = flight.at(stamp(0.25))
    assert (situation.height_m, situation.height_sigma_m) == (pytest.approx(102.5), pytest.approx(6.0))
    silent, _ = sensors(HeightReading(stamp(0.0), 100.0)).at(stamp(0.0))
    assert silent.height_sigma_m == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("reading", "words"),
    [
        (HeightReading(0, 0.0), "0 m is none"),
        (HeightReading(0, -3.0), "-3 m is none"),
        (HeightReading(0, math.nan), "nan m is none"),
        (HeightReading(0, math.inf), "inf m is none"),
        (HeightReading(0, 250.0, 1.0, 0.5, 200.0), "outside of what the range finder can tell, 0.5 to 200 m"),
        (HeightReading(0, 0.2, 1.0, 0.5, 200.0), "outside of what the range finder can tell"),
    ],
)
def test_a_height_that_is_none_is_named_and_a_constant_takes_its_place(reading, words):
    reading = reading._replace(stamp_ns=stamp(0.0))
    flight = sensors(reading)
    assert flight.at(stamp(0.0))[0].height_m is None
    assert words in flight.problems["height"]
    flight = sensors(reading, height_m=120.0)
    situation, _ = flight.at(stamp(0.0))
    assert (situation.height_m, situation.height_sigma_m) == (120.0, pytest.approx(12.0))
    assert words in flight.problems["height"] and "120 m is used" in flight.problems["height"]


def ranged(range_m, kind=SLANT):
    return HeightReading(stamp(0.0), range_m, 0.05 * range_m, kind=kind)


@given(st.floats(-40, 40), st.floats(-40, 40), st.booleans())
def test_a_range_finder_that_tilts_with_the_body_tells_the_height_below(pitch, roll, levelled):
    upright = math.cos(math.radians(pitch)) * math.cos(math.radians(roll))
    flight = sensors(imu(0.0, pitch_deg=pitch, roll_deg=roll), ranged(100.0 / upright), levelled=levelled)
    situation, _ = flight.at(stamp(0.0))
    assert (situation.height_m, situation.height_sigma_m) == pytest.approx((100.0, 5.0))


@pytest.mark.parametrize(
    ("reading", "settings"),
    [(ranged(100.0, VERTICAL), {}), (ranged(100.0, ABOVE_HOME), {}), (ranged(100.0), {"range_is_vertical": True})],
)
def test_what_is_a_height_already_does_not_change_with_the_tilt(reading, settings):
    flight = sensors(imu(0.0, pitch_deg=-70.0), reading, **settings)
    assert flight.at(stamp(0.0))[0].height_m == 100.0 and not flight.problems


def test_a_range_counts_as_it_is_while_no_attitude_is_known():
    assert sensors(ranged(100.0)).at(stamp(0.0))[0].height_m == 100.0


def test_a_range_finder_that_looks_far_aside_tells_no_height():
    flight = sensors(imu(0.0, roll_deg=65.0), ranged(200.0), height_m=80.0)
    assert flight.at(stamp(0.0))[0].height_m == 80.0
    assert "tilted too far" in flight.problems["height"] and "80 m is used" in flight.problems["height"]


def test_a_single_range_that_is_a_little_old_is_less_certain():
    flight = sensors(imu(0.5, roll_deg=20.0), ranged(100.0))
    sigma_m = flight.at(stamp(0.5))[0].height_sigma_m
    assert sigma_m == pytest.approx(math.hypot(5.0 * math.cos(math.radians(20.0)), 1.5))


def test_a_drone_without_topics_knows_its_constants_and_has_no_problems():
    flight = sensors(height_m=80.0, horizontal_fov_deg=60.0)
    situation, motion = flight.at(stamp(0.0), (640, 480))
    assert situation.height_m == 80.0 and situation.camera.horizontal_fov_deg == pytest.approx(60.0)
    assert situation.rotation is None and motion is None and not flight.problems
    nothing, _ = sensors().at(stamp(0.0), (640, 480))
    assert nothing.camera is None and nothing.height_m is None


# Camera


def test_camera_info_of_another_size_is_resized_and_of_another_shape_refused():
    info = CameraReading(0, 640, 480, 500.0, 510.0, 319.5, 239.5, (0.1, -0.05, 0.0, 0.0, 0.0))
    flight = sensors(info, horizontal_fov_deg=60.0)
    small = flight.at(stamp(0.0), (320, 240))[0].camera
    assert (small.width_px, small.fx, small.cx) == (320, pytest.approx(250.0), pytest.approx(159.5))
    assert small.distortion == (0.1, -0.05) and not flight.problems
    cut = flight.at(stamp(1.0), (320, 180))[0].camera
    assert (cut.height_px, cut.horizontal_fov_deg) == (180, pytest.approx(60.0))
    assert "640 × 480, not 320 × 180: the frames were cut; horizontal_fov_deg is used" in flight.problems["camera_info"]


@pytest.mark.parametrize(
    "info",
    [
        CameraReading(0, 640, 480, 0.0, 0.0, 0.0, 0.0),
        CameraReading(0, 640, 480, math.nan, 500.0, 320.0, 240.0),
        CameraReading(0, 0, 0, 500.0, 500.0, 320.0, 240.0),
        CameraReading(0, 640, 480, 500.0, 500.0, 320.0, 240.0, (), "made_up"),
    ],
)
def test_camera_info_that_is_no_calibration_is_named(info):
    flight = sensors(info)
    assert flight.at(stamp(0.0), (640, 480))[0].camera is None
    assert flight.problems["camera_info"]


# Odometry


def test_the_first_frame_has_no_motion_and_the_next_has_it_in_its_own_body_axes():
    flight = sensors(odometry(0.0, 5.0, 5.0, 0.0), odometry(1.0, 5.0, 15.0, 90.0))
    assert flight.at(stamp(0.0))[1] is None
    _, motion = flight.at(stamp(1.0))  # went along y, and looks along y now
    np.testing.assert_allclose(motion.forward_left_m, [10.0, 0.0], atol=1e-9)
    assert (motion.turn_deg, motion.seconds) == (pytest.approx(-90.0), 1.0)
    flight.add(odometry(2.0, 5.0, 15.0, -90.0))
    flight.add(odometry(3.0, 8.0, 15.0, -90.0))
    flight.at(stamp(2.0))
    np.testing.assert_allclose(flight.at(stamp(3.0))[1].forward_left_m, [0.0, 3.0], atol=1e-9)


@given(
    st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9), st.floats(-80, 80)), min_size=2, max_size=8),
    st.floats(0, 360),
    st.floats(-1e4, 1e4),
)
def test_motions_add_up_to_the_way_whatever_the_origin_and_the_heading_of_the_frame(steps, turn, origin):
    headings = np.cumsum([step[2] for step in steps])
    places = np.cumsum([step[:2] for step in steps], axis=0)
    yaw = np.radians(turn)
    rotated = places @ np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]]) + origin
    flight = sensors()
    way, heading = np.zeros(2), headings[0]
    for second, ((x, y), course) in enumerate(zip(rotated, headings)):
        flight.add(odometry(second, x, y, 90.0 - course + turn))
        _, motion = flight.at(stamp(second))
        if motion is not None:
            heading += motion.turn_deg
            ahead = np.array([np.sin(np.radians(heading)), np.cos(np.radians(heading))])
            way += motion.forward_left_m @ np.array([ahead, [-ahead[1], ahead[0]]])
    np.testing.assert_allclose(way, places[-1] - places[0], atol=1e-3)


def test_a_pitched_drone_moves_in_level_axes():
    level = [OdometryReading(stamp(t), (10.0 * t, 0.0, 0.0), quaternion(90.0, 0.0)) for t in (0, 1)]
    pitched = [OdometryReading(stamp(t), (10.0 * t, 0.0, 0.0), quaternion(90.0, -25.0, 10.0)) for t in (0, 1)]
    for readings in (level, pitched):
        flight = sensors(*readings)
        flight.at(stamp(0.0))
        np.testing.assert_allclose(flight.at(stamp(1.0))[1].forward_left_m, [10.0, 0.0], atol=1e-9)


def test_a_frame_a_little_newer_than_the_odometry_continues_its_motion():
    flight = sensors(*(odometry(0.1 * k, 2.0 * k, 0.0) for k in range(11)))
    flight.at(stamp(0.0))
    _, motion = flight.at(stamp(1.05))
    assert motion.forward_left_m[0] == pytest.approx(21.0)


def test_odometry_that_jumps_or_pauses_gives_no_motion_once_and_goes_on():
    flight = sensors()
    found = []
    for second in range(8):
        for tenth in range(10):
            time = second + tenth / 10
            x = 10.0 * time + (500.0 if time >= 2.5 else 0.0)
            if not 4.1 <= time <= 5.9:
                flight.add(odometry(time, x, 0.0))
        found.append(flight.at(stamp(second))[1])
        if second == 3:
            assert "it jumped, paused or began anew" in flight.problems["odometry"]
    assert [motion is not None for motion in found] == [False, True, True, False, True, False, False, True]
    assert found[7].forward_left_m[0] == pytest.approx(10.0)


def test_broken_odometry_is_named():
    flight = sensors(OdometryReading(stamp(0.0), (math.nan, 0.0, 0.0), quaternion(0.0)))
    assert flight.at(stamp(0.0))[1] is None and "is not one" in flight.problems["odometry"]
    flight.add(OdometryReading(stamp(1.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)))
    assert flight.at(stamp(1.0))[1] is None and "is not a rotation" in flight.problems["odometry"]


def test_a_bag_that_is_played_again_begins_anew():
    flight = sensors()
    for _ in range(2):
        for second in range(20):
            flight.add(imu(second, heading_deg=5.0 + 10.0 * second))
            flight.add(HeightReading(stamp(second), 100.0 + second))
            flight.add(odometry(second, 10.0 * second, 0.0))
            situation, motion = flight.at(stamp(second))
            assert heading_of(situation.rotation) == pytest.approx(5.0 + 10.0 * second)
            assert situation.height_m == pytest.approx(100.0 + second)
            assert (motion is None) == (second == 0)
            if motion is not None:
                np.testing.assert_allclose(motion.forward_left_m, [10.0, 0.0], atol=1e-9)
    again, motion = flight.at(stamp(5.0))
    assert motion is None and again.rotation is None  # readings of then are not there any more


def test_after_a_clock_was_set_back_nothing_of_before_is_mixed_in():
    """Set back by 3 s while the drone turned on: both sides of the moment would be there, one of them 90° off."""
    told = sensors(*[imu(t, heading_deg=10.0 * t) for t in np.arange(0.0, 6.0, 0.1)])
    told.add(HeightReading(stamp(5.9), 100.0, 1.0))
    told.add(odometry(5.9, 50.0, 0.0))
    told.clear()
    assert told.at(stamp(3.0))[0].rotation is None
    told.add(imu(3.05, heading_deg=60.5))
    situation, motion = told.at(stamp(3.1))
    assert heading_of(situation.rotation) == pytest.approx(60.5) and situation.height_m is None and motion is None


def test_late_and_repeated_readings_do_no_harm():
    flight = sensors(imu(0.0, 10.0), imu(0.4, 30.0), imu(0.2, 20.0), imu(0.2, 20.0), odometry(0.0, 0.0, 0.0))
    for reading in (odometry(0.4, 4.0, 0.0), odometry(0.4, 4.0, 0.0), odometry(0.2, 2.0, 0.0)):
        flight.add(reading)
    assert heading_of(flight.at(stamp(0.1))[0].rotation) == pytest.approx(15.0)
    assert heading_of(flight.at(stamp(0.3))[0].rotation) == pytest.approx(25.0)
    assert flight.at(stamp(0.4))[1].forward_left_m[0] == pytest.approx(1.0)


def test_a_long_flight_does_not_grow():
    flight = sensors()
    for millisecond in range(0, 60_000, 4):
        flight.add(imu(millisecond / 1000))
        flight.add(odometry(millisecond / 1000, millisecond / 100, 0.0))
    kept = [len(series._stamps_ns) for series in (flight._attitudes, flight._odometer._places)]
    assert max(kept) <= 2600
