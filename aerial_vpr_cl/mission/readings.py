"""Single readings of the drone's instruments, as values: what a ROS message says, without ROS."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from aerial_vpr_cl.mission.messages import stamp_of

Quaternion = tuple[float, float, float, float]
"""x, y, z, w, as ROS orders them."""

SLANT, VERTICAL, ABOVE_HOME = "range_finder", "vertical", "above_home"
"""How a height was had: along the body's own down axis, straight down, or above where the drone took off.

In a sensor_msgs/Range the frame says it: the last two by these names, and any other frame is a range finder's."""


class ImuReading(NamedTuple):
    """Attitude of base_link (forward, left, up) in ENU; a sigma is NaN where the driver gives none."""

    stamp_ns: int
    orientation: Quaternion | None  # None: the driver says that it has none (REP 145)
    heading_sigma_deg: float = math.nan
    tilt_sigma_deg: float = math.nan

    @classmethod
    def from_message(cls, message: Any, received_ns: int = 0) -> ImuReading:
        """From a sensor_msgs/Imu of ROS or rosbags; `received_ns` stands in for a stamp that was not set."""
        covariance = [float(value) for value in message.orientation_covariance]
        stamp_ns = stamp_of(message) or received_ns
        if covariance[0] == -1.0:
            return cls(stamp_ns, None)
        tilt = max(covariance[0], covariance[4])
        return cls(stamp_ns, _quaternion(message.orientation), _sigma_deg(covariance[8]), _sigma_deg(tilt))


class HeightReading(NamedTuple):
    """Height above ground, between which heights the instrument can tell it, and how it was had."""

    stamp_ns: int
    height_m: float
    sigma_m: float = math.nan
    lowest_m: float = 0.0
    highest_m: float = math.inf
    kind: str = VERTICAL

    @classmethod
    def from_message(cls, message: Any, received_ns: int = 0) -> HeightReading:
        """From a sensor_msgs/Range, or a std_msgs/Float64, which has no stamp: it is as old as its arrival."""
        if not hasattr(message, "range"):
            return cls(received_ns, float(message.data))
        variance = float(getattr(message, "variance", 0.0))  # Humble's message has none
        sigma_m = math.sqrt(variance) if variance > 0.0 else math.nan
        highest_m = float(message.max_range) if message.max_range > message.min_range else math.inf
        stamp_ns, frame_id = stamp_of(message) or received_ns, str(message.header.frame_id)
        kind = frame_id if frame_id in (VERTICAL, ABOVE_HOME) else SLANT
        return cls(stamp_ns, float(message.range), sigma_m, float(message.min_range), highest_m, kind)


class AltitudeReading(NamedTuple):
    """Altitude as GNSS has it; worth something only over terrain whose elevations are counted from the same level."""

    stamp_ns: int
    altitude_m: float


class CameraReading(NamedTuple):
    """Intrinsics of the images as they are sent; all zero where the camera is not calibrated."""

    stamp_ns: int
    width_px: int
    height_px: int
    fx: float
    fy: float
    cx: float
    cy: float
    distortion: tuple[float, ...] = ()
    distortion_model: str = "plumb_bob"

    @classmethod
    def from_message(cls, message: Any, received_ns: int = 0) -> CameraReading:
        """From a sensor_msgs/CameraInfo, whose K belongs to the whole sensor: region of interest and binning count."""
        stamp_ns = stamp_of(message) or received_ns
        fx, _, cx, _, fy, cy, *_ = (float(value) for value in message.k)
        across, down = max(int(message.binning_x), 1), max(int(message.binning_y), 1)
        roi, width, height = message.roi, int(message.width), int(message.height)
        if roi.width and roi.height:
            width, height, cx, cy = int(roi.width), int(roi.height), cx - roi.x_offset, cy - roi.y_offset
        # Pixel centres have whole coordinates: the first of two binned pixels begins half a pixel before its centre.
        cx, cy = (cx + 0.5) / across - 0.5, (cy + 0.5) / down - 0.5
        distortion, model = tuple(float(value) for value in message.d), str(message.distortion_model) or "plumb_bob"
        return cls(stamp_ns, width // across, height // down, fx / across, fy / down, cx, cy, distortion, model)


class OdometryReading(NamedTuple):
    """Where the drone is in a frame of any origin and any heading that is level and holds still."""

    stamp_ns: int
    position: tuple[float, float, float]
    orientation: Quaternion

    @classmethod
    def from_message(cls, message: Any, received_ns: int = 0) -> OdometryReading:
        """From a nav_msgs/Odometry of ROS or rosbags."""
        pose = message.pose.pose
        position = float(pose.position.x), float(pose.position.y), float(pose.position.z)
        return cls(stamp_of(message) or received_ns, position, _quaternion(pose.orientation))


Reading = ImuReading | HeightReading | CameraReading | OdometryReading


def _quaternion(message: Any) -> Quaternion:
    return float(message.x), float(message.y), float(message.z), float(message.w)


def _sigma_deg(variance: float) -> float:
    """A variance of zero says that it is not known; below zero or not a number, that nothing is."""
    if variance == 0.0:
        return math.nan
    return math.degrees(math.sqrt(variance)) if variance > 0.0 else math.inf
