"""The launch files as they run, by ROS's own launch tools; where those are missing only their code is read."""

import signal

import pytest
import yaml
from autopilot_support import free_port
from launch_support import installed, launch, launch_is_installed
from ros_support import Peer
from store_support import make_store

pytestmark = pytest.mark.skipif(not launch_is_installed(), reason="launch and launch_ros are not installed")
LIMIT_S = 400.0
"""Three nodes that import PyTorch at once take minutes on a busy machine."""


@pytest.fixture
def prefix(tmp_path):
    return installed(tmp_path / "prefix")


@pytest.mark.parametrize("file", ["flight.launch.py", "learn.launch.py", "mavros.launch.py", "replay.launch.py"])
def test_a_launch_without_a_store_fails_and_says_what_to_do(file, prefix, tmp_path):
    bag = {"bag": tmp_path / "nowhere"} if file.startswith("replay") else {}
    with launch(file, prefix, tmp_path / "log", store=tmp_path / "nothing", **bag) as process:
        assert process.wait(LIMIT_S) == 1
    words = (tmp_path / "log").read_text()
    assert "aerial-vpr build-map" in words or "no such bag" in words


def test_a_node_that_refuses_its_parameters_ends_the_launch_with_an_error(prefix, tmp_path):
    parameters = tmp_path / "parameters.yaml"
    parameters.write_text(yaml.safe_dump({"/**": {"ros__parameters": {"top_q": 3}}}))
    store = make_store(tmp_path / "store")
    given = {"store": store, "params_file": parameters, "learner": "false"}
    with launch("flight.launch.py", prefix, tmp_path / "log", **given) as process:
        assert process.wait(LIMIT_S) == 1
    assert "top_k" in (tmp_path / "log").read_text()


def test_beside_mavros_the_nodes_hear_its_topics_and_the_bridge_keeps_to_its_own(prefix, tmp_path):
    port = free_port()
    given = {"store": make_store(tmp_path / "store"), "autopilot": f"udp:127.0.0.1:{port}", "recording": "never"}
    topics = ("imu/data", "global_position/rel_alt", "local_position/odom", "global_position/raw/fix")
    with launch("mavros.launch.py", prefix, tmp_path / "log", **given) as process, Peer() as peer:

        def names(infos):
            return {info.node_name for info in infos}

        def is_connected():
            hearers = [peer.node.get_subscriptions_info_by_topic(f"/mavros/{topic}") for topic in topics]
            landed = names(peer.node.get_subscriptions_info_by_topic("/landed"))
            return all("localization" in names(infos) for infos in hearers) and "learner" in landed

        peer.wait_for(is_connected, LIMIT_S, what="the nodes")
        peer.wait_for(lambda: peer.node.get_publishers_info_by_topic("/landed"), LIMIT_S, what="the bridge")
        assert not any(peer.node.get_publishers_info_by_topic(f"/mavros/{topic}") for topic in topics)
        assert names(peer.node.get_publishers_info_by_topic("/autopilot_bridge/imu")) == {"autopilot_bridge"}
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 0, (tmp_path / "log").read_text()
