"""Replay over real DDS: a bag through the localization node, in processes of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from ros_support import REPOSITORY, NodeProcess, Peer
from rosgraph_msgs.msg import Clock
from store_support import START_NS, make_store, track, view, write_flight

from aerial_vpr_cl.evaluation.score_tables import answers_of_values
from aerial_vpr_cl.images import decode_compressed
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.localization.estimate import Estimate
from aerial_vpr_cl.localization.localizer import Localizer
from aerial_vpr_cl.mission.bag_reader import open_bag
from aerial_vpr_cl.mission.bag_writer import TRUTH_TOPIC, MissionWriter
from aerial_vpr_cl.mission.messages import COMPRESSED_IMAGE, deserialize, stamp_of
from aerial_vpr_cl.nodes.replay import POSE

FRAMES = 12
ALONE = ("--answer", "single_frame")
PROFILE = REPOSITORY / "config" / "fastdds_shared_memory.xml"


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    return make_store(tmp_path_factory.mktemp("ground"))


@pytest.fixture(scope="module")
def bag(store, tmp_path_factory) -> Path:
    return write_flight(store, tmp_path_factory.mktemp("flights") / "flight", FRAMES)


def start(*arguments: object, cwd: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "aerial_vpr_cl", "replay", *map(str, arguments)]
    search = os.pathsep.join([str(REPOSITORY), *sys.path])
    return subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": search, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def replay(*arguments: object, cwd: Path, code: int = 0) -> str:
    process = start(*arguments, cwd=cwd)
    output, _ = process.communicate(timeout=180)
    assert process.returncode == code, output
    return output


def poses(result: Path) -> dict[int, tuple[float, ...]]:
    """Stamp → x, y and covariance of the pose that was published, in the frame `map`."""
    messages = [deserialize(raw.data, POSE) for raw in open_bag(result).messages("/localization/pose")]
    return {
        stamp_of(message): (
            message.pose.pose.position.x,
            message.pose.pose.position.y,
            *message.pose.covariance[[0, 1, 7]],
        )
        for message in messages
    }


def offline(store: Path, frames: dict[int, np.ndarray]) -> dict[int, tuple[float, ...]]:
    """What `poses` should find, by the library alone; rejected frames have no pose."""
    localizer, datum = Localizer.open(store), open_map(store).datum
    estimates = {stamp_ns: localizer.localize(image) for stamp_ns, image in frames.items()}
    return {
        stamp_ns: (
            *datum.to_map(estimate.position),
            *datum.covariance_to_map(estimate.covariance).reshape(-1)[[0, 1, 3]],
        )
        for stamp_ns, estimate in estimates.items()
        if isinstance(estimate, Estimate)
    }


def frames_of(bag: Path) -> dict[int, np.ndarray]:
    messages = [deserialize(raw.data, COMPRESSED_IMAGE) for raw in open_bag(bag).messages("/camera/image/compressed")]
    return {stamp_of(message): decode_compressed(message.data) for message in messages}


def test_replay_gives_the_positions_of_an_offline_evaluation_frame_by_frame(store, bag, tmp_path):
    options = ("--rate", 0, "--result", "result", "--json", "found.json")
    output = replay(bag, "--store", store, *ALONE, *options, cwd=tmp_path)
    expected = offline(store, frames_of(bag))
    assert len(set(expected.values())) > 1  # not all alike, or equality would say little
    assert poses(tmp_path / "result") == expected
    assert f"result: {FRAMES} frames sent, {FRAMES} answered" in output
    assert f"against ground truth ({FRAMES} frames)" in output
    counts = open_bag(tmp_path / "result").counts
    assert counts["/localization/fix"] == counts[TRUTH_TOPIC] == FRAMES
    assert counts["/fix"] == 2 * FRAMES
    assert list((store / "missions").iterdir()) == []  # a flight is not recorded once more
    figures = json.loads((tmp_path / "found.json").read_text())
    assert (figures["sent"], figures["answered"], len(figures["missions"])) == (FRAMES, FRAMES, 1)
    assert answers_of_values(figures["missions"][0]).published.sum() == len(expected)


def test_raw_images_arrive_whole_and_give_the_same_positions(store, tmp_path):
    stamps, points = track(4)
    images = view(store, points, size_px=1024)  # 3 MB each: lost in pieces without the shared memory profile
    with MissionWriter(tmp_path / "raw") as writer:
        for stamp_ns, image in zip(stamps.tolist(), images):
            writer.write_raw_image(stamp_ns, image)
    output = replay("raw", "--store", store, *ALONE, "--rate", 0, cwd=tmp_path)
    assert "raw_replayed: 4 frames sent, 4 answered" in output
    assert "no GNSS or ground truth" in output
    assert poses(tmp_path / "raw_replayed") == offline(store, dict(zip(stamps.tolist(), images)))


def test_a_running_node_is_fed_at_the_pace_of_the_bag_with_its_clock(store, bag, tmp_path):
    answering = {"answer": "single_frame", "image_transport": "compressed"}
    parameters = {"store": str(store), "use_sim_time": True, **answering}
    with (
        NodeProcess("localization_node", log=tmp_path / "node.log", parameters=parameters) as node,
        Peer() as peer,
    ):
        clock = peer.listen(Clock, "/clock")
        played = {
            "bag": str(bag),
            "result": str(tmp_path / "result"),
            "rate": 3.0,
            "routes": [f"{TRUTH_TOPIC}:=truth"],
        }
        with NodeProcess("replay_node", log=tmp_path / "replay.log", parameters=played) as replayer:
            peer.wait_for(lambda: not replayer.alive, what="the end of the replay")
            assert replayer.process.returncode == 0, replayer.log
        assert node.alive
    times = [message.clock.sec * 10**9 + message.clock.nanosec for message in clock]
    assert times == sorted(times)
    assert times[-1] - START_NS == pytest.approx((FRAMES - 0.5) * 1e9)
    assert len(times) > 3 * FRAMES  # it ticks between the messages too
    answers = poses(tmp_path / "result")
    expected = offline(store, frames_of(bag))
    assert answers.items() <= expected.items()  # a busy machine may drop a frame at this pace, never change one
    assert len(answers) >= len(expected) // 2
    assert "answered" in replayer.log
    assert "against ground truth" in replayer.log


def test_an_interrupted_replay_leaves_a_whole_result_and_no_node(store, bag, tmp_path):
    process = start(bag, "--store", store, "--rate", 0.1, "--result", "result", cwd=tmp_path)
    end = time.monotonic() + 300  # a busy machine takes its time to start a node
    while not (tmp_path / "result").exists() and time.monotonic() < end and process.poll() is None:
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert (tmp_path / "result" / "metadata.yaml").is_file()
    assert "interrupted" in output
    assert "Traceback" not in output
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if os.access(path, os.R_OK)]
    assert not [command for command in commands if f"__ns:=/replay_{process.pid}".encode() in command]


def test_without_a_node_the_replay_says_so_and_leaves_nothing(bag, tmp_path):
    assert "no localization node 'localization' after 2 s" in replay(bag, "--wait", 2, cwd=tmp_path, code=1)
    assert "train-base" in replay(bag, "--store", tmp_path, cwd=tmp_path, code=1)
    assert "no such bag" in replay("nowhere", cwd=tmp_path, code=1)
    assert list(tmp_path.iterdir()) == []
    assert "exists already" in replay(bag, "--result", bag, cwd=tmp_path, code=1)


@pytest.mark.parametrize(("parameters", "words"), [({}, "no bag; give one with"), ({"rate": -1.0}, "out of range")])
def test_the_node_explains_bad_parameters(parameters, words, tmp_path):
    with NodeProcess("replay_node", log=tmp_path / "log", parameters=parameters) as node:
        assert node.process.wait(60) == 1
        assert words in node.log
        assert "Traceback" not in node.log


def test_a_bag_can_be_played_to_whoever_listens(bag, tmp_path):
    output = replay(
        bag, "--wait", 0, "--rate", 50, "--start", 3, "--duration", 4, "--remap", "/fix:=gnss", cwd=tmp_path
    )
    assert "flight_replayed: 5 frames sent, 0 answered" in output
