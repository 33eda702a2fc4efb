"""Parameters of the localization node that belong to ROS; the others come from the library's own settings."""

from __future__ import annotations

from dataclasses import dataclass

from aerial_vpr_cl.settings import setting

RAW, COMPRESSED = "raw", "compressed"


@dataclass(frozen=True)
class FlightSettings:
    """What the node is connected to."""

    store: str = setting("", "directory of the store: map, generations, missions; made by aerial-vpr build-map")
    image_transport: str = setting(
        RAW,
        "what arrives on `image`: sensor_msgs/Image (raw) or sensor_msgs/CompressedImage (compressed)",
        choices=(RAW, COMPRESSED),
    )
    device: str = setting("auto", "where the network computes: auto, cpu, cuda or cuda:N")
    autostart: bool = setting(True, "configure and activate without being asked; false: wait for a lifecycle manager")
    map_frame_id: str = setting("utm", "frame of ~/pose and ~/cells: easting and northing of the map's UTM zone")
    fix_frame_id: str = setting("", "frame of ~/fix and ~/geo_pose; empty: that of the image")
