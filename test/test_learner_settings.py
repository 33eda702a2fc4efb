"""How a learner node is set up: its parameters, its store, and what it says before it is active."""

import dataclasses

import pytest
import rclpy
import yaml
from ros_support import DISCOVERY_S, REPOSITORY, NodeProcess
from std_srvs.srv import Trigger
from store_support import make_store

from aerial_vpr_cl.learning.adapt_settings import AdaptSettings
from aerial_vpr_cl.learning.update_process import UpdateLimits
from aerial_vpr_cl.nodes.entry import REFUSED
from aerial_vpr_cl.nodes.learner_node import PARAMETERS, LearnerNode
from aerial_vpr_cl.nodes.node_settings import LearnerSettings


@pytest.mark.parametrize(
    ("parameters", "words"),
    [({"method": "foo"}, "dbs_hybrid"), ({"device": "tpu"}, "cuda:N"), ({"cycels": 3}, "did you mean 'cycles'?")],
)
def test_what_cannot_be_is_refused_at_start(tmp_path, parameters, words):
    with NodeProcess("learner_node", log=tmp_path / "log", parameters=parameters) as node:
        assert node.process.wait(DISCOVERY_S) == REFUSED
        assert words in node.log and next(iter(parameters)) in node.log and "Traceback" not in node.log


@pytest.fixture
def make_idle_node():
    """Makes nodes in this process that wait for a lifecycle manager."""
    context = rclpy.Context()
    made = []

    def make(*arguments):
        if not context.ok():
            rclpy.init(context=context, args=["--ros-args", *arguments, "-p", "autostart:=false"])
        made.append(LearnerNode(context=context))
        return made[-1]

    yield make
    for node in made:
        node.destroy_node()
    context.try_shutdown()


def test_an_inactive_learner_takes_no_orders(make_idle_node, tmp_path):
    node = make_idle_node("-p", f"store:={make_store(tmp_path)}")
    for prepare, state in ((lambda: None, "unconfigured"), (node.trigger_configure, "inactive")):
        prepare()
        answer = node._on_adapt(Trigger.Request(), Trigger.Response())
        assert not answer.success and f"the learner is {state}; activate it first" in answer.message
    node.trigger_activate()
    assert node._on_adapt(Trigger.Request(), Trigger.Response()).message.startswith("no mission is waiting")
    node.trigger_deactivate()
    node.trigger_cleanup()
    assert not node._on_adapt(Trigger.Request(), Trigger.Response()).success


def test_a_learner_without_a_store_stays_unconfigured_and_says_how_to_make_one(make_idle_node, tmp_path):
    node = make_idle_node("-p", f"store:={tmp_path / 'nowhere'}")
    node.trigger_configure()
    answer = node._on_adapt(Trigger.Request(), Trigger.Response())
    assert not answer.success and "unconfigured" in answer.message and "aerial-vpr build-map" in answer.message


def test_learner_yaml_is_every_parameter_at_its_default(make_idle_node):
    (written,) = yaml.safe_load((REPOSITORY / "config" / "learner.yaml").read_text()).values()
    values = {}
    for name, value in written["ros__parameters"].items():
        values |= {f"{name}.{key}": item for key, item in value.items()} if isinstance(value, dict) else {name: value}
    expected = {
        f"{prefix}.{field.name}" if prefix else field.name: field.default
        for prefix, classes in PARAMETERS.items()
        for cls in classes
        for field in dataclasses.fields(cls)
        if field.default is not None
    }
    assert values == expected
    node = make_idle_node("--params-file", str(REPOSITORY / "config" / "learner.yaml"))
    assert node.settings[AdaptSettings] == AdaptSettings()
    assert node.settings[UpdateLimits] == UpdateLimits()
    assert node.settings[LearnerSettings] == LearnerSettings(autostart=False)
