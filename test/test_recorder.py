"""The recorder: its bag is the flight to learning, within rate, gates and budget, and nothing waits for it."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import cv2
import numpy as np
import pytest
from crash_support import environment
from mission_support import GRID, START_NS, fly, jpeg, picture, place, stamp
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Range

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.geo.rotation import heading_of
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.mission.bag_reader import open_bag
from aerial_vpr_cl.mission.gnss import Fix, GnssGates
from aerial_vpr_cl.mission.messages import NAV_SAT_FIX, deserialize, nav_sat_fix
from aerial_vpr_cl.mission.mission import gates_of, read_flight, read_mission
from aerial_vpr_cl.mission.open_mission import RECORDING_PREFIX, TOO_CLOSE, encode_frame, recover
from aerial_vpr_cl.mission.readings import CameraReading, HeightReading, ImuReading, OdometryReading
from aerial_vpr_cl.mission.recorder import MOST_IMAGES, TOO_MANY, MissionRecorder
from aerial_vpr_cl.mission.recorder_settings import RecorderSettings
from aerial_vpr_cl.mission.sensor_messages import RANGE
from aerial_vpr_cl.mission.sensor_settings import SensorSettings
from aerial_vpr_cl.mission.speed import FlightDetector, SpeedMeter

LIMIT_S = 30.0
ALL = RecorderSettings(mode="service", rate_hz=0.0)


def fix_at(seconds, **changes):
    latitude, longitude = place(seconds)
    return Fix(stamp(seconds), latitude, longitude, 500.0, 0, 2.0)._replace(**changes)


def record(folder, settings=ALL, *, seconds=20, image=jpeg, fix=fix_at, gates=None, hz=1):
    """Fly a recorder through the flight of mission_support: a frame every 1/hz s, a fix every half second."""
    recorder = MissionRecorder(folder, GRID, settings, gates or GnssGates())
    recorder.start().result(LIMIT_S)
    for step in range(seconds * 2 * hz):
        time = step / (2 * hz)
        if step % hz == 0 and (found := fix(time)) is not None:
            recorder.offer_fix(found)
        if step % 2 == 0:
            recorder.offer_image(stamp(time), image(step // 2))
            pace(recorder)
    path = recorder.stop().result(LIMIT_S)
    recorder.close()
    return path, recorder


def pace(recorder):
    """Offer no faster than the writer writes: this test is not about dropping."""
    while recorder._waiting and recorder._inbox:
        threading.Event().wait(0.0005)


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


EAST = (0.0, 0.0, 0.0, 1.0)
CAMERA = CameraReading(stamp(0), 640, 480, 500.0, 500.0, 319.5, 239.5)


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


def test_a_jammed_drone_starts_and_stops_recording_by_its_odometry(tmp_path):
    recorder = MissionRecorder(tmp_path / "m", GRID, RecorderSettings(mode="auto", stop_after_s=5.0))
    seen = []
    for second in range(60):
        flown = min(max(second - 10, 0), 20)  # stands for 10 s, flies for 20 s, stands
        recorder.offer_fix(fix_at(0, status=-1)._replace(stamp_ns=stamp(second)))
        recorder.offer_reading(OdometryReading(stamp(second), (15.0 * flown, 0.0, 0.0), EAST))
        recorder.offer_image(stamp(second), jpeg(second % 10))
        pace(recorder)
        seen.append(recorder.is_recording)
    recorder.close()
    assert not any(seen[:11]) and all(seen[15:31]) and not any(seen[40:])


def test_a_receiver_that_is_frozen_does_not_stop_the_recording_of_a_flight(tmp_path):
    recorder = MissionRecorder(tmp_path / "m", GRID, RecorderSettings(mode="auto", stop_after_s=5.0))
    for second in range(40):
        recorder.offer_fix(fix_at(min(second, 10))._replace(stamp_ns=stamp(second)))
        recorder.offer_reading(OdometryReading(stamp(second), (20.0 * second, 0.0, 0.0), EAST))
    assert recorder.is_recording
    recorder.close()


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


def test_a_bag_takes_its_place_only_when_it_is_whole(tmp_path):
    store = GenerationStore.create(tmp_path)
    recorder = MissionRecorder(store.missions_dir, GRID, ALL)
    name = recorder.start().result(LIMIT_S)
    for second in range(5):
        recorder.offer_fix(fix_at(second))
        recorder.offer_image(stamp(second), jpeg(second))
    assert store.waiting_missions() == []
    path = recorder.stop().result(LIMIT_S)
    recorder.close()
    assert store.waiting_missions() == [path] and path.name == name
    assert [child.name for child in store.missions_dir.iterdir()] == [name]


def test_a_mission_without_frames_leaves_nothing(tmp_path):
    path, _ = record(tmp_path / "m", image=lambda index: b"broken")
    assert path is None and list((tmp_path / "m").iterdir()) == []


def test_two_missions_in_one_second_have_two_names(tmp_path):
    paths = [record(tmp_path / "m", seconds=2)[0] for _ in range(3)]
    assert len(set(paths)) == 3 and paths == sorted(paths)


def test_recording_ends_at_the_budget_and_what_was_recorded_counts(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (300, 300, 3), np.uint8)
    settings = RecorderSettings(mode="service", rate_hz=0.0, budget_mb=1.0)
    _, recorder = record(tmp_path / "m", settings, image=lambda index: lambda: noise, seconds=40)
    (path,) = (tmp_path / "m").iterdir()
    size = sum(file.stat().st_size for file in path.iterdir())
    assert 0.8e6 < size < 1.2e6
    assert len(read_mission(path, GRID)) > 5
    assert "budget" in recorder.status.problem
    again = MissionRecorder(tmp_path / "m", GRID, settings)
    with pytest.raises(MissionError, match=r"budget_mb"):
        again.start().result(LIMIT_S)
    again.close()


def test_nothing_waits_for_a_slow_writer_and_memory_stays_bounded(tmp_path):
    gate = threading.Event()

    def slow():
        gate.wait(LIMIT_S)
        return picture(0)

    recorder = MissionRecorder(tmp_path / "m", GRID, ALL)
    recorder.start().result(LIMIT_S)
    for index in range(1000):
        recorder.offer_image(stamp(index / 30), slow)
    assert len(recorder._inbox) <= MOST_IMAGES
    gate.set()
    for second in range(0, 35):
        recorder.offer_fix(fix_at(second))
    recorder.stop().result(LIMIT_S)
    recorder.close()
    assert MOST_IMAGES <= recorder.status.frames <= MOST_IMAGES + 1


def test_a_full_disk_ends_the_mission_and_keeps_what_was_written(tmp_path):
    recorder = MissionRecorder(tmp_path / "m", GRID, ALL)
    recorder.start().result(LIMIT_S)
    for second in range(10):
        recorder.offer_fix(fix_at(second))
        recorder.offer_image(stamp(second), jpeg(second))
        pace(recorder)
    # /dev/full takes nothing: the next chunk fails as on a full disk.
    writer = recorder._missions._recording._writer
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, writer._stream.fileno())
    os.close(full)
    for second in range(10, 20):
        recorder.offer_fix(fix_at(second))
        recorder.offer_image(stamp(second), jpeg(second))
        pace(recorder)
    recorder.close()
    assert "free some space" in recorder.status.problem and not recorder.is_recording
    (path,) = (tmp_path / "m").iterdir()
    assert not path.name.startswith(".") and len(read_mission(path, GRID)) >= 5


def test_a_killed_recorder_loses_at_most_the_last_chunk(tmp_path):
    script = """
        import sys, time
        from pathlib import Path
        from test_recorder import ALL, GRID, MissionRecorder, fix_at, jpeg, pace, stamp
        recorder = MissionRecorder(Path(sys.argv[1]), GRID, ALL)
        recorder.start().result()
        for half in range(60):
            recorder.offer_fix(fix_at(half / 2))
            if half % 2 == 0:
                recorder.offer_image(stamp(half / 2), jpeg(half // 2))
            pace(recorder)
        print("flown", flush=True)
        time.sleep(600)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "flown\n"
    assert recover(tmp_path) == []  # its recorder lives
    process.send_signal(signal.SIGKILL)
    process.wait()
    (hidden,) = tmp_path.iterdir()
    assert hidden.name.startswith(RECORDING_PREFIX)
    MissionRecorder(tmp_path, GRID, ALL).close()
    (path,) = tmp_path.iterdir()
    assert not path.name.startswith(".")
    assert len(read_mission(path, GRID)) >= 30 - 4


def test_recording_starts_in_flight_and_stops_after_landing(tmp_path):
    settings = RecorderSettings(mode="auto", rate_hz=0.0, min_speed_mps=5.0, stop_after_s=5.0)
    recorder = MissionRecorder(tmp_path / "m", GRID, settings)
    seen = []
    for second in range(60):
        flown = min(max(second - 10, 0), 20)  # stands for 10 s, flies for 20 s, stands
        recorder.offer_fix(fix_at(flown)._replace(stamp_ns=stamp(second)))
        recorder.offer_image(stamp(second), jpeg(second % 10))
        pace(recorder)
        seen.append(recorder.is_recording)
    recorder.close()
    assert not any(seen[:11]) and all(seen[14:31]) and not any(seen[40:])
    (path,) = (tmp_path / "m").iterdir()
    assert 18 <= len(read_mission(path, GRID)) <= 26


def test_an_operator_who_stopped_is_obeyed_until_the_next_take_off(tmp_path):
    recorder = MissionRecorder(tmp_path / "m", GRID, RecorderSettings(mode="auto", stop_after_s=5.0))
    for second in range(10):
        recorder.offer_fix(fix_at(second))
    assert recorder.is_recording
    recorder.stop().result(LIMIT_S)
    for second in range(10, 20):
        recorder.offer_fix(fix_at(second))
    assert not recorder.is_recording
    for second in range(20, 40):
        recorder.offer_fix(fix_at(20)._replace(stamp_ns=stamp(second)))
    for second in range(40, 50):
        recorder.offer_fix(fix_at(second - 20)._replace(stamp_ns=stamp(second)))
    assert recorder.is_recording
    recorder.close()


def test_auto_stops_when_no_fixes_come_any_more_and_starts_again_with_the_next_flight(tmp_path):
    recorder = MissionRecorder(tmp_path, GRID, RecorderSettings(mode="auto", stop_after_s=1.0, rate_hz=0.0))
    for second in range(8):
        recorder.offer_fix(fix_at(second))
        recorder.offer_image(stamp(second), jpeg(second))
    assert recorder.is_recording
    recorder.offer_fix(fix_at(9, status=-1))  # a jammed receiver talks on
    deadline = time.monotonic() + LIMIT_S
    while not [path for path in tmp_path.iterdir() if not path.name.startswith(".")]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not recorder.is_recording
    for second in range(20, 28):
        recorder.offer_fix(fix_at(second))
    assert recorder.is_recording
    recorder.close()


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


def test_the_speed_is_that_of_the_drone_and_jumps_have_none():
    meter = SpeedMeter(GRID.projection, GnssGates())
    speeds = [meter.add(fix_at(half / 2)) for half in range(10)]
    assert np.isnan(speeds[:2]).all()
    assert speeds[2:] == pytest.approx([20.0] * 8, abs=0.1)
    assert np.isnan(meter.add(fix_at(500)._replace(stamp_ns=stamp(6))))
    assert np.isnan(meter.add(fix_at(7, status=-1)))
    assert np.isnan(meter.add(fix_at(0)))
    detector = FlightDetector(GRID.projection, GnssGates())
    assert detector.add(fix_at(0), 5.0, 10.0) is None


def test_the_words_for_a_writer_too_slow_are_those_of_the_status(tmp_path):
    recorder = MissionRecorder(tmp_path, GRID, ALL)
    recorder.start().result(LIMIT_S)
    gate = threading.Event()
    for index in range(MOST_IMAGES + 5):
        recorder.offer_image(stamp(index), lambda: (gate.wait(LIMIT_S), picture(0))[1])
    gate.set()
    while recorder._inbox:
        threading.Event().wait(0.001)
    recorder.offer_image(stamp(99), jpeg(0))
    pace(recorder)
    while recorder.status.refused.get(TOO_MANY, 0) == 0:
        threading.Event().wait(0.001)
    assert 4 <= recorder.status.refused[TOO_MANY] <= 5
    recorder.close()


def test_what_the_operator_starts_on_the_ground_is_not_stopped_by_standing_still(tmp_path):
    recorder = MissionRecorder(tmp_path, GRID, RecorderSettings(mode="auto", stop_after_s=2.0), GnssGates())
    try:
        for second in range(5):
            recorder.offer_fix(standing_fix(second))
        recorder.start().result(10)
        for second in range(5, 12):
            recorder.offer_fix(standing_fix(second))
        assert recorder.is_recording
    finally:
        recorder.close()


def test_an_unreadable_leftover_is_kept_and_an_empty_one_removed(tmp_path):
    for name, content in {"broken": b"x" * 10_000, "begun": b"x" * 100}.items():
        bag = tmp_path / f".recording-{name}" / name
        bag.mkdir(parents=True)
        (bag / f"{name}_0.mcap").write_bytes(content)
    assert recover(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == [".recording-broken"]


def standing_fix(second):
    latitude, longitude = place(0)
    return Fix(stamp(second), latitude, longitude, 500.0, 0, 1.0)


def fly_until_jammed(recorder, seconds=8):
    for second in range(seconds):
        recorder.offer_fix(fix_at(second))
        recorder.offer_image(stamp(second), jpeg(second))
    assert recorder.is_recording


def go_on(recorder, seconds, tell):
    """Real time goes on while the receiver says that it has no fix; whether it was recorded all the while."""
    recorded, end = True, time.monotonic() + seconds
    while time.monotonic() < end:
        recorder.offer_fix(fix_at(9, status=-1))
        tell()
        time.sleep(0.02)
        recorded = recorded and recorder.is_recording
    return recorded


@pytest.mark.parametrize("sign", ["height", "not landed"])
def test_a_jammed_drone_without_odometry_is_recorded_as_long_as_something_says_that_it_flies(tmp_path, sign):
    recorder = MissionRecorder(tmp_path, GRID, RecorderSettings(mode="auto", stop_after_s=1.0, rate_hz=0.0))
    fly_until_jammed(recorder)
    if sign == "height":
        assert go_on(recorder, 3.0, lambda: recorder.offer_reading(HeightReading(stamp(9), 80.0)))
        assert not go_on(recorder, LIMIT_S / 5, lambda: recorder.offer_reading(HeightReading(stamp(9), 0.3)))
    else:
        recorder.offer_landed(False)  # once, as a latched topic says it
        assert go_on(recorder, 3.0, lambda: None)
        recorder.offer_landed(True)
    assert not recorder.is_recording
    recorder.close()


def test_a_receiver_that_is_spoofed_on_the_ground_starts_no_recording(tmp_path):
    recorder = MissionRecorder(tmp_path, GRID, RecorderSettings(mode="auto"))
    recorder.offer_landed(True)
    for second in range(10):
        recorder.offer_fix(fix_at(second))
    assert not recorder.is_recording
    recorder.offer_landed(False)
    for second in range(10, 20):
        recorder.offer_fix(fix_at(second))
    assert recorder.is_recording
    recorder.close()
