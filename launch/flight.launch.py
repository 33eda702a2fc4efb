"""What flies: localization, and the learner, which waits until the drone has landed and ~/adapt is called.

ros2 launch aerial_vpr_cl flight.launch.py store:=STORE image_topic:=/camera/image_raw fix_topic:=/gnss/fix
"""

from __future__ import annotations

import yaml
from launch.action import Action
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction, SetEnvironmentVariable
from launch.events.process import ProcessExited
from launch.substitutions import EnvironmentVariable, LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

from aerial_vpr_cl.knowledge.readiness import what_is_missing
from aerial_vpr_cl.nodes.entry import REFUSED
from launch import LaunchContext, LaunchDescription

SHARE = FindPackageShare("aerial_vpr_cl")
SHARED_MEMORY_PROFILE = PathJoinSubstitution([SHARE, "config", "fastdds_shared_memory.xml"])
INPUTS = ("image", "fix", "imu", "height", "camera_info", "odometry", "initialpose", "landed")
# What config/viewers/flight.rviz shows, below the name of the node.
VIEWED = (
    "odometry",
    "cells",
    "viewer/ground",
    "viewer/grid",
    "viewer/belief",
    "viewer/track",
    "viewer/gnss",
    "viewer/ellipse",
    "viewer/state",
    "viewer/pictures/compressed",
)
# The first name is that of Fast DDS up to ROS 2 Jazzy, the second that of newer ones.
PROFILE_VARIABLES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")


def generate_launch_description() -> LaunchDescription:
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "store",
                default_value=EnvironmentVariable("AERIAL_VPR_STORE", default_value=""),
                description="Directory with map, generations and missions, made by `aerial-vpr build-map`. Must be "
                "given, here or in the environment variable AERIAL_VPR_STORE.",
            ),
            DeclareLaunchArgument(
                "image_topic",
                default_value="image",
                description="Topic of the downward camera: sensor_msgs/Image, or CompressedImage with "
                "image_transport:=compressed (then with its full name, e.g. /camera/image_raw/compressed).",
            ),
            DeclareLaunchArgument(
                "fix_topic",
                default_value="fix",
                description="Topic of the GNSS receiver, sensor_msgs/NavSatFix: for labels and monitoring, never for "
                "the published position.",
            ),
            DeclareLaunchArgument(
                "imu_topic",
                default_value="imu",
                description="Topic of the attitude, sensor_msgs/Imu with an orientation, if there is one.",
            ),
            DeclareLaunchArgument(
                "height_topic",
                default_value="height",
                description="Topic of the height above ground, if there is one: sensor_msgs/Range, or std_msgs/Float64 "
                "with height_message:=Float64 (MAVROS rel_alt).",
            ),
            DeclareLaunchArgument(
                "height_message",
                default_value="",
                choices=["", "Range", "Float64"],
                description="How the height comes. Empty: as in the parameters file.",
            ),
            DeclareLaunchArgument(
                "camera_info_topic",
                default_value="camera_info",
                description="Topic of the camera's calibration, sensor_msgs/CameraInfo, if there is one.",
            ),
            DeclareLaunchArgument(
                "odometry_topic",
                default_value="odometry",
                description="Topic of odometry of any origin, nav_msgs/Odometry, if there is one.",
            ),
            DeclareLaunchArgument(
                "initialpose_topic",
                default_value="initialpose",
                description="Topic on which an operator says where the drone is, in the map's frame, e.g. of RViz.",
            ),
            DeclareLaunchArgument(
                "sensors",
                default_value="",
                description="What no topic tells of the drone's sensors, over the parameters file, as YAML: "
                "'{height_m: 120.0, horizontal_fov_deg: 62.0}'.",
            ),
            DeclareLaunchArgument(
                "landed_topic",
                default_value="landed",
                description="Topic of the autopilot's landed state, std_msgs/Bool, if there is one: for the learner, "
                "and for the end of a recording.",
            ),
            DeclareLaunchArgument(
                "image_transport",
                default_value="",
                choices=["", "raw", "compressed"],
                description="How the images come. Empty: as in the parameters file.",
            ),
            DeclareLaunchArgument("namespace", default_value="", description="ROS namespace of the nodes, e.g. uav1."),
            DeclareLaunchArgument(
                "params_file",
                default_value=PathJoinSubstitution([SHARE, "config", "flight.yaml"]),
                description="YAML file with the parameters of the nodes; copy the default and change it.",
            ),
            DeclareLaunchArgument(
                "device",
                default_value="",
                description="Where the network runs: cpu, cuda, cuda:0. Empty: as in the parameters file.",
            ),
            DeclareLaunchArgument(
                "log_level",
                default_value="info",
                choices=["debug", "info", "warn", "error", "fatal"],
                description="Least severity of what the nodes log.",
            ),
            DeclareLaunchArgument(
                "use_sim_time",
                default_value="false",
                choices=["true", "false"],
                description="Follow /clock instead of the computer's clock.",
            ),
            DeclareLaunchArgument(
                "recording",
                default_value="",
                choices=["", "never", "service", "auto"],
                description="When the flight is recorded for learning: never, when ~/record asks (service), or also by "
                "itself above a speed (auto). Empty: as in the parameters file.",
            ),
            DeclareLaunchArgument(
                "learner",
                default_value="true",
                choices=["true", "false"],
                description="Also start the learner, idle until ~/adapt is called.",
            ),
            DeclareLaunchArgument(
                "autopilot",
                default_value="",
                description="MAVLink cable to the autopilot, e.g. serial:/dev/ttyAMA0:921600 or udp:0.0.0.0:14550. "
                "Empty: no bridge is started.",
            ),
            DeclareLaunchArgument(
                "autopilot_params_file",
                default_value=PathJoinSubstitution([SHARE, "config", "autopilot_px4.yaml"]),
                description="Parameters of the bridge; autopilot_ardupilot.yaml lies beside it.",
            ),
            DeclareLaunchArgument(
                "autopilot_topics",
                default_value="true",
                choices=["true", "false"],
                description="The bridge's fix, imu, height and odometry feed the nodes. false: another driver's do, "
                "such as MAVROS'; the bridge has its own below autopilot_bridge/, and sends the answer.",
            ),
            DeclareLaunchArgument(
                "viewer",
                default_value="",
                choices=["", "rviz", "foxglove"],
                description="Show the flight: rviz starts RViz with config/viewers/flight.rviz; foxglove starts "
                "foxglove_bridge on this computer, for Foxglove with config/viewers/foxglove.json. Empty: nothing.",
            ),
            DeclareLaunchArgument(
                "respawn",
                default_value="true",
                choices=["true", "false"],
                description="Start a node again if it dies. One that refuses its parameters ends the launch.",
            ),
            DeclareLaunchArgument(
                "raw_image_profile",
                default_value="false",
                choices=["true", "false"],
                description="Use config/fastdds_shared_memory.xml: without it Fast DDS loses raw images between "
                "processes. The camera driver needs the same file in FASTRTPS_DEFAULT_PROFILES_FILE.",
            ),
            OpaqueFunction(function=start),
        ]
    )


def end_if_refused(event: ProcessExited, context: LaunchContext) -> None:
    """A node that cannot start as it was told would not the next time either."""
    if event.returncode == REFUSED:
        raise RuntimeError(f"{event.process_name} cannot start; its last line says why")


def start(context: LaunchContext) -> list[Action]:
    """Localization and the learner, or the commands that make a store for them."""

    def argument(name: str) -> str:
        return LaunchConfiguration(name).perform(context)

    if missing := what_is_missing(argument("store")):
        raise RuntimeError(missing)  # the launch ends with exit code 1
    actions: list[Action] = []
    if argument("raw_image_profile") == "true":
        actions += [SetEnvironmentVariable(name, SHARED_MEMORY_PROFILE) for name in PROFILE_VARIABLES]
    given = {name: argument(name) for name in ("store", "device", "image_transport", "height_message")}
    given["recording.mode"] = argument("recording")
    shown = {"viewer.enabled": True} if argument("viewer") else {}
    actions.append(
        Node(
            package="aerial_vpr_cl",
            executable="localization_node",
            name="localization",
            namespace=argument("namespace"),
            parameters=[
                argument("params_file"),
                {name: value for name, value in given.items() if value},
                shown,
                {f"sensors.{name}": value for name, value in (yaml.safe_load(argument("sensors")) or {}).items()},
                {"use_sim_time": argument("use_sim_time") == "true"},
            ],
            remappings=[(name, argument(f"{name}_topic")) for name in INPUTS],
            ros_arguments=["--log-level", argument("log_level")],
            output="screen",
            respawn=argument("respawn") == "true",
            respawn_delay=2.0,
            on_exit=end_if_refused,
            sigterm_timeout="20",  # the mission bag is closed first
            sigkill_timeout="20",
        )
    )
    if argument("autopilot"):
        feeds = argument("autopilot_topics") == "true"
        told = {
            name: argument(f"{name}_topic") if feeds else f"~/{name}" for name in ("fix", "imu", "height", "odometry")
        }
        actions.append(
            Node(
                package="aerial_vpr_cl",
                executable="autopilot_bridge_node",
                name="autopilot_bridge",
                namespace=argument("namespace"),
                parameters=[
                    argument("autopilot_params_file"),
                    {"address": argument("autopilot")},
                    {"use_sim_time": argument("use_sim_time") == "true"},
                ],
                remappings=[("landed", argument("landed_topic")), *told.items()],
                ros_arguments=["--log-level", argument("log_level")],
                output="screen",
                respawn=argument("respawn") == "true",
                respawn_delay=2.0,
                on_exit=end_if_refused,
            )
        )
    if argument("viewer") == "rviz":
        actions.append(
            Node(
                package="rviz2",
                executable="rviz2",
                name="viewer",
                namespace=argument("namespace"),
                arguments=["-d", PathJoinSubstitution([SHARE, "config", "viewers", "flight.rviz"])],
                # From the names without a namespace, which the file has, to those of this one.
                remappings=[
                    ("/initialpose", argument("initialpose_topic")),
                    *((f"/localization/{name}", f"localization/{name}") for name in VIEWED),
                ],
                parameters=[{"use_sim_time": argument("use_sim_time") == "true"}],
            )
        )
    if argument("viewer") == "foxglove":
        actions.append(
            Node(
                package="foxglove_bridge",
                executable="foxglove_bridge",
                name="foxglove_bridge",
                parameters=[{"address": "127.0.0.1", "use_sim_time": argument("use_sim_time") == "true"}],
            )
        )
    if argument("learner") == "true":
        passed_on = (
            "store",
            "fix_topic",
            "landed_topic",
            "namespace",
            "params_file",
            "device",
            "log_level",
            "use_sim_time",
            "respawn",
        )
        actions.append(
            IncludeLaunchDescription(
                PathJoinSubstitution([SHARE, "launch", "learn.launch.py"]),
                launch_arguments=[(name, argument(name)) for name in passed_on],
            )
        )
    return actions
