"""The configuration for robot_localization speaks of what the node has: its topics, its frames, and real parameters."""

import re
from pathlib import Path

import pytest
import yaml

from aerial_vpr_cl.nodes.node_settings import FlightSettings

ROOT = Path(__file__).parent.parent
FILTER = {  # declared in ros_filter.cpp; of an input, what stands after pose0, odom0, imu0
    *("frequency", "sensor_timeout", "two_d_mode", "smooth_lagged_data", "history_length", "reset_on_time_jump"),
    *("publish_tf", "map_frame", "odom_frame", "base_link_frame", "world_frame"),
    *("", "_config", "_differential", "_relative", "_queue_size", "_rejection_threshold"),
}
NAVSAT = {  # declared in navsat_transform.cpp
    *("frequency", "magnetic_declination_radians", "yaw_offset", "zero_altitude", "publish_filtered_gps"),
    *("use_odometry_yaw", "broadcast_cartesian_transform", "wait_for_datum", "datum"),
}
STATES = 15
"""x y z, roll pitch yaw, their speeds, and the accelerations."""


@pytest.fixture(scope="module")
def sections():
    text = (ROOT / "config" / "robot_localization.yaml").read_text()
    return {name: section["ros__parameters"] for name, section in yaml.safe_load(text).items()}


def test_every_parameter_is_one_of_robot_localization(sections):
    ekf, navsat = sections["ekf_filter_node"], sections["navsat_transform_node"]
    assert {re.sub(r"^(pose|odom|imu)\d", "", name) for name in ekf} <= FILTER
    assert set(navsat) <= NAVSAT and len(navsat["datum"]) == 3
    assert all(len(value) == STATES for name, value in ekf.items() if name.endswith("_config"))


def test_every_topic_is_one_of_the_node(sections):
    page = (ROOT / "docs" / "nodes.md").read_text().split("## learner")[0]
    outputs = {f"/localization/{name}" for name in re.findall(r"^\| `~/(\w+)` \|", page, re.MULTILINE)}
    inputs = {f"/{name}" for name in re.findall(r"^\| `(\w+)` \| \w+_msgs/", page, re.MULTILINE)}
    topics = {value for name, value in sections["ekf_filter_node"].items() if re.fullmatch(r"[a-z]+\d", name)}
    assert topics == {"/localization/pose", "/odometry", "/imu"}
    assert "/localization/pose" in outputs and {"/odometry", "/imu"} <= inputs


def test_the_frames_are_those_of_the_node_and_map_to_odom_is_published_once(sections):
    ekf, node = sections["ekf_filter_node"], FlightSettings()
    assert (ekf["map_frame"], ekf["world_frame"], ekf["odom_frame"]) == ("map", node.map_frame_id, node.odom_frame_id)
    assert ekf["base_link_frame"] == node.base_frame_id
    assert ekf["publish_tf"] and not node.publish_tf
    assert not sections["navsat_transform_node"]["broadcast_cartesian_transform"]


def test_only_what_a_position_tells_is_taken_from_it(sections):
    """Its height and heading are not known, though their numbers stand in the message."""
    assert [i for i, taken in enumerate(sections["ekf_filter_node"]["pose0_config"]) if taken] == [0, 1]
