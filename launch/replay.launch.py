"""A bag through the localization node, with one command: the answers in a result bag, and how good they were.

ros2 launch aerial_vpr_cl replay.launch.py bag:=BAG store:=STORE rate:=0
"""

from __future__ import annotations

import json

from launch.action import Action
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction, Shutdown
from launch.events.process import ProcessExited
from launch.substitutions import EnvironmentVariable, LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

from aerial_vpr_cl.errors import AerialVprError
from aerial_vpr_cl.knowledge.readiness import what_is_missing
from aerial_vpr_cl.mission.playback import open_playback
from launch import LaunchContext, LaunchDescription

SHARE = FindPackageShare("aerial_vpr_cl")


def generate_launch_description() -> LaunchDescription:
    return LaunchDescription(
        [
            DeclareLaunchArgument("bag", description="rosbag2 to play: a directory, .mcap or .db3."),
            DeclareLaunchArgument(
                "store",
                default_value=EnvironmentVariable("AERIAL_VPR_STORE", default_value=""),
                description="Directory with map and generations to localize with. Must be given, here or in the "
                "environment variable AERIAL_VPR_STORE.",
            ),
            DeclareLaunchArgument(
                "rate",
                default_value="1.0",
                description="1: as flown, 2: twice as fast, 0: as fast as the node answers, no frame lost.",
            ),
            DeclareLaunchArgument(
                "result",
                default_value="",
                description="New bag for the answers. Empty: named after the bag, in this directory.",
            ),
            DeclareLaunchArgument(
                "image_topic", default_value="", description="Topic of the frames in the bag. Empty: found by type."
            ),
            DeclareLaunchArgument(
                "fix_topic", default_value="", description="Topic of the GNSS fixes in the bag. Empty: found by type."
            ),
            DeclareLaunchArgument(
                "image_transport",
                default_value="",
                choices=["", "raw", "compressed"],
                description="How the images go to the node; raw decompresses them. Empty: as recorded.",
            ),
            DeclareLaunchArgument(
                "clock",
                default_value="true",
                choices=["true", "false"],
                description="Publish the bag's time on /clock. Off for all but one where several replays run at once.",
            ),
            DeclareLaunchArgument(
                "namespace",
                default_value="replay",
                description="ROS namespace of the nodes, so that a drone that is listening is not fed with the past.",
            ),
            DeclareLaunchArgument(
                "params_file",
                default_value=PathJoinSubstitution([SHARE, "config", "flight.yaml"]),
                description="YAML file with the parameters of the localization node.",
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
                "raw_image_profile",
                default_value="true",
                choices=["true", "false"],
                description="Use config/fastdds_shared_memory.xml, so that raw images are not lost between processes.",
            ),
            DeclareLaunchArgument(
                "viewer",
                default_value="",
                choices=["", "rviz", "foxglove"],
                description="Show the flight in RViz or by foxglove_bridge, as flight.launch.py does. Empty: nothing.",
            ),
            OpaqueFunction(function=start),
        ]
    )


def end_with_the_replay(event: ProcessExited, context: LaunchContext) -> Action:
    """The end of the replay ends everything, with its own success."""
    if event.returncode:
        raise RuntimeError(f"the replay failed with exit code {event.returncode}")
    return Shutdown(reason="the replay has ended")


def start(context: LaunchContext) -> list[Action]:
    """The node, then the replay, whose end ends everything."""

    def argument(name: str) -> str:
        return LaunchConfiguration(name).perform(context)

    try:
        playback = open_playback(
            argument("bag"),
            image_topic=argument("image_topic") or None,
            fix_topic=argument("fix_topic") or None,
            transport=argument("image_transport") or "as recorded",
        )
        problem = what_is_missing(argument("store"))
    except AerialVprError as error:
        problem = str(error)
    if problem:
        raise RuntimeError(problem)  # the launch ends with exit code 1
    told = playback.parameters()
    replayed = {name: argument(name) for name in ("bag", "result", "image_topic", "fix_topic")}
    passed_on = ("store", "namespace", "params_file", "device", "log_level", "raw_image_profile", "viewer")
    flight_arguments = {
        **{name: argument(name) for name in passed_on},
        "image_transport": playback.transport,
        "height_message": told["height_message"],
        "sensors": json.dumps({name.partition(".")[2]: told[name] for name in told if name.startswith("sensors.")}),
        "image_topic": "image",
        "fix_topic": "fix",
        "use_sim_time": argument("clock"),
        "recording": "never",  # a flight is learnt from once
        "learner": "false",
        "respawn": "false",
    }
    return [
        IncludeLaunchDescription(
            PathJoinSubstitution([SHARE, "launch", "flight.launch.py"]), launch_arguments=flight_arguments.items()
        ),
        Node(
            package="aerial_vpr_cl",
            executable="replay_node",
            name="replay",
            namespace=argument("namespace"),
            parameters=[
                {name: value for name, value in replayed.items() if value},
                {"rate": float(argument("rate")), "image_transport": playback.transport},
                {"clock": argument("clock") == "true"},
            ],
            ros_arguments=["--log-level", argument("log_level")],
            output="screen",
            on_exit=end_with_the_replay,
            sigterm_timeout="20",  # the result bag is closed first
            sigkill_timeout="20",
        ),
    ]
