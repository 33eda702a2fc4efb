"""Recording begins and ends by itself, by whatever tells of flight, and obeys the operator."""

import time

import numpy as np
import pytest
from mission_support import GRID, jpeg, place, stamp
from recorder_support import EAST, LIMIT_S, fix_at, pace

from aerial_vpr_cl.mission.gnss import Fix, GnssGates
from aerial_vpr_cl.mission.mission import read_mission
from aerial_vpr_cl.mission.readings import HeightReading, OdometryReading
from aerial_vpr_cl.mission.recorder import MissionRecorder
from aerial_vpr_cl.mission.recorder_settings import RecorderSettings
from aerial_vpr_cl.mission.speed import FlightDetector, SpeedMeter


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


def standing_fix(second):
    latitude, longitude = place(0)
    return Fix(stamp(second), latitude, longitude, 500.0, 0, 1.0)


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
