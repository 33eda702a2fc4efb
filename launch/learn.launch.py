"""The learner alone: it waits, and learns from the missions of a store when ~/adapt is called.

ros2 launch aerial_vpr_cl learn.launch.py store:=STORE
ros2 service call /learner/adapt std_srvs/srv/Trigger
"""

from __future__ import annotations

from launch.action import Action
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.events.process import ProcessExited
from launch.substitutions import EnvironmentVariable, LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

from aerial_vpr_cl.knowledge.readiness import what_is_missing
from aerial_vpr_cl.nodes.entry import REFUSED
from launch import LaunchContext, LaunchDescription


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
                "fix_topic",
                default_value="fix",
                description="Topic of the GNSS receiver, sensor_msgs/NavSatFix: nothing is learnt while it says that "
                "the drone moves.",
            ),
            DeclareLaunchArgument(
                "landed_topic",
                default_value="landed",
                description="Topic of the autopilot's landed state, std_msgs/Bool, where there is one.",
            ),
            DeclareLaunchArgument("namespace", default_value="", description="ROS namespace of the node, e.g. uav1."),
            DeclareLaunchArgument(
                "params_file",
                default_value=PathJoinSubstitution([FindPackageShare("aerial_vpr_cl"), "config", "learner.yaml"]),
                description="YAML file with the node's parameters.",
            ),
            DeclareLaunchArgument(
                "device",
                default_value="",
                description="Where the network learns: cpu, cuda, cuda:0. Empty: as in the parameters file.",
            ),
            DeclareLaunchArgument(
                "log_level",
                default_value="info",
                choices=["debug", "info", "warn", "error", "fatal"],
                description="Least severity of what the node logs.",
            ),
            DeclareLaunchArgument(
                "use_sim_time",
                default_value="false",
                choices=["true", "false"],
                description="Follow /clock instead of the computer's clock.",
            ),
            DeclareLaunchArgument(
                "respawn",
                default_value="true",
                choices=["true", "false"],
                description="Start the learner again if it dies. One that refuses its parameters ends the launch.",
            ),
            OpaqueFunction(function=start),
        ]
    )


def end_if_refused(event: ProcessExited, context: LaunchContext) -> None:
    """A node that cannot start as it was told would not the next time either."""
    if event.returncode == REFUSED:
        raise RuntimeError(f"{event.process_name} cannot start; its last line says why")


def start(context: LaunchContext) -> list[Action]:
    """The learner, or the commands that make a store for it."""

    def argument(name: str) -> str:
        return LaunchConfiguration(name).perform(context)

    if missing := what_is_missing(argument("store")):
        raise RuntimeError(missing)  # the launch ends with exit code 1
    given = {"store": argument("store"), "device": argument("device")}
    return [
        Node(
            package="aerial_vpr_cl",
            executable="learner_node",
            name="learner",
            namespace=argument("namespace"),
            parameters=[
                argument("params_file"),
                {name: value for name, value in given.items() if value},
                {"use_sim_time": argument("use_sim_time") == "true"},
            ],
            remappings=[("fix", argument("fix_topic")), ("landed", argument("landed_topic"))],
            ros_arguments=["--log-level", argument("log_level")],
            output="screen",
            respawn=argument("respawn") == "true",
            respawn_delay=2.0,
            on_exit=end_if_refused,
            sigterm_timeout="20",  # a commit that has begun is finished first
            sigkill_timeout="20",
        )
    ]
