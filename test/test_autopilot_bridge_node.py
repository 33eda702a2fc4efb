"""The bridge as a process: MAVLink over real UDP on one side, real DDS on the other."""

import importlib.util
import subprocess
import sys
import time
from dataclasses import asdict

import numpy as np
import pytest
import yaml
from autopilot_support import Vehicle, free_port
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from nav_msgs.msg import Odometry
from pymavlink.dialects.v20 import ardupilotmega as mavlink
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from ros_support import REPOSITORY, NodeProcess, Peer
from sensor_msgs.msg import Imu, NavSatFix, Range
from std_msgs.msg import Bool
from std_srvs.srv import Trigger
from store_support import make_store

from aerial_vpr_cl.autopilot.px4_messages import position_type, topic_of
from aerial_vpr_cl.autopilot.telemetry import Height
from aerial_vpr_cl.mission.readings import ABOVE_HOME, SLANT, VERTICAL, HeightReading
from aerial_vpr_cl.nodes.autopilot_bridge_node import PARAMETERS
from aerial_vpr_cl.nodes.autopilot_messages import height_message

LEVEL_EAST = (0.7071068, 0.0, 0.0, 0.7071068)  # w, x, y, z of a level drone that points east


@pytest.fixture
def bridge(tmp_path, request):
    """The node, a vehicle that speaks with it, and a ROS node beside it."""
    port = free_port()
    parameters = {"address": f"udp:127.0.0.1:{port}", "rate_hz": 20.0, **getattr(request, "param", {})}
    with (
        NodeProcess("autopilot_bridge_node", log=tmp_path / "log", parameters=parameters) as node,
        Peer() as peer,
    ):
        vehicle = Vehicle(port)
        yield node, vehicle, peer
        vehicle.close()


def telemetry(vehicle, armed=False):
    """What an autopilot sends all the time."""
    vehicle.beat(armed)
    ms = vehicle.boot_ms
    vehicle.send(mavlink.MAVLink_attitude_quaternion_message(ms, *LEVEL_EAST, 0.0, 0.0, 0.0))
    vehicle.send(mavlink.MAVLink_local_position_ned_message(ms, 10.0, 20.0, -80.0, 0.0, 0.0, 0.0))
    vehicle.send(mavlink.MAVLink_global_position_int_message(ms, 470_000_000, -990_000_000, 0, 80_000, 0, 0, 0, 0))
    vehicle.send(
        mavlink.MAVLink_gps_raw_int_message(0, 3, 470_000_000, -990_000_000, 512_000, 1, 1, 0, 0, 9, h_acc=2000)
    )
    vehicle.send(mavlink.MAVLink_extended_sys_state_message(0, mavlink.MAV_LANDED_STATE_ON_GROUND))


def pump(peer, vehicle, condition, limit_s=240.0, armed=False, each=lambda: None):
    """Both sides go on until the condition holds; what the vehicle heard."""
    heard, end_s = [], time.monotonic() + limit_s
    while not condition() and time.monotonic() < end_s:
        telemetry(vehicle, armed)
        each()
        peer.spin(0.05)
        heard += vehicle.heard()
    assert condition()
    return heard


def state(name):
    return DiagnosticStatus(name="localization", message=name, values=[KeyValue(key="state", value=name)])


def answer(peer, status=0):
    fix = NavSatFix(latitude=47.0001, longitude=-99.0001)
    fix.header.stamp = peer.node.get_clock().now().to_msg()
    fix.status.status = status
    fix.position_covariance = np.diag([25.0, 16.0, 100.0]).ravel().tolist()
    return fix


def test_one_cable_feeds_the_topics_of_the_other_nodes(bridge):
    _, vehicle, peer = bridge
    kinds = {"imu": Imu, "height": Range, "odometry": Odometry, "fix": NavSatFix, "landed": Bool}
    heard = {topic: peer.listen(kind, topic) for topic, kind in kinds.items()}
    pump(peer, vehicle, lambda: all(heard.values()))
    now_s = time.time()
    imu, odometry, fix = heard["imu"][-1], heard["odometry"][-1], heard["fix"][-1]
    assert (imu.orientation.z, abs(imu.orientation.w)) == pytest.approx((0.0, 1.0), abs=1e-5)  # east is ROS's zero
    assert imu.header.stamp.sec == pytest.approx(now_s, abs=30.0)
    height = heard["height"][-1]
    assert (height.range, height.header.frame_id) == (pytest.approx(80.0), "above_home")
    position = odometry.pose.pose.position
    assert (position.x, position.y, position.z) == pytest.approx((20.0, 10.0, 80.0))
    assert (fix.latitude, fix.longitude, fix.status.status) == (47.0, -99.0, 0)
    assert fix.position_covariance[0] == pytest.approx(4.0)
    assert heard["landed"][-1].data is True


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        (Height(5, 80.0, True, 0.5, 120.0), SLANT),
        (Height(5, 80.0), VERTICAL),
        (Height(5, 80.0, is_above_home=True), ABOVE_HOME),
    ],
)
def test_a_height_says_on_its_topic_how_it_was_had(told, kind):
    assert HeightReading.from_message(height_message(told, "base_link")).kind == kind


def test_armed_is_not_landed(bridge):
    _, vehicle, peer = bridge
    landed = peer.listen(Bool, "landed")
    pump(peer, vehicle, lambda: landed and not landed[-1].data, armed=True)


def test_nothing_is_learnt_while_the_autopilot_is_armed(bridge, tmp_path):
    _, vehicle, peer = bridge
    parameters = {"store": str(make_store(tmp_path / "store")), "device": "cpu"}
    reports = peer.listen(DiagnosticArray, "/diagnostics")

    def learner_says(fits):
        def condition():
            found = [status for report in reports for status in report.status if status.name == "/learner"]
            values = {value.key: value.value for value in found[-1].values} if found else {}
            return bool(values) and values["state"] == "active" and fits(values["signs of flight"])

        return condition

    with NodeProcess("learner_node", log=tmp_path / "learner", parameters=parameters):
        pump(peer, vehicle, learner_says(lambda sign: "has not landed" in sign), armed=True)
        refused = peer.call(Trigger, "learner/adapt", Trigger.Request())
        assert not refused.success and "the autopilot says that it has not landed" in refused.message
        pump(peer, vehicle, learner_says(lambda sign: not sign), armed=False)
        assert "no mission is waiting" in peer.call(Trigger, "learner/adapt", Trigger.Request()).message


def test_positions_reach_the_autopilot_only_while_tracking(bridge):
    _, vehicle, peer = bridge
    answers = peer.publisher(NavSatFix, "localization/fix", 10)
    states = peer.publisher(DiagnosticStatus, "localization/state", 10)
    imu = peer.listen(Imu, "imu")
    pump(peer, vehicle, lambda: len(imu) > 3)
    peer.wait_matched()
    sent = []

    def tell(name, status=0):
        def each():
            states.publish(state(name))
            answers.publish(answer(peer, status))

        return each

    def kinds():
        return {message.get_type() for message in sent}

    end_s = time.monotonic() + 3.0
    sent += pump(peer, vehicle, lambda: time.monotonic() > end_s, each=tell("unsure"))
    assert "GLOBAL_POSITION_SENSOR" not in kinds()
    assert "STATUSTEXT" in kinds()

    end_s = time.monotonic() + 30.0
    while "GLOBAL_POSITION_SENSOR" not in kinds() and time.monotonic() < end_s:
        telemetry(vehicle)
        tell("tracking")()
        peer.spin(0.05)
        sent += vehicle.heard()
    position = next(message for message in sent if message.get_type() == "GLOBAL_POSITION_SENSOR")
    assert (position.lat, position.lon, position.eph) == (470_001_000, -990_001_000, 5.0)
    late, end_s = ["GLOBAL_POSITION_SENSOR"], time.monotonic() + 30.0
    while "GLOBAL_POSITION_SENSOR" in late and time.monotonic() < end_s:  # some may have been on their way
        second_s = time.monotonic() + 1.0
        after = pump(
            peer, vehicle, lambda until_s=second_s: time.monotonic() > until_s, each=tell("tracking", status=-1)
        )
        late = [message.get_type() for message in after]
    assert "GLOBAL_POSITION_SENSOR" not in late


@pytest.mark.parametrize("bridge", [{"output": "odometry", "rate_hz": 0.2}], indirect=True)
def test_a_rate_that_is_set_in_flight_counts_at_once(bridge):
    _, vehicle, peer = bridge
    answers = peer.publisher(NavSatFix, "localization/fix", 10)
    states = peer.publisher(DiagnosticStatus, "localization/state", 10)
    odometry = peer.listen(Odometry, "odometry")
    sent = []

    def go_on():
        vehicle.send(mavlink.MAVLink_gps_global_origin_message(470_000_000, -990_000_000, 0))
        states.publish(state("tracking"))
        answers.publish(answer(peer))
        sent.extend(message for message in vehicle.heard() if message.get_type() == "ODOMETRY")

    pump(peer, vehicle, lambda: len(odometry) > 3, each=go_on)
    peer.wait_matched()
    request = SetParameters.Request(parameters=[Parameter("rate_hz", value=20.0).to_parameter_msg()])
    (result,) = peer.call(SetParameters, "autopilot_bridge/set_parameters", request).results
    assert result.successful
    sent.clear()
    pump(peer, vehicle, lambda: len(sent) >= 12, limit_s=30.0, each=go_on)  # at 0.2 Hz they take a minute


@pytest.mark.skipif(importlib.util.find_spec("px4_msgs") is None, reason="px4_msgs is not installed")
@pytest.mark.parametrize("bridge", [{"output": "aux_global_position", "sensor_id": 3}], indirect=True)
def test_positions_reach_px4_over_dds_where_its_messages_are_installed(bridge):
    _, vehicle, peer = bridge
    kind = position_type()
    heard = peer.listen(kind, topic_of(kind))
    answers = peer.publisher(NavSatFix, "localization/fix", 10)
    states = peer.publisher(DiagnosticStatus, "localization/state", 10)

    def tell():
        states.publish(state("tracking"))
        answers.publish(answer(peer))

    sent = pump(peer, vehicle, lambda: heard, each=tell)
    assert "GLOBAL_POSITION_SENSOR" not in {message.get_type() for message in sent}
    told = heard[-1]
    assert (told.lat, told.lon) == pytest.approx((47.0001, -99.0001), abs=1e-4)
    assert told.eph >= 5.0 and told.timestamp >= told.timestamp_sample > 0
    assert getattr(told, "id", 3) == 3


@pytest.mark.skipif(importlib.util.find_spec("px4_msgs") is not None, reason="px4_msgs is installed")
def test_an_output_whose_messages_are_missing_ends_the_node_with_words(tmp_path):
    with NodeProcess(
        "autopilot_bridge_node", log=tmp_path / "log", parameters={"output": "aux_global_position"}
    ) as node:
        assert node.process.wait(240.0) != 0
    assert "needs the ROS package px4_msgs" in (tmp_path / "log").read_text()


def test_an_address_that_is_none_ends_the_node_with_words(tmp_path):
    with NodeProcess("autopilot_bridge_node", log=tmp_path / "log", parameters={"address": "tcp:1"}) as node:
        assert node.process.wait(240.0) != 0
    assert "udp:HOST:PORT" in (tmp_path / "log").read_text()


@pytest.mark.parametrize(("name", "output"), [("px4", "global_position_sensor"), ("ardupilot", "command")])
def test_the_parameters_file_of_an_autopilot_has_every_parameter_at_its_default_but_the_output(name, output):
    text = (REPOSITORY / "config" / f"autopilot_{name}.yaml").read_text()
    written = yaml.safe_load(text)["/**/autopilot_bridge"]["ros__parameters"]  # in whatever namespace the drone has
    defaults = {
        **{key: value for cls in PARAMETERS[""] for key, value in asdict(cls()).items()},
        "reset": asdict(PARAMETERS["reset"][0]()),
    }
    assert written == {**defaults, "output": output}
    lines = [line for line in text.splitlines() if line.startswith("    ") and not line.strip().startswith("#")]
    assert all("#" in line for line in lines if not line.endswith("reset:"))


def test_a_bridge_needs_no_network():
    words = "import sys, aerial_vpr_cl.nodes.autopilot_bridge_node; print({'torch', 'rasterio'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, cwd=REPOSITORY)
    assert done.stdout == "set()\n", done.stdout + done.stderr
