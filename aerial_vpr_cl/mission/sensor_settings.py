"""What no topic tells of the drone's sensors, and how far the topics are believed."""

from __future__ import annotations

from dataclasses import dataclass

from aerial_vpr_cl.geo.rotation import Matrix
from aerial_vpr_cl.mission.situation import camera_mount
from aerial_vpr_cl.settings import setting


@dataclass(frozen=True)
class SensorSettings:
    """What no topic tells of the drone's sensors, and how far the topics are believed."""

    height_m: float = setting(0.0, "height above ground where no topic gives it, in metres; 0: unknown", low=0.0)
    horizontal_fov_deg: float = setting(
        0.0, "horizontal field of view where there is no camera_info, in degrees; 0: unknown", low=0.0, high=170.0
    )
    compass: bool = setting(True, "the imu's heading is one from north; false: its yaw begins anywhere")
    heading_offset_deg: float = setting(
        0.0, "added to the imu's heading, in degrees clockwise: declination and mounting", low=-360.0, high=360.0
    )
    levelled: bool = setting(False, "a gimbal keeps the camera level: only the heading of the imu is used")
    mount_turn_deg: float = setting(
        0.0, "where the top of the image points, in degrees clockwise from the nose", low=-360.0, high=360.0
    )
    mount_forward_deg: float = setting(
        0.0, "how far the camera looks towards the top of the image from straight down", low=-90.0, high=90.0
    )
    mount_right_deg: float = setting(0.0, "how far it looks towards the right of the image", low=-90.0, high=90.0)
    range_is_vertical: bool = setting(
        False, "ranges are heights as they are: of a gimbal, or with the tilt taken off; false: the body tilts them"
    )
    stated_sigmas: bool = setting(True, "sigmas that drivers state are believed; false: always those set here")
    heading_sigma_deg: float = setting(5.0, "sigma of a heading whose driver states none", low=0.0, high=180.0)
    tilt_sigma_deg: float = setting(3.0, "sigma of pitch and roll whose driver states none", low=0.0, high=45.0)
    height_sigma: float = setting(0.1, "relative sigma of a height whose driver states none", low=0.0, high=1.0)
    altitude_sigma_m: float = setting(
        10.0, "sigma of the altitude of fixes in metres, where a map with terrain makes a height of it", low=0.0
    )
    imu_max_age_s: float = setting(0.5, "oldest attitude that is used, in seconds from the image", low=0.0)
    height_max_age_s: float = setting(1.0, "oldest height that is used, in seconds from the image", low=0.0)
    odometry_max_age_s: float = setting(
        0.5, "oldest odometry that is used, in seconds from the image; a longer pause is a new origin", low=0.0
    )
    max_speed_mps: float = setting(60.0, "faster than the drone can fly: odometry beyond has jumped, in m/s", low=0.1)

    @property
    def mount(self) -> Matrix:
        """(3, 3) camera axes to base_link."""
        return camera_mount(self.mount_turn_deg, self.mount_forward_deg, self.mount_right_deg)
