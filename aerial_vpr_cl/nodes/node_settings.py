"""Parameters of the nodes that belong to ROS; the others come from the library's own settings."""

from __future__ import annotations

from dataclasses import dataclass

from aerial_vpr_cl.model.runtimes.names import AUTO, RUNTIME_HELP, RUNTIMES
from aerial_vpr_cl.settings import DEVICE_PATTERN, setting

RAW, COMPRESSED = "raw", "compressed"
RANGE, FLOAT64 = "Range", "Float64"
TRACKED, ALONE = "tracked", "single_frame"
SINGLE_FRAME = "single frame"
"""The state of a node that follows nothing."""


@dataclass(frozen=True)
class ManagedSettings:
    """What every managed node of this package needs to know."""

    store: str = setting("", "directory of the store: map, generations, missions; made by aerial-vpr build-map")
    autostart: bool = setting(True, "configure and activate without being asked; false: wait for a lifecycle manager")


@dataclass(frozen=True)
class FlightSettings(ManagedSettings):
    """What the localization node is connected to."""

    image_transport: str = setting(
        RAW,
        "what arrives on `image`: sensor_msgs/Image (raw) or sensor_msgs/CompressedImage (compressed)",
        choices=(RAW, COMPRESSED),
    )
    max_megapixels: float = setting(
        50.0,
        "largest compressed image that is decoded, in millions of pixels; a small file may claim any size",
        low=0.1,
    )
    height_message: str = setting(
        RANGE, "what arrives on `height`: sensor_msgs/Range or std_msgs/Float64", choices=(RANGE, FLOAT64)
    )
    answer: str = setting(
        TRACKED,
        "tracked: the drone is followed over the map; single_frame: the network's cell of every frame (the paper)",
        choices=(TRACKED, ALONE),
    )
    publish_rate_hz: float = setting(
        0.0, "how often positions are also published between images, by odometry; 0: never", low=0.0, high=100.0
    )
    device: str = setting("auto", "where the network computes: auto, cpu, cuda or cuda:N", pattern=DEVICE_PATTERN)
    runtime: str = setting(AUTO, RUNTIME_HELP, choices=RUNTIMES)
    map_frame_id: str = setting(
        "map", "frame of ~/pose, ~/odometry and ~/cells: x to true east, y to true north from the map's datum"
    )
    utm_frame_id: str = setting("utm", "frame of easting and northing of the map's UTM zone; `map` lies in it")
    base_frame_id: str = setting("base_link", "child frame of ~/odometry: the drone")
    odom_frame_id: str = setting("odom", "frame of what arrives on `odometry`")
    publish_tf: bool = setting(False, "also publish map → odom on /tf; needs odometry, a heading and tf2_msgs")
    fix_frame_id: str = setting("", "frame of ~/fix and ~/geo_pose; empty: that of the image")
    zero_altitude: bool = setting(
        False, "altitude 0 instead of NaN in ~/fix, for readers that drop a fix without one (navsat_transform_node)"
    )


@dataclass(frozen=True)
class LearnerSettings(ManagedSettings):
    """When the learner refuses."""

    flying_speed_mps: float = setting(2.0, "GNSS speed above which the drone counts as flying, in m/s", low=0.1)
    allow_while_flying: bool = setting(
        False, "learn even if the drone seems to fly (on the desk, when bags are played)"
    )
