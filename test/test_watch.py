"""aerial-vpr watch: what a localization node says over real DDS stands on the page, while it is said."""

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

import numpy as np
import pytest
from crash_support import environment
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from ros_support import PATIENCE_S, Peer
from sensor_msgs.msg import CompressedImage, NavSatFix
from store_support import START_NS, make_store, write_flight

from aerial_vpr_cl.cli import main
from aerial_vpr_cl.images import encode_jpeg
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.nodes.messages import header_of

ANSWERS_QOS = 10
START_S = 10 * PATIENCE_S
"""A busy machine takes long to start a node with a network."""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("ground"))


class Watching:
    """The verb as a process, and its page."""

    def __init__(self, store, *arguments):
        command = [sys.executable, "-m", "aerial_vpr_cl", "watch", str(store), "--port", "0", *arguments]
        self.process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
        self.url = re.match(r"(http://127\.0\.0\.1:\d+/): open it", self.process.stdout.readline())[1]

    def moments(self):
        with urllib.request.urlopen(f"{self.url}moments?flight=-1&number=0", timeout=60) as response:
            return json.load(response)

    def wait_for(self, condition, meanwhile=lambda: time.sleep(0.2)):
        """Ask until it is so, for a while."""
        end = time.monotonic() + START_S
        while not condition(found := self.moments()):
            assert time.monotonic() < end, found
            meanwhile()
        return found


@contextmanager
def watching(store, *arguments):
    watch = Watching(store, *arguments)
    try:
        yield watch
    finally:
        watch.process.kill()
        watch.process.wait()
        watch.process.stdout.close()


def test_what_a_node_says_is_shown_with_its_camera_and_gnss(store):
    grid = open_map(store).grid
    _, south, _, _ = open_map(store).satellite.bounds
    picture = encode_jpeg(np.full((64, 64, 3), 99, np.uint8))
    panels = encode_jpeg(np.full((64, 200, 3), 99, np.uint8))
    number = 0

    def fix_of(stamp_ns, position, status=0):
        latitude, longitude = grid.projection.to_wgs84(position)
        message = NavSatFix(header=header_of(stamp_ns, "x"), latitude=float(latitude), longitude=float(longitude))
        message.status.status = status
        message.position_covariance = np.diag([16.0, 25.0, 9e8]).reshape(-1)
        message.position_covariance_type = NavSatFix.COVARIANCE_TYPE_KNOWN
        return message

    with watching(store) as watch, Peer("localization") as node, Peer("drone") as drone:
        answers = node.publisher(NavSatFix, "~/fix", ANSWERS_QOS)
        states = node.publisher(DiagnosticStatus, "~/state", ANSWERS_QOS)
        node.listen(CompressedImage, "front/image/compressed", ANSWERS_QOS)
        node.listen(NavSatFix, "gps", ANSWERS_QOS)
        images = drone.publisher(CompressedImage, "front/image/compressed", ANSWERS_QOS)
        gnss = drone.publisher(NavSatFix, "gps", ANSWERS_QOS)
        shown = node.publisher(CompressedImage, "~/viewer/pictures/compressed", ANSWERS_QOS)

        def fly():
            nonlocal number
            stamp_ns, position = START_NS + number * 10**9, grid.centres[0] + [2.0 * number, 0.0]
            silent = number % 3 == 0
            gnss.publish(fix_of(stamp_ns, position + 5.0))
            images.publish(CompressedImage(header=header_of(stamp_ns, "camera"), format="jpeg", data=picture))
            shown.publish(CompressedImage(header=header_of(stamp_ns, "camera"), format="jpeg", data=panels))
            time.sleep(0.1)
            answers.publish(fix_of(stamp_ns, position, -1 if silent else 0))
            said = {"state": "tracking", "reason": "unsure" if silent else "", "confidence": "0.97", "z": "8.5"}
            said["stamp"] = f"{stamp_ns // 10**9}.{stamp_ns % 10**9:09d}"
            states.publish(DiagnosticStatus(values=[KeyValue(key=key, value=value) for key, value in said.items()]))
            number += 1

        def is_shown(now):
            heard = all(any(x is not None for x in now["frames"][name]) for name in ("x", "gnss_x", "latency_ms"))
            return now["next"] >= 8 and heard and any("view" in picture["kinds"] for picture in now["pictures"])

        found = watch.wait_for(is_shown, fly)
        assert found["words"] == "following /localization"
        frames = found["frames"]
        assert set(frames["state"]) == {"tracking"} and frames["z"][-1] == 8.5 and frames["confidence"][-1] == 0.97
        placed = [k for k, x in enumerate(frames["x"]) if x is not None]
        assert placed and all(frames["reason"][k] == ("" if k in placed else "unsure") for k in range(found["next"]))
        assert frames["y"][placed[0]] == pytest.approx(float(grid.centres[0][1]) - south, abs=0.2)
        assert (frames["cov_xx"][placed[0]], frames["cov_yy"][placed[0]]) == (16.0, 25.0)
        viewed = next(picture["number"] for picture in found["pictures"] if "view" in picture["kinds"])
        address = f"{watch.url}view.jpg?flight={found['flight']}&number={viewed}"
        with urllib.request.urlopen(address, timeout=60) as response:
            assert response.read().startswith(b"\xff\xd8")
        watch.process.send_signal(signal.SIGINT)
        assert watch.process.wait(PATIENCE_S) == 0
        assert re.search(r"\d+ of the last \d+ frames got a position", watch.process.stdout.read())


def test_a_replay_is_shown_while_it_runs(store, tmp_path):
    bag = write_flight(store, tmp_path / "flight", 30)
    with watching(store) as watch:
        assert "no localization node" in watch.moments()["words"]
        command = [sys.executable, "-m", "aerial_vpr_cl", "replay", str(bag), "--store", str(store)]
        command += ["--answer", "single_frame", "--result", str(tmp_path / "result"), "--wait", str(START_S)]
        replay = subprocess.Popen(command, env=environment(OMP_NUM_THREADS="1"), stdout=subprocess.DEVNULL)
        try:
            found = watch.wait_for(lambda now: now["next"] >= 3)
        finally:
            replay.send_signal(signal.SIGINT)
            replay.wait(2 * PATIENCE_S)
        assert re.fullmatch(r"following /replay_\d+/localization", found["words"])
        assert any(x is not None for x in found["frames"]["x"])


def test_a_port_that_is_taken_is_refused_in_one_line(store, capsys):
    with watching(store) as watch:
        port = watch.url.rstrip("/").rpartition(":")[2]
        assert main(["watch", str(store), "--port", port]) == 1
    assert f"port {port}" in capsys.readouterr().err
