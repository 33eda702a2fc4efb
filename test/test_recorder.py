"""What is recorded is the flight to learning: its frames, fixes and readings, within rate and gates."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
from mission_support import GRID, START_NS, fly, jpeg, picture, stamp
from rclpy.serialization import serialize_message
from recorder_support import ALL, EAST, LIMIT_S, fix_at, pace, record
from sensor_msgs.msg import Range

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.geo.rotation import heading_of
from aerial_vpr_cl.mission.bag_reader import open_bag
from aerial_vpr_cl.mission.gnss import Fix, GnssGates
from aerial_vpr_cl.mission.messages import NAV_SAT_FIX, deserialize, nav_sat_fix
from aerial_vpr_cl.mission.mission import gates_of, read_flight, read_mission
from aerial_vpr_cl.mission.open_mission import TOO_CLOSE, encode_frame
from aerial_vpr_cl.mission.readings import CameraReading, HeightReading, ImuReading, OdometryReading
from aerial_vpr_cl.mission.recorder import MissionRecorder
from aerial_vpr_cl.mission.recorder_settings import RecorderSettings
from aerial_vpr_cl.mission.sensor_messages import RANGE
from aerial_vpr_cl.mission.sensor_settings import SensorSettings

CAMERA = CameraReading(stamp(0), 640, 480, 500.0, 500.0, 319.5, 239.5)


def test_a_recorded_mission_is_to_learning_what_the_simulators_bag_is(tmp_path):
    original = read_mission(fly(tmp_path / "original", 20), GRID)
    path, _ = record(tmp_path / "missions")
    recorded = read_mission(path, GRID)
    assert np.array_equal(recorded.stamps_ns, original.stamps_ns)
    assert np.array_equal(recorded.positions, original.positions)
    assert np.array_equal(recorded.labels(GRID), original.labels(GRID))
    assert [frame.image for frame in recorded.frames] == [frame.image for frame in original.frames]
    assert (recorded.name, recorded.modality, recorded.refused) == (path.name, "VIS", {})


@pytest.mark.parametrize("wild_ns", [-1, -(2**31) * 10**9, 0, 1, (2**31 - 1) * 10**9, 2**31 * 10**9, 2**63 - 1])
@pytest.mark.parametrize("stream", ["fix", "image"])
def test_one_wild_stamp_costs_a_frame_or_two_and_not_the_flight(tmp_path, stream, wild_ns):
    recorder = MissionRecorder(tmp_path, GRID, ALL)
    recorder.start().result(LIMIT_S)
    for step in range(40):
        wild = wild_ns if step == 10 else None
        fix = fix_at(step / 2)
        recorder.offer_fix(fix._replace(stamp_ns=wild) if wild is not None and stream == "fix" else fix)
        if step % 2 == 0:
            recorder.offer_image(wild if wild is not None and stream == "image" else stamp(step / 2), jpeg(step // 2))
            pace(recorder)
    path = recorder.stop().result(LIMIT_S)
    recorder.close()
    assert len(read_mission(path, GRID)) >= 17


def test_a_fix_with_a_negative_second_takes_the_time_it_was_received(tmp_path):
    message = deserialize(nav_sat_fix(-7 * 10**9, 47.0, 8.0, 500.0), NAV_SAT_FIX)
    assert Fix.from_message(message, START_NS).stamp_ns == START_NS


def test_frames_with_faulty_gnss_are_recorded_for_labels_of_another_kind_and_the_reader_refuses_them(tmp_path):
    def fix(seconds):
        if 5.0 <= seconds < 9.0:
            return fix_at(seconds, latitude=float("nan"))
        if 12.0 <= seconds < 16.0:
            return None
        return fix_at(seconds, status=-1) if seconds == 18.0 else fix_at(seconds)

    path, recorder = record(tmp_path / "missions", fix=fix)
    kept = {round((value - START_NS) / 1e9) for value in read_mission(path, GRID).stamps_ns}
    assert kept == set(range(20)) - {5, 6, 7, 8, 12, 13, 14, 15}
    # A frame just after the last good fix is left to the reader: had no fix followed, it would be good.
    assert 6 <= recorder.status.without_fix <= 8 and recorder.status.refused == {}
    flight = read_flight(path, GRID)
    assert len(flight) == 20 and np.isnan(flight.positions[[6, 7, 13, 14]]).all()


def test_a_flight_that_is_jammed_from_start_to_end_is_recorded(tmp_path):
    path, recorder = record(tmp_path / "m", fix=lambda seconds: fix_at(seconds, status=-1))
    assert (recorder.status.frames, recorder.status.without_fix) == (20, 20)
    assert len(read_flight(path, GRID)) == 20


def test_frames_that_gnss_puts_off_the_map_are_not_recorded(tmp_path):
    path, recorder = record(
        tmp_path / "m", fix=lambda seconds: fix_at(seconds + 1000.0)._replace(stamp_ns=stamp(seconds))
    )
    assert path is None and recorder.status.refused == {"outside map": 20}


@pytest.mark.parametrize("lie", ["far away", "one place for ever"])
def test_frames_are_not_left_out_for_what_a_receiver_says_that_was_caught(tmp_path, lie):
    def fix(seconds):
        return fix_at(0.0 if lie == "one place for ever" else seconds + 1000.0)._replace(stamp_ns=stamp(seconds))

    spaced = replace(ALL, spacing_m=5.0)
    assert record(tmp_path / "believed", spaced, fix=fix)[1].status.frames <= 1
    path, recorder = record(tmp_path / "caught", spaced, fix=fix, is_caught=True)
    assert (recorder.status.frames, recorder.status.without_fix) == (20, 20)
    assert len(read_flight(path, GRID).fixes) >= 20  # which are there for those who want to know


def test_what_the_drone_knows_is_recorded_with_the_frames_and_read_again(tmp_path):
    noted = SensorSettings(mount_forward_deg=15.0)
    recorder = MissionRecorder(tmp_path / "m", GRID, ALL, sensors=noted)
    recorder.offer_reading(CAMERA)  # some cameras send it once
    recorder.start().result(LIMIT_S)
    for tenth in range(100):
        time = tenth / 10
        recorder.offer_reading(ImuReading(stamp(time), EAST, 3.0, 2.0))
        height = Range(range=float(120.0 + time), min_range=1.0, max_range=500.0)
        height.header.stamp.sec, height.header.stamp.nanosec = divmod(stamp(time), 10**9)
        recorder.offer_reading(HeightReading.from_message(height), RANGE, bytes(serialize_message(height)))
        recorder.offer_reading(OdometryReading(stamp(time), (20.0 * time, 0.0, 0.0), EAST))
        if tenth % 10 == 0:
            recorder.offer_fix(fix_at(time))
            recorder.offer_image(stamp(time), jpeg(tenth // 10))
        pace(recorder)
    path = recorder.stop().result(LIMIT_S)
    recorder.close()
    frames = read_mission(path, GRID).frames
    assert len(frames) == 10
    for second, frame in enumerate(frames):
        situation = frame.situation
        assert heading_of(situation.rotation) == pytest.approx(90.0 + GRID.north_deg)
        assert situation.height_m == pytest.approx(120.0 + second)
        # The recorded frame is smaller than what the calibration is of.
        assert situation.camera.width_px == 64 and situation.camera.fx == pytest.approx(50.0)
        np.testing.assert_allclose(situation.mount, noted.mount)
        if second:
            np.testing.assert_allclose(frame.motion.forward_left_m, [20.0, 0.0], atol=1e-6)


def test_readings_are_thinned_to_their_rate_each_instrument_by_itself(tmp_path):
    recorder = MissionRecorder(tmp_path / "m", GRID, RecorderSettings(mode="service", sensor_rate_hz=10.0))
    recorder.start().result(LIMIT_S)
    recorder.offer_image(stamp(0), jpeg(0))
    for step in range(1600):
        time = stamp(step / 400)  # an IMU at 400 Hz
        recorder.offer_reading(ImuReading(time, EAST))
        recorder.offer_reading(CAMERA._replace(stamp_ns=time))
        if step % 8 == 0:
            recorder.offer_reading(OdometryReading(time, (0.0, 0.0, 0.0), EAST))
        pace(recorder)
    recorder.offer_reading(CAMERA._replace(stamp_ns=stamp(4), fx=501.0))
    path = recorder.stop().result(LIMIT_S)
    recorder.close()
    counts = open_bag(path).counts
    assert 36 <= counts["/imu"] <= 45 and 30 <= counts["/odometry"] <= 45
    assert counts["/camera/camera_info"] == 2  # once, and when it changed


def test_readings_of_another_clock_are_filed_where_they_came(tmp_path):
    recorder = MissionRecorder(tmp_path / "m", GRID, ALL)
    recorder.start().result(LIMIT_S)
    recorder.offer_reading(ImuReading(5 * 10**8, EAST))  # its clock counts from its own start
    for second in range(5):
        recorder.offer_fix(fix_at(second))
        recorder.offer_image(stamp(second), jpeg(second))
        recorder.offer_reading(ImuReading((second + 1) * 10**9, EAST))
    path = recorder.stop().result(LIMIT_S)
    recorder.close()
    mission = read_mission(path, GRID)
    assert len(mission) == 5 and not any(frame.situation.heading_known for frame in mission.frames)
    received = [raw.received_ns for raw in open_bag(path).messages("/imu")]
    assert len(received) == 6 and min(received) == stamp(0)


def test_rate_and_spacing_thin_the_frames(tmp_path):
    rated, _ = record(tmp_path / "rated", RecorderSettings(mode="service", rate_hz=1.0), hz=4)
    assert np.diff(read_mission(rated, GRID).stamps_ns).tolist() == [10**9] * 19
    spaced, recorder = record(tmp_path / "spaced", RecorderSettings(mode="service", rate_hz=0.0, spacing_m=50.0))
    positions = read_mission(spaced, GRID).positions
    assert np.diff(positions[:, 0]).min() > 49.99 and len(positions) == 7
    assert recorder.status.refused == {TOO_CLOSE: 13}


def test_frames_are_reduced_to_the_set_size_and_small_jpegs_stay_as_they_are():
    large = picture(0, (240, 640))
    small = cv2.imdecode(np.frombuffer(encode_frame(lambda: large, 320, 90), np.uint8), cv2.IMREAD_COLOR)
    assert small.shape == (120, 320, 3)
    assert np.abs(small[..., ::-1].astype(int) - cv2.resize(large, (320, 120), interpolation=cv2.INTER_AREA)).mean() < 8
    data = jpeg(0)
    assert encode_frame(data, 64, 90) is data
    assert encode_frame(data, 63, 90) != data
    assert encode_frame(lambda: data, 64, 90) is data
    png = cv2.imencode(".png", picture(0))[1].tobytes()
    assert encode_frame(png, 320, 90)[:3] == b"\xff\xd8\xff"


def test_raw_frames_are_recorded_too(tmp_path):
    path, _ = record(tmp_path / "missions", image=lambda index: lambda: picture(index), seconds=5)
    mission = read_mission(path, GRID)
    assert len(mission) == 5
    assert np.abs(mission.frames[2].decode().astype(int) - picture(2)).mean() < 8


def test_a_bad_image_costs_that_frame_only(tmp_path):
    path, recorder = record(tmp_path / "m", seconds=6, image=lambda index: b"broken" if index == 3 else jpeg(index))
    assert len(read_mission(path, GRID)) == 5
    assert recorder.status.frames == 5


def test_two_missions_in_one_second_have_two_names(tmp_path):
    paths = [record(tmp_path / "m", seconds=2)[0] for _ in range(3)]
    assert len(set(paths)) == 3 and paths == sorted(paths)


def test_a_mission_is_learnt_by_the_gates_it_was_recorded_with(tmp_path):
    wide = GnssGates(max_gap_s=9.0)
    recorder = MissionRecorder(tmp_path, GRID, ALL, wide)
    recorder.start().result(LIMIT_S)
    for second in (0, 6, 12):
        recorder.offer_fix(fix_at(second))
        recorder.offer_image(stamp(second + 3), jpeg(second))
    path = recorder.stop().result(LIMIT_S)
    recorder.close()
    assert gates_of(path) == wide
    assert stamp(3) in read_mission(path, GRID).stamps_ns
    with pytest.raises(MissionError, match="gap"):
        read_mission(path, GRID, gates=GnssGates())


def test_recording_that_is_switched_off_says_so(tmp_path):
    recorder = MissionRecorder(tmp_path, GRID, RecorderSettings(mode="never"))
    with pytest.raises(MissionError, match=r"recording\.mode"):
        recorder.start()
    recorder.close()
