"""The launch files: arguments that explain themselves, programs and files that exist, a profile that Fast DDS can use.

Where ROS brings the launch packages the descriptions are made for real; elsewhere the same facts are read off the code.
"""

import ast
import importlib.util
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from launch_support import launch_is_installed

ROOT = Path(__file__).parent.parent
FILES = ["flight.launch.py", "learn.launch.py", "mavros.launch.py", "replay.launch.py"]
COMMON = {"store", "namespace", "params_file", "device", "log_level"}
LEARN = COMMON | {"fix_topic", "landed_topic", "use_sim_time", "respawn"}
FLIGHT = LEARN | {
    "image_topic",
    "image_transport",
    "recording",
    "learner",
    "raw_image_profile",
    "imu_topic",
    "height_topic",
    "height_message",
    "camera_info_topic",
    "odometry_topic",
    "initialpose_topic",
    "sensors",
    "autopilot",
    "autopilot_params_file",
    "autopilot_topics",
    "viewer",
}
MAVROS = {"mavros", "height", "autopilot"}
REPLAY = COMMON | {"bag", "rate", "result", "image_topic", "fix_topic", "image_transport", "raw_image_profile"}
REPLAY |= {"clock", "viewer"}
VIEWERS = {("rviz2", "rviz2"), ("foxglove_bridge", "foxglove_bridge")}
ARGUMENTS = {
    "learn.launch.py": LEARN,
    "flight.launch.py": FLIGHT,
    "mavros.launch.py": MAVROS,
    "replay.launch.py": REPLAY,
}


def calls(name: str, function: str) -> list[ast.Call]:
    tree = ast.parse((ROOT / "launch" / name).read_text())
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == function]


def keyword(call: ast.Call, name: str) -> ast.expr:
    return next(item.value for item in call.keywords if item.arg == name)


def declared_arguments(name: str) -> dict[str, str]:
    """Argument → description."""
    if launch_is_installed():
        spec = importlib.util.spec_from_file_location("launch_file", ROOT / "launch" / name)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        description = module.generate_launch_description()
        return {argument.name: argument.description for argument in description.get_launch_arguments()}
    declarations = calls(name, "DeclareLaunchArgument")
    return {ast.literal_eval(call.args[0]): ast.literal_eval(keyword(call, "description")) for call in declarations}


@pytest.mark.parametrize("name", FILES)
def test_every_argument_is_there_and_says_what_it_is_for(name):
    declared = declared_arguments(name)
    assert set(declared) == ARGUMENTS[name]
    for argument, description in declared.items():
        assert len(description) > 20 and "." in description, argument


def inputs_of(name: str) -> set[str]:
    """The arguments that inputs of the localization node are remapped by."""
    inputs = re.search(r"^INPUTS = (.*)$", (ROOT / "launch" / name).read_text(), re.MULTILINE)
    return {f"{topic}_topic" for topic in ast.literal_eval(inputs[1])} if inputs else set()


@pytest.mark.parametrize("name", FILES)
def test_every_node_that_is_started_is_installed(name):
    programs = set(re.findall(r'"(\w+) = aerial_vpr_cl', (ROOT / "setup.py").read_text()))
    nodes = calls(name, "Node")
    assert nodes or calls(name, "IncludeLaunchDescription")
    for node in nodes:
        package, executable = (ast.literal_eval(keyword(node, name)) for name in ("package", "executable"))
        assert executable in programs if package == "aerial_vpr_cl" else (package, executable) in VIEWERS


@pytest.mark.parametrize("name", ["flight.launch.py", "learn.launch.py"])
def test_every_node_that_flies_has_the_clock_that_is_given_and_ends_the_launch_if_it_refuses(name):
    given = [{item.arg: ast.unparse(item.value) for item in node.keywords} for node in calls(name, "Node")]
    own = [keywords for keywords in given if keywords["package"] == "'aerial_vpr_cl'"]
    assert own
    for keywords in own:
        assert "'use_sim_time': argument('use_sim_time') == 'true'" in keywords["parameters"], keywords["executable"]
        assert keywords.get("on_exit") == "end_if_refused", keywords["executable"]


@pytest.mark.parametrize("name", FILES)
def test_every_file_that_is_named_exists(name):
    for call in calls(name, "PathJoinSubstitution"):
        parts = [ast.literal_eval(part) for part in call.args[0].elts[1:]]
        assert ROOT.joinpath(*parts).is_file(), parts


@pytest.mark.parametrize("name", FILES)
def test_only_declared_arguments_are_read(name):
    source = (ROOT / "launch" / name).read_text()
    read = set(re.findall(r'argument\("(\w+)"\)', source)) | inputs_of(name)
    assert read
    assert read <= ARGUMENTS[name]


@pytest.mark.parametrize(("outer", "inner"), [("flight", "learn"), ("replay", "flight")])
def test_an_included_file_is_given_only_arguments_it_declares(outer, inner):
    tree = ast.parse((ROOT / "launch" / f"{outer}.launch.py").read_text())
    assigned = {ast.unparse(node.targets[0]): node.value for node in ast.walk(tree) if isinstance(node, ast.Assign)}
    given = set(ast.literal_eval(assigned["passed_on"]))
    if isinstance(assigned.get("flight_arguments"), ast.Dict):
        given |= {key.value for key in assigned["flight_arguments"].keys if key is not None}
    assert {"store", "namespace"} <= given <= ARGUMENTS[f"{inner}.launch.py"]


def test_mavros_feeds_every_input_that_it_knows_of():
    tree = ast.parse((ROOT / "launch" / "mavros.launch.py").read_text())
    assigned = {ast.unparse(node.targets[0]): node.value for node in ast.walk(tree) if isinstance(node, ast.Assign)}
    topics = {f"{name}_topic" for name in ast.literal_eval(assigned["TOPICS"])}
    given = {key.value for key in assigned["flight_arguments"].keys if key is not None}
    assert topics | given == {
        *("imu_topic", "odometry_topic", "fix_topic", "height_topic", "height_message", "autopilot"),
        "autopilot_topics",
    }
    assert topics | given <= FLIGHT


def test_the_shared_memory_profile_takes_a_raw_image_in_one_piece():
    text = (ROOT / "config" / "fastdds_shared_memory.xml").read_text()
    root = ElementTree.fromstring(text.encode())
    names = {"d": "http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles"}
    transports = {
        node.findtext("d:transport_id", "", names): node for node in root.iter(f"{{{names['d']}}}transport_descriptor")
    }
    shared = transports["shared_memory"]
    segment, message = (int(shared.findtext(f"d:{key}", "0", names)) for key in ("segment_size", "maxMessageSize"))
    assert segment >= 4 * message
    assert message > 1920 * 1080 * 4
    used = [node.text for node in root.find(".//d:userTransports", names)]
    assert set(used) == set(transports)
