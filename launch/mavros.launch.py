"""What flies beside MAVROS: its topics feed the nodes, and the bridge sends the answer back over MAVROS' router.

ros2 launch mavros px4.launch fcu_url:=/dev/ttyAMA0:921600 gcs_url:=udp://@127.0.0.1:14550
ros2 launch aerial_vpr_cl mavros.launch.py store:=STORE image_topic:=/camera/image_raw

All other arguments of flight.launch.py can be given, too.
"""

from __future__ import annotations

from launch.action import Action
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.substitutions import FindPackageShare

from launch import LaunchContext, LaunchDescription

SHARE = FindPackageShare("aerial_vpr_cl")
TOPICS = {
    "imu": "imu/data",
    "odometry": "local_position/odom",
    "fix": "global_position/raw/fix",
}
"""Input of the nodes → what MAVROS calls it."""


def generate_launch_description() -> LaunchDescription:
    return LaunchDescription(
        [
            DeclareLaunchArgument("mavros", default_value="/mavros", description="ROS namespace of MAVROS."),
            DeclareLaunchArgument(
                "height",
                default_value="global_position/rel_alt",
                description="Topic of MAVROS with the height. rel_alt is above home, so right over flat land only; "
                "better a range finder: rangefinder/rangefinder of ArduPilot, or the name in distance_sensor.",
            ),
            DeclareLaunchArgument(
                "autopilot",
                default_value="udp:127.0.0.1:14550",
                description="Where MAVROS passes MAVLink on (its gcs_url): for the answer, and for the landed state, "
                "which MAVROS has in a type of its own. Empty: nothing is sent, and only GNSS tells of flight.",
            ),
            OpaqueFunction(function=start),
        ]
    )


def start(context: LaunchContext) -> list[Action]:
    """The flight, on the topics of MAVROS."""

    def argument(name: str) -> str:
        return LaunchConfiguration(name).perform(context)

    height = argument("height")
    flight_arguments = {
        **{f"{name}_topic": f"{argument('mavros')}/{topic}" for name, topic in TOPICS.items()},
        "height_topic": f"{argument('mavros')}/{height}",
        "height_message": "Float64" if height.endswith("rel_alt") else "Range",
        "autopilot": argument("autopilot"),
        "autopilot_topics": "false",
    }
    return [
        IncludeLaunchDescription(
            PathJoinSubstitution([SHARE, "launch", "flight.launch.py"]), launch_arguments=flight_arguments.items()
        )
    ]
