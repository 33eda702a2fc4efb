"""Every reader of a bag gets what the drone knew with its frames; jammed flights can be read too."""

import dataclasses
import json
import logging

import cv2
import numpy as np
import pytest
from mission_support import GRID, PERFECT, fly, jpeg, picture, place, stamp

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.geo.rotation import from_angles, heading_of
from aerial_vpr_cl.image_headers import size_of
from aerial_vpr_cl.learning.observations import MOST_HEADING_SIGMA_DEG
from aerial_vpr_cl.localization.view import ViewSettings, make_view
from aerial_vpr_cl.mission import messages
from aerial_vpr_cl.mission.bag_reader import open_bag
from aerial_vpr_cl.mission.bag_writer import MissionWriter
from aerial_vpr_cl.mission.course import with_course_heading
from aerial_vpr_cl.mission.gnss import OWN_HEIGHT_VARIANCE_M2
from aerial_vpr_cl.mission.mission import read_flight, read_mission
from aerial_vpr_cl.mission.readings import CameraReading, HeightReading, ImuReading, OdometryReading
from aerial_vpr_cl.mission.sensor_messages import FLOAT64, ODOMETRY, RANGE, reading_of, serialized
from aerial_vpr_cl.mission.sensor_settings import SensorSettings
from aerial_vpr_cl.mission.situation import Situation
from aerial_vpr_cl.mission.topics import SensorTopics, sensor_topics_of
from aerial_vpr_cl.simulation.camera import CameraSettings
from aerial_vpr_cl.simulation.gnss import GnssSettings
from aerial_vpr_cl.simulation.scenario import MissionSpec
from aerial_vpr_cl.simulation.sorties import simulate_mission
from aerial_vpr_cl.simulation.tracks import TrackSettings
from aerial_vpr_cl.simulation.world.procedural import ProceduralWorld
from aerial_vpr_cl.simulation.world.terrain import WorldSettings

EAST = (0.0, 0.0, 0.0, 1.0)
HOP = MissionSpec(
    name="hop",
    frames=40,
    camera=CameraSettings(width_px=64, height_px=48, tilt_deg=10.0, shake_deg=2.0),
    track=TrackSettings(kind="random", altitude_m=150.0, spacing_m=40.0),
    gnss=GnssSettings(outages=1, outage_s=30.0),
    sensors=PERFECT,
)


@pytest.fixture(scope="module")
def flown(tmp_path_factory):
    """A simulated flight with perfect instruments whose GNSS is lost for half a minute."""
    world = ProceduralWorld(WorldSettings(seed=5, width_m=1200, height_m=1000, resolution_m=4))
    path = tmp_path_factory.mktemp("flown") / "hop"
    sortie = simulate_mission(world, HOP, path)
    grid = Grid.over_points(sortie.positions(), epsg=32650, cell_side_m=200.0, modulus=2)
    return path, sortie, grid


def turn_deg(first, second):
    return (np.asarray(second) - first + 180.0) % 360.0 - 180.0


def test_frames_of_a_mission_come_with_situation_and_motion_of_the_true_flight(flown):
    path, sortie, grid = flown
    mission = read_mission(path, grid)
    assert 10 < len(mission) < HOP.frames  # some have no fix
    true = sortie.attitudes_at(mission.stamps_ns)
    places = sortie.flight.positions_at(mission.stamps_ns)
    for k, frame in enumerate(mission.frames[:-1]):  # at its end a simulated flight stops dead
        # The swaying between two readings and the map's north at the flight and not at its middle leave a little.
        np.testing.assert_allclose(frame.situation.rotation, true[k], atol=0.01)
        height_m = sortie.flight.altitudes_m_at(mission.stamps_ns[k : k + 1])[0]
        assert frame.situation.height_m == pytest.approx(height_m, abs=0.3)
        assert frame.situation.camera.horizontal_fov_deg == pytest.approx(62.0)
        assert frame.situation.mount[0, 2] == pytest.approx(np.sin(np.radians(10.0)))  # noted in the bag
        if k == 0:
            assert frame.motion is None
            continue
        moved = places[k] - places[k - 1]
        ahead = true[k][:2, 0] / np.hypot(*true[k][:2, 0])
        expected = [ahead @ moved, ahead[0] * moved[1] - ahead[1] * moved[0]]
        np.testing.assert_allclose(frame.motion.forward_left_m, expected, atol=0.05)
        change = turn_deg(heading_of(true[k - 1]), heading_of(true[k]))
        assert abs(turn_deg(change, frame.motion.turn_deg)) < 0.5
        assert frame.motion.seconds == pytest.approx((mission.stamps_ns[k] - mission.stamps_ns[k - 1]) / 1e9)


def test_the_view_of_a_recorded_frame_lies_on_the_map_where_the_bag_says(tmp_path):
    """From the simulated camera through bag and reader to the view: a wrong sign anywhere would show here."""
    world = ProceduralWorld(WorldSettings(seed=5, width_m=1200, height_m=1200, resolution_m=2))
    camera = CameraSettings(width_px=160, height_px=120, tilt_deg=12.0, shake_deg=4.0)
    sortie = simulate_mission(world, dataclasses.replace(HOP, frames=8, camera=camera), tmp_path / "hop")
    grid = Grid.over_points(sortie.positions(), epsg=32650, cell_side_m=200.0, modulus=2)
    settings = ViewSettings("north_up", footprint_m=90.0, size_px=45)  # a pixel of the world each
    for frame in read_flight(tmp_path / "hop", grid).frames[:-1]:
        view = make_view(frame.decode(), frame.situation, settings)
        centre = frame.position + view.offset_m
        assert np.hypot(*view.offset_m) > 10.0  # tilted and shaken
        window = sortie.ground.window(centre, 150.0)
        pixel = (np.array([centre[0] - window.west, window.north - centre[1]]) / 2.0 - 0.5).tolist()
        ground = cv2.getRectSubPix(window.image, (45, 45), pixel)
        assert np.corrcoef(view.image.ravel(), ground.ravel())[0, 1] > 0.98


def test_a_flight_has_all_frames_with_true_positions_also_where_gnss_was_lost(flown):
    path, sortie, grid = flown
    flight = read_flight(path, grid)
    assert (len(flight), flight.positions_from, flight.name) == (HOP.frames, "truth", "hop")
    np.testing.assert_allclose(flight.positions, sortie.positions(), atol=1e-3)
    assert [fix.stamp_ns for fix in flight.fixes] == [fix.stamp_ns for fix in sortie.fixes]
    assert sum(fix.status < 0 for fix in flight.fixes) > 100
    assert all(frame.situation.heading_known for frame in flight.frames)
    assert [frame.motion is None for frame in flight.frames] == [True] + [False] * (HOP.frames - 1)


def test_a_flight_without_truth_has_positions_where_gnss_is_good_and_one_without_gnss_none(tmp_path):
    with MissionWriter(tmp_path / "jammed") as writer:
        for second in range(12):
            status = -1 if 4 <= second < 8 else 0
            writer.write_fix(stamp(second), *place(second), 500.0, status=status)
            writer.write_image(stamp(second + 0.1), jpeg(second))
    flight = read_flight(tmp_path / "jammed", GRID)
    assert (len(flight), flight.positions_from) == (12, "gnss")
    assert np.isfinite(flight.positions[:3]).all() and np.isnan(flight.positions[5:7]).all()
    with MissionWriter(tmp_path / "silent") as writer:
        for second in range(3):
            writer.write_image(stamp(second), jpeg(second))
    silent = read_flight(tmp_path / "silent", GRID)
    assert (len(silent), silent.positions_from, silent.fixes) == (3, "", ())
    assert np.isnan(silent.positions).all()
    with pytest.raises(MissionError, match="no images"):
        read_flight(fly_without_images(tmp_path / "dark"), GRID)


def fly_without_images(path):
    with MissionWriter(path) as writer:
        writer.write_fix(stamp(0), *place(0))
    return path


def test_old_bags_without_instruments_have_frames_that_know_nothing(tmp_path):
    mission = read_mission(fly(tmp_path / "old"), GRID)
    assert all(frame.situation.rotation is None and frame.situation.camera is None for frame in mission.frames)
    assert all(frame.motion is None and frame.situation.height_m is None for frame in mission.frames)


def record(path, readings, frames=6, **options):
    """A flight due east with a frame and a fix every second, and whatever the instruments say."""
    with MissionWriter(path, **options) as writer:
        entries = [(stamp(second), "frame", second) for second in range(frames)]
        entries += [(reading.stamp_ns, topic, reading) for topic, reading in readings]
        for time, topic, what in sorted(entries, key=lambda entry: entry[0]):
            if topic == "frame":
                writer.write_fix(time, *place(what), 500.0)
                writer.write_image(time, jpeg(what))
            else:
                message_type, data = serialized(what)
                writer.write_serialized(topic, message_type, time, own(data) if "localization" in topic else data)
    return path


def own(data):
    """Odometry as this package publishes it: known by the variance of the height that it does not know."""
    message = messages.deserialize(data, ODOMETRY)
    message.pose.covariance = message.pose.covariance.copy()
    message.pose.covariance[14] = OWN_HEIGHT_VARIANCE_M2
    return messages.serialize(message, ODOMETRY)


def every(kind, topic, seconds, *values):
    return [(topic, kind(stamp(second), *values)) for second in seconds]


def test_an_imu_that_stops_in_flight_leaves_the_rest_and_is_said(tmp_path, caplog):
    path = record(tmp_path / "bag", every(ImuReading, "/imu", np.arange(0.0, 2.6, 0.1), EAST, 3.0, 2.0))
    with caplog.at_level(logging.WARNING):
        mission = read_mission(path, GRID)
    known = [frame.situation.heading_known for frame in mission.frames]
    assert known == [True] * 3 + [True] * (known[3]) + [False] * (len(known) - 3 - known[3])
    assert "imu is missing for" in caplog.text and "of 6 frames" in caplog.text


def test_garbage_on_an_instruments_topic_costs_its_messages_only(tmp_path, caplog):
    path = tmp_path / "bag"
    with MissionWriter(path) as writer:
        for second in range(4):
            writer.write_fix(stamp(second), *place(second), 500.0)
            writer.write_reading(ImuReading(stamp(second), EAST, 3.0, 2.0))
            writer.write_serialized("/imu", "sensor_msgs/msg/Imu", stamp(second + 0.5), b"\x00\x01\x00\x00broken")
            writer.write_image(stamp(second), jpeg(second))
    mission = read_mission(path, GRID)
    assert [frame.situation.heading_known for frame in mission.frames] == [True] * 4
    assert "a message on /imu is left out" in caplog.text


def test_topics_are_found_by_type_and_never_the_truth_or_what_knows_nothing(tmp_path):
    times = (0.0, 1.0)
    readings = [
        *every(ImuReading, "/camera/imu", np.arange(0.0, 2.0, 0.1), None),  # a camera's own, without orientation
        *every(ImuReading, "/mavros/imu/data", times, EAST),
        *every(ImuReading, "/ground_truth/imu", np.arange(0.0, 2.0, 0.1), EAST),
        *every(HeightReading, "/front/obstacle", np.arange(0.0, 2.0, 0.1), 3.0),
        *every(HeightReading, "/down/distance", times, 120.0),
        *every(CameraReading, "/thermal/camera_info", np.arange(0.0, 2.0, 0.1), 64, 48, 9.0, 9.0, 31.5, 23.5),
        *every(CameraReading, "/camera/camera_info", times, 64, 48, 50.0, 50.0, 31.5, 23.5),
        *every(OdometryReading, "/localization_node/odometry", np.arange(0.0, 2.0, 0.1), (0.0, 0.0, 0.0), EAST),
        *every(OdometryReading, "/ground_truth/odometry", np.arange(0.0, 2.0, 0.1), (0.0, 0.0, 0.0), EAST),
        *every(OdometryReading, "/vio/odometry", times, (0.0, 0.0, 0.0), EAST),
    ]
    path = record(tmp_path / "bag", readings, frames=2, image_topic="/camera/image/compressed")
    topics = sensor_topics_of(open_bag(path), "/camera/image/compressed")
    assert topics == SensorTopics("/mavros/imu/data", "/down/distance", "/camera/camera_info", "/vio/odometry")
    assert sensor_topics_of(open_bag(fly(tmp_path / "old")), "/camera/image/compressed") == SensorTopics()


def test_a_number_is_a_height_only_if_it_is_called_so_and_is_as_old_as_its_arrival(tmp_path):
    number = messages.make(FLOAT64, data=87.0)
    with MissionWriter(tmp_path / "bag") as writer:
        for second in range(3):
            for topic in ("/mavros/global_position/compass_hdg", "/mavros/global_position/rel_alt"):
                writer.write_serialized(topic, FLOAT64, stamp(second), messages.serialize(number, FLOAT64))
            writer.write_fix(stamp(second), *place(second), 500.0)
            writer.write_image(stamp(second), jpeg(second))
    topics = sensor_topics_of(open_bag(tmp_path / "bag"), "/camera/image/compressed")
    assert topics == SensorTopics(height="/mavros/global_position/rel_alt")
    assert [frame.situation.height_m for frame in read_mission(tmp_path / "bag", GRID).frames] == [87.0] * 3


def test_the_range_of_humble_has_no_variance_and_is_read_all_the_same():
    _, data = serialized(HeightReading(stamp(0), 120.0, 6.0, 0.5, 400.0))
    humble = reading_of(RANGE, data[:-4], 0)
    assert humble[:2] == (stamp(0), 120.0) and np.isnan(humble.sigma_m)


def test_what_is_noted_about_the_sensors_counts_unless_one_says_otherwise(tmp_path, caplog):
    readings = every(ImuReading, "/imu", np.arange(0.0, 6.0, 0.1), EAST)
    path = record(tmp_path / "bag", readings, sensors={"heading_offset_deg": -30.0, "height_m": 90.0})
    frame = read_mission(path, GRID).frames[2]
    assert heading_of(frame.situation.rotation) == pytest.approx(60.0 + GRID.north_deg)
    assert frame.situation.height_m == 90.0
    other = read_mission(path, GRID, sensors=SensorSettings()).frames[2]
    assert heading_of(other.situation.rotation) == pytest.approx(90.0 + GRID.north_deg)
    odd = record(tmp_path / "odd", readings, sensors={"antigravity": 1})
    assert read_mission(odd, GRID).frames[2].situation.heading_known
    assert "not understood and left out" in caplog.text
    assert json.loads(open_bag(odd).facts["mission_sensors"]) == {"antigravity": 1}


@pytest.mark.parametrize("size", [(48, 64), (241, 319), (7, 9)])
def test_the_size_of_an_image_is_known_without_decoding_it(size):
    assert size_of(jpeg(1, size)) == (size[1], size[0])
    assert size_of(cv2.imencode(".png", picture(1, size))[1].tobytes()) == (size[1], size[0])


def test_something_without_a_header_has_no_size():
    for broken in (
        b"",
        b"\xff\xd8\xff",
        jpeg(1)[:10],
        b"\xff\xd8\xff\xff" + b"\xff" * 30,
        b"GIF89a",
        b"\x89PNG\r\n\x1a\n",
    ):
        with pytest.raises(MissionError, match="no header"):
            size_of(broken)


# Course over ground


def test_a_mission_without_compass_takes_its_heading_from_the_course_with_an_honest_sigma(flown):
    path, sortie, grid = flown
    mission = read_mission(path, grid)
    blind = [dataclasses.replace(frame, situation=Situation()) for frame in mission.frames]
    headed = with_course_heading(dataclasses.replace(mission, frames=tuple(blind)))
    known = np.array([frame.situation.heading_known for frame in headed.frames])
    assert known.mean() > 0.5
    true = sortie.flight.headings_deg_at(mission.stamps_ns)
    errors = [
        turn_deg(true[k], heading_of(frame.situation.rotation)) / frame.situation.heading_sigma_deg
        for k, frame in enumerate(headed.frames)
        if known[k]
    ]
    assert np.abs(errors).max() < 3.0
    assert min(f.situation.heading_sigma_deg for f, k in zip(headed.frames, known) if k) >= 10.0


def test_the_course_leaves_a_known_heading_alone_and_keeps_the_tilt(tmp_path):
    mission = read_mission(fly(tmp_path / "east"), GRID)
    tilted = Situation(rotation=from_angles(200.0, 5.0, -4.0))  # its heading is unknown
    sure = Situation(rotation=from_angles(10.0), heading_sigma_deg=3.0)
    frames = list(mission.frames)
    frames[3] = dataclasses.replace(frames[3], situation=tilted)
    frames[4] = dataclasses.replace(frames[4], situation=sure)
    headed = with_course_heading(dataclasses.replace(mission, frames=tuple(frames))).frames
    assert headed[4].situation is sure
    assert heading_of(headed[3].situation.rotation) == pytest.approx(90.0, abs=0.1)
    np.testing.assert_allclose(headed[3].situation.rotation[2], tilted.rotation[2], atol=1e-12)
    assert heading_of(headed[5].situation.rotation) == pytest.approx(90.0, abs=0.1)
    assert headed[0].situation.heading_sigma_deg > headed[5].situation.heading_sigma_deg


def test_a_course_between_unsure_positions_is_unsure(tmp_path):
    mission = read_mission(fly(tmp_path / "east"), GRID)
    sigmas = []
    for position_sigma_m in (2.0, 100.0):
        frames = tuple(dataclasses.replace(frame, position_sigma_m=position_sigma_m) for frame in mission.frames)
        headed = with_course_heading(dataclasses.replace(mission, frames=frames)).frames
        sigmas.append(headed[5].situation.heading_sigma_deg)
    assert sigmas[1] > 1.5 * sigmas[0]


def test_frames_close_to_each_other_tell_a_course_though_positions_err(tmp_path):
    """Two frames a second at 15 m/s, and a receiver that says no more of itself than most: seven metres and a half."""
    mission = read_mission(fly(tmp_path / "east", 30), GRID)
    start = mission.frames[0]
    frames = tuple(
        dataclasses.replace(
            start,
            stamp_ns=start.stamp_ns + k * 500_000_000,
            position=start.position + np.array([7.5 * k, 0.0]),
            position_sigma_m=7.5,
            situation=Situation(),
        )
        for k in range(30)
    )
    headed = with_course_heading(dataclasses.replace(mission, frames=frames)).frames
    assert all(frame.situation.heading_sigma_deg <= MOST_HEADING_SIGMA_DEG for frame in headed[2:-2])
    assert all(heading_of(frame.situation.rotation) == pytest.approx(90.0, abs=0.1) for frame in headed)


def test_a_drone_that_hovers_turns_back_or_has_no_position_has_no_course(tmp_path):
    mission = read_mission(fly(tmp_path / "east", 6), GRID)
    for positions in (
        np.zeros((6, 2)),  # hovering
        np.array([[0.0, 0], [30, 0], [0, 0], [30, 0], [0, 0], [30, 0]]),  # there and back
        np.full((6, 2), np.nan),
    ):
        frames = [dataclasses.replace(frame, position=place) for frame, place in zip(mission.frames, positions)]
        headed = with_course_heading(dataclasses.replace(mission, frames=tuple(frames))).frames
        assert not any(frame.situation.heading_known for frame in headed[1:-1])
