"""The localization node's parameters: refused, described, and written out with their defaults."""

import dataclasses
import typing

import pytest
import rclpy
import yaml
from ros_support import DISCOVERY_S, REPOSITORY, NodeProcess

from aerial_vpr_cl.nodes.localization_node import FIXED, PARAMETERS, LocalizationNode


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"min_confidense": 0.7}, "did you mean 'min_confidence'?"),
        ({"recording.rate_hertz": 2.0}, "did you mean 'recording.rate_hz'?"),
        ({"device": "tpu"}, "auto, cpu, cuda or cuda:N"),
    ],
)
def test_a_parameter_that_does_not_exist_or_cannot_be_is_refused_at_start(tmp_path, parameters, words):
    with NodeProcess("localization_node", log=tmp_path / "log", parameters=parameters) as node:
        assert node.process.wait(DISCOVERY_S) != 0
        assert words in node.log and next(iter(parameters)) in node.log and "Traceback" not in node.log


@pytest.fixture
def idle_node():
    context = rclpy.Context()
    arguments = ["--ros-args", "--params-file", str(REPOSITORY / "config" / "flight.yaml"), "-p", "autostart:=false"]
    rclpy.init(context=context)
    node = LocalizationNode(context=context, cli_args=arguments)
    yield node
    node.close()
    node.destroy_node()
    context.try_shutdown()


def test_flight_yaml_is_every_parameter_at_its_default(idle_node):
    sections = yaml.safe_load((REPOSITORY / "config" / "flight.yaml").read_text())
    assert list(sections) == ["/**/localization", "/**"], "ROS puts -p and launch arguments where /** first stands"
    flat = {}
    for name, value in [pair for written in sections.values() for pair in written["ros__parameters"].items()]:
        flat |= {f"{name}.{key}": inner for key, inner in value.items()} if isinstance(value, dict) else {name: value}
    defaults = {
        (f"{prefix}." if prefix else "") + field.name: field.default
        for prefix, classes in PARAMETERS.items()
        for cls in classes
        for field in dataclasses.fields(cls)
    }
    assert flat == defaults


def test_every_parameter_is_described_and_bounded(idle_node):
    for prefix, classes in PARAMETERS.items():
        for cls in classes:
            hints = typing.get_type_hints(cls)
            for field in dataclasses.fields(cls):
                name = (f"{prefix}." if prefix else "") + field.name
                descriptor = idle_node.describe_parameter(name)
                assert descriptor.description == field.metadata["help"] and len(descriptor.description) > 10
                assert descriptor.read_only == (name in FIXED or prefix in FIXED)
                if hints[field.name] is float:
                    assert descriptor.floating_point_range
                if hints[field.name] is int:
                    assert descriptor.integer_range
                if field.metadata["choices"]:
                    assert all(choice in descriptor.additional_constraints for choice in field.metadata["choices"])
