"""The simulated drone's instruments: true without errors, as wrong as the scenario says with them."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mission_support import PERFECT

from aerial_vpr_cl.mission.bag_reader import facts_of, open_bag
from aerial_vpr_cl.mission.readings import CameraReading, HeightReading, ImuReading, OdometryReading
from aerial_vpr_cl.mission.sensors import FlightSensors
from aerial_vpr_cl.simulation.camera import CameraSettings, body_axes, camera_axes
from aerial_vpr_cl.simulation.scenario import MissionSpec, load_scenario
from aerial_vpr_cl.simulation.sensors import InstrumentSettings, quaternions
from aerial_vpr_cl.simulation.sorties import plan, simulate_mission
from aerial_vpr_cl.simulation.tracks import TrackSettings
from aerial_vpr_cl.simulation.world.procedural import ProceduralWorld
from aerial_vpr_cl.simulation.world.terrain import WorldSettings

MISSION = MissionSpec(
    name="hop",
    frames=30,
    camera=CameraSettings(width_px=64, height_px=48, tilt_deg=10.0, shake_deg=2.0),
    track=TrackSettings(kind="random", altitude_m=150.0, spacing_m=60.0),
    sensors=PERFECT,
)


@pytest.fixture(scope="module")
def world():
    return ProceduralWorld(WorldSettings(seed=5, width_m=1200, height_m=1000, resolution_m=4))


def fly(world, **sensors):
    return plan(world, dataclasses.replace(MISSION, sensors=dataclasses.replace(PERFECT, **sensors)))


def heard(sortie, kind):
    return [reading for reading in sortie.readings if isinstance(reading, kind)]


def matrices(readings):
    """By Rodrigues, the slow way."""
    found = []
    for reading in readings:
        x, y, z, w = reading.orientation
        cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        found.append(np.eye(3) + 2.0 * w * cross + 2.0 * cross @ cross)
    return np.array(found)


def headings_deg(rotations):
    return np.degrees(np.arctan2(rotations[:, 0, 0], rotations[:, 1, 0])) % 360.0


def wrapped(degrees):
    return (np.asarray(degrees) + 180.0) % 360.0 - 180.0


def test_base_link_is_forward_left_up_and_a_drone_that_heads_east_has_no_rotation():
    np.testing.assert_allclose(body_axes(CameraSettings(tilt_deg=15.0), 90.0, 0.0, 0.0), np.eye(3), atol=1e-12)
    nose_up = body_axes(CameraSettings(), 90.0, 10.0, 0.0)
    assert nose_up[2, 0] == pytest.approx(np.sin(np.radians(10.0)))  # the camera then looks ahead
    rolled = body_axes(CameraSettings(), 90.0, 0.0, 10.0)
    assert rolled[2, 1] == pytest.approx(np.sin(np.radians(10.0)))  # right wing down: the camera looks to the left
    assert camera_axes(CameraSettings(), 90.0, 0.0, 10.0)[2, 1] > 0.1


@given(st.floats(0, 360), st.floats(-20, 20), st.floats(-20, 20), st.floats(0, 30))
def test_the_body_carries_its_camera_rigidly(heading, pitch, roll, tilt):
    camera = CameraSettings(tilt_deg=tilt)
    mount = np.linalg.inv(body_axes(camera, 0.0, 0.0, 0.0)) @ camera_axes(camera, 0.0).T
    body = body_axes(camera, heading, pitch, roll)
    np.testing.assert_allclose(body @ mount, camera_axes(camera, heading, pitch, roll).T, atol=1e-12)
    assert np.linalg.det(body) == pytest.approx(1.0)


def test_quaternions_are_those_of_the_rotations_even_of_half_turns():
    rotations = np.array([np.eye(3), np.diag([1.0, -1, -1]), np.diag([-1.0, 1, -1]), np.diag([-1.0, -1, 1])])
    readings = [ImuReading(0, tuple(q)) for q in quaternions(rotations)]
    np.testing.assert_allclose(matrices(readings), rotations, atol=1e-12)


def test_perfect_instruments_tell_the_truth(world):
    sortie = fly(world)
    attitudes, heights = heard(sortie, ImuReading), heard(sortie, HeightReading)
    stamps = np.array([reading.stamp_ns for reading in attitudes])
    true = sortie.attitudes_at(stamps)
    np.testing.assert_allclose(matrices(attitudes)[:, 2], true[:, 2], atol=1e-9)  # what is up
    # East of its meridian a map's north lies east of true north, and the compass shows true north.
    assert sortie.north_deg < -1.0
    off = wrapped(headings_deg(matrices(attitudes)) + sortie.north_deg - headings_deg(true))
    np.testing.assert_allclose(off, 0.0, atol=1e-6)
    true_m = sortie.flight.altitudes_m_at(np.array([reading.stamp_ns for reading in heights]))
    upright = sortie.attitudes_at(np.array([reading.stamp_ns for reading in heights]))[:, 2, 2]
    np.testing.assert_allclose([reading.height_m for reading in heights], true_m / upright)  # it tilts with the body
    (size,) = {reading[1:] for reading in heard(sortie, CameraReading)}
    assert size[:2] == (64, 48) and size[2] == pytest.approx(32.0 / np.tan(np.radians(31.0)))
    assert [reading.stamp_ns for reading in sortie.readings] == sorted(r.stamp_ns for r in sortie.readings)


def test_what_a_swaying_range_finder_tells_is_the_true_height_again(world):
    camera = dataclasses.replace(MISSION.camera, hfov_deg=30.0, tilt_deg=0.0, shake_deg=10.0)
    sortie = plan(world, dataclasses.replace(MISSION, camera=camera))
    sensors, found = FlightSensors(), []
    waiting = list(reversed(sortie.readings))
    for stamp_ns in sortie.flight.stamps_ns.tolist():
        while waiting and waiting[-1].stamp_ns <= stamp_ns + 500_000_000:
            sensors.add(waiting.pop())
        found.append(sensors.at(stamp_ns)[0].height_m)
    np.testing.assert_allclose(found, sortie.flight.altitudes_m_at(sortie.flight.stamps_ns), rtol=5e-3)


def test_odometry_has_its_own_origin_and_heading_and_true_differences(world):
    sortie = fly(world)
    readings = heard(sortie, OdometryReading)
    stamps = np.array([reading.stamp_ns for reading in readings])
    assert readings[0].position == (0.0, 0.0, 0.0)
    ahead = matrices(readings)[0][:, 0]
    np.testing.assert_allclose(ahead[:2] / np.hypot(*ahead[:2]), [1.0, 0.0], atol=0.03)
    turn = sortie.attitudes_at(stamps)[0] @ matrices(readings)[0].T  # odom → ENU
    moved = np.array([reading.position for reading in readings]) @ turn.T
    true = sortie.flight.positions_at(stamps)
    np.testing.assert_allclose(moved[:, :2], true - true[0], atol=1e-6)
    np.testing.assert_allclose(turn @ matrices(readings), sortie.attitudes_at(stamps), atol=1e-9)


def test_errors_are_as_large_as_the_scenario_says_and_the_driver_admits_them(world):
    long = dataclasses.replace(MISSION, frames=400, sensors=InstrumentSettings())
    sortie = plan(world, long)
    attitudes = heard(sortie, ImuReading)
    stamps = np.array([reading.stamp_ns for reading in attitudes])
    shown = headings_deg(matrices(attitudes)) + sortie.north_deg
    error = wrapped(shown - headings_deg(sortie.attitudes_at(stamps)))
    assert 2.0 < error.std() < 4.0 and abs(error.mean()) < 6.5
    tilts = np.degrees(np.arcsin((np.swapaxes(sortie.attitudes_at(stamps), 1, 2) @ matrices(attitudes))[:, 2, :2]))
    assert (tilts.std(axis=0) > 2.0).all() and (tilts.std(axis=0) < 4.0).all()
    assert np.corrcoef(tilts[:-10, 0], tilts[10:, 0])[0, 1] > 0.2  # a second later half of it is still there
    assert attitudes[0].heading_sigma_deg == pytest.approx(np.hypot(3.0, 5.0 / np.sqrt(3.0)))
    heights = heard(sortie, HeightReading)
    true_m = sortie.flight.altitudes_m_at(np.array([reading.stamp_ns for reading in heights]))
    relative = np.array([reading.height_m for reading in heights]) / true_m - 1.0
    assert 0.04 < relative.std() < 0.06 and abs(relative.mean()) < 0.01
    assert heights[0].sigma_m == pytest.approx(0.05 * true_m[0], rel=0.02)
    readings = heard(sortie, OdometryReading)
    moved = np.diff([reading.position[:2] for reading in readings[::20]], axis=0)  # two seconds each
    true = np.diff(sortie.flight.positions_at(np.array([reading.stamp_ns for reading in readings[::20]])), axis=0)
    far = np.hypot(*true.T) > 5.0
    lengths = (np.hypot(*moved.T) / np.maximum(np.hypot(*true.T), 1e-9))[far] - 1.0
    assert 0.02 < lengths.std() < 0.08


def test_a_compass_that_is_mounted_backwards_does_not_know_it(world):
    attitudes = heard(fly(world, heading_offset_deg=180.0, heading_noise_deg=1.0), ImuReading)
    stamps = np.array([reading.stamp_ns for reading in attitudes])
    error = headings_deg(matrices(attitudes)) - headings_deg(fly(world).attitudes_at(stamps))
    assert abs(wrapped(error - 180.0)).max() < 8.0
    assert attitudes[0].heading_sigma_deg == pytest.approx(1.0)


def test_outages_take_what_they_should_and_nothing_else(world):
    whole = fly(world)
    lost = fly(world, compass_outages=1, height_outages=2, odometry_outages=1, outage_s=5.0)
    attitudes = heard(lost, ImuReading)
    blind = [reading for reading in attitudes if reading.heading_sigma_deg == 180.0]
    assert 40 <= len(blind) <= 51 and len(attitudes) == len(heard(whole, ImuReading))
    up = matrices(blind)[:, :, 2]
    np.testing.assert_allclose(up[:, 2], lost.attitudes_at(np.array([r.stamp_ns for r in blind]))[:, 2, 2], atol=1e-9)
    nothing = [reading for reading in heard(lost, HeightReading) if np.isinf(reading.height_m)]
    assert 45 <= len(nothing) <= 51
    odometry = heard(lost, OdometryReading)
    gaps = np.diff([reading.stamp_ns for reading in odometry]) / 1e9
    assert (gaps > 1.0).sum() == 1 and gaps.max() == pytest.approx(5.0, abs=0.2)
    assert odometry[int(np.argmax(gaps)) + 1].position == pytest.approx((0.0, 0.0, 0.0))  # it begins anew


def test_instruments_the_drone_has_not_are_silent_and_leave_the_others_as_they_were(world):
    noisy = {"heading_noise_deg": 3.0, "height_noise": 0.05}
    whole, without = fly(world, **noisy), fly(world, height=False, odometry=False, camera_info=False, **noisy)
    assert {type(reading) for reading in without.readings} == {ImuReading}
    assert list(without.readings) == heard(whole, ImuReading)


def test_a_bag_holds_the_readings_and_the_truth_beside_them(world, tmp_path):
    sortie = simulate_mission(world, MISSION, tmp_path / "hop")
    bag = open_bag(tmp_path / "hop", keep=("nav_msgs/msg/Odometry",))
    assert bag.types == {
        "/camera/image/compressed": "sensor_msgs/msg/CompressedImage",
        "/fix": "sensor_msgs/msg/NavSatFix",
        "/imu": "sensor_msgs/msg/Imu",
        "/height": "sensor_msgs/msg/Range",
        "/odometry": "nav_msgs/msg/Odometry",
        "/camera/camera_info": "sensor_msgs/msg/CameraInfo",
        "/ground_truth/fix": "sensor_msgs/msg/NavSatFix",
        "/ground_truth/odometry": "nav_msgs/msg/Odometry",
    }
    assert bag.counts["/imu"] == len(heard(sortie, ImuReading))
    assert len(bag.kept["/ground_truth/odometry"]) == MISSION.frames
    assert facts_of(tmp_path / "hop")["mission_sensors"] == '{"mount_forward_deg": 10.0}'


def test_a_scenario_sets_the_instruments_of_all_missions_and_of_one(tmp_path):
    (tmp_path / "s.yaml").write_text(
        "mission_defaults: {sensors: {heading_noise_deg: 10}}\n"
        "missions: [{name: a}, {name: b, sensors: {height: false}}, {name: c, sensors: {heading_noise_deg: 1}}]"
    )
    a, b, c = (mission.sensors for mission in load_scenario(tmp_path / "s.yaml").missions)
    assert (a.heading_noise_deg, a.height, b.heading_noise_deg, b.height) == (10.0, True, 10.0, False)
    assert (c.heading_noise_deg, c.height_noise) == (1.0, 0.05)
