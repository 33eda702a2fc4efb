"""A recorder that is killed, too slow or out of space keeps what it has, and nothing waits for it."""

import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from crash_support import environment
from mission_support import GRID, jpeg, picture, stamp
from recorder_support import ALL, LIMIT_S, fix_at, pace, record

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.mission.mission import read_mission
from aerial_vpr_cl.mission.open_mission import RECORDING_PREFIX, recover
from aerial_vpr_cl.mission.recorder import MOST_IMAGES, TOO_MANY, MissionRecorder
from aerial_vpr_cl.mission.recorder_settings import RecorderSettings


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
        from mission_support import GRID, jpeg, stamp
        from recorder_support import ALL, fix_at, pace
        from aerial_vpr_cl.mission.recorder import MissionRecorder
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


def test_an_unreadable_leftover_is_kept_and_an_empty_one_removed(tmp_path):
    for name, content in {"broken": b"x" * 10_000, "begun": b"x" * 100}.items():
        bag = tmp_path / f".recording-{name}" / name
        bag.mkdir(parents=True)
        (bag / f"{name}_0.mcap").write_bytes(content)
    assert recover(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == [".recording-broken"]
