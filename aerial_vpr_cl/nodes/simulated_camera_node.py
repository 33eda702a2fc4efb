"""A camera on somebody else's simulated drone: any autopilot simulator flies over our worlds.

    MAVLink (true pose)  ─►  simulated_camera  ─►  image (CompressedImage)  camera_info  ~/truth

The pose is the simulator's true one (SIM_STATE, or SIMSTATE of ArduPilot with the height of GLOBAL_POSITION_INT), so
what the camera sees does not depend on what the autopilot believes; its arrival is the stamp of the picture. For tests
and benches, never for flight.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pymavlink.dialects.v20 import ardupilotmega as mavlink
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.time import Time
from sensor_msgs.msg import CameraInfo, CompressedImage, NavSatFix

from aerial_vpr_cl.autopilot.link import Link
from aerial_vpr_cl.autopilot.transport import check_address
from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.images import encode_jpeg
from aerial_vpr_cl.nodes.parameters import NodeSettings
from aerial_vpr_cl.nodes.running import run_node
from aerial_vpr_cl.settings import setting
from aerial_vpr_cl.simulation.camera import Pose, develop, focal_px, take_picture
from aerial_vpr_cl.simulation.scenario import load_scenario

LOWEST_M = 5.0
"""Below this the camera would see next to nothing; no frame is taken."""
OLDEST_NS = 500_000_000
"""An older pose is none to take a picture from: the simulator has stopped."""
RATES_HZ = {mavlink.MAVLINK_MSG_ID_SIM_STATE: 25.0, mavlink.MAVLINK_MSG_ID_GLOBAL_POSITION_INT: 2.0}
"""What the simulator is asked for; ArduPlane, whose loop runs 50 times a second, refuses more than 40."""


@dataclass(frozen=True)
class CameraNodeSettings:
    """What is flown over, and where the vehicle's true pose comes from."""

    scenario: str = setting("", "scenario file whose world and camera are used")
    mission: str = setting("", "mission of the scenario: its appearance, sensor and camera; empty: the first")
    raster_dir: str = setting("", "directory of the scenario's GeoTIFFs; empty: beside the file")
    autopilot: str = setting("udp:127.0.0.1:14552", "where the simulator's MAVLink comes in")
    rate_hz: float = setting(2.0, "frames a second", low=0.1, high=30.0)


PARAMETERS = {"": (CameraNodeSettings,)}


class VehiclePose:
    """The newest true pose out of MAVLink messages."""

    def __init__(self, to_metres: Any) -> None:
        self._to_metres = to_metres
        self._height_m = self._home_m = math.nan
        self.pose: Pose | None = None
        self.stamp_ns = 0
        self.latitude = self.longitude = math.nan

    def take(self, message: Any, arrived_ns: int) -> None:
        """A message of the simulator; others are passed over."""
        kind = message.get_type()
        if kind == "GLOBAL_POSITION_INT":
            self._height_m = message.relative_alt / 1000.0
            self._home_m = message.alt / 1000.0 - self._height_m
        elif kind == "SIMSTATE":
            self._set(message, message.lat / 1e7, message.lng / 1e7, self._height_m, arrived_ns)
        elif kind == "SIM_STATE" and message.lat_int:  # 32-bit floats say a place to metres, and ArduPilot's are others
            height_m = message.alt - self._home_m
            self._set(message, message.lat_int / 1e7, message.lon_int / 1e7, height_m, arrived_ns)

    def _set(self, angles: Any, latitude: float, longitude: float, height_m: float, arrived_ns: int) -> None:
        self.latitude, self.longitude, self.stamp_ns = latitude, longitude, arrived_ns
        if not math.isfinite(height_m) or height_m < LOWEST_M:
            self.pose = None
            return
        position = np.asarray(self._to_metres(latitude, longitude), np.float64)
        heading_deg, pitch_deg, roll_deg = (math.degrees(angle) for angle in (angles.yaw, angles.pitch, angles.roll))
        self.pose = Pose(position, height_m, heading_deg, pitch_deg, roll_deg)


class SimulatedCameraNode(Node):
    """Takes a picture at a constant rate, as long as the vehicle is above the world."""

    def __init__(self, **options: Any) -> None:
        super().__init__("simulated_camera", **options)
        settings: CameraNodeSettings = NodeSettings(self, PARAMETERS, fixed=("",))[CameraNodeSettings]
        if not settings.scenario:
            raise SettingsError("no scenario is given; set the parameter scenario, e.g. to config/scenarios/demo.yaml")
        check_address(settings.autopilot)
        raster_dir = Path(settings.raster_dir) if settings.raster_dir else None
        scenario = load_scenario(settings.scenario, raster=raster_dir)
        spec = scenario.chosen([settings.mission] if settings.mission else None)[0]
        self._camera, self._is_grey = spec.camera, spec.modality == "IR"
        self._ground = scenario.world_of(spec).ground(spec.appearance, spec.modality)
        self._rng = np.random.default_rng(spec.seed)
        self._vehicle = VehiclePose(self._ground.projection.to_utm)
        self._image_out = self.create_publisher(CompressedImage, "image", qos_profile_sensor_data)
        self._info_out = self.create_publisher(CameraInfo, "camera_info", qos_profile_sensor_data)
        self._truth_out = self.create_publisher(NavSatFix, "~/truth", 10)
        self._link = Link(settings.autopilot, system_id=254, now_ns=lambda: self.get_clock().now().nanoseconds)
        self._stopping = threading.Event()
        self._listener = threading.Thread(target=self._listen, name="simulator", daemon=True)
        self._listener.start()
        self.create_timer(1.0 / settings.rate_hz, self._take_picture)

    def close(self) -> None:
        """End the listening."""
        self._stopping.set()
        self._listener.join(2.0)
        self._link.close()

    def _listen(self) -> None:
        while not self._stopping.is_set():
            for message, arrived_ns in self._link.poll(0.05):
                self._vehicle.take(message, arrived_ns)
            self._link.ask_for(RATES_HZ)

    def _take_picture(self) -> None:
        now_ns = self.get_clock().now().nanoseconds
        pose, stamp_ns = self._vehicle.pose, self._vehicle.stamp_ns
        if pose is None or now_ns - stamp_ns > OLDEST_NS:
            self.get_logger().info("waiting for the simulator to fly", throttle_duration_sec=10.0)
            return
        west, south, east, north = self._ground.bounds
        if not (west < pose.position[0] < east and south < pose.position[1] < north):
            self.get_logger().warning("the vehicle is beyond the world", throttle_duration_sec=5.0)
            return
        stamp = Time(nanoseconds=stamp_ns).to_msg()
        picture = develop(take_picture(self._ground, self._camera, pose), self._camera, self._rng, grey=self._is_grey)
        image = CompressedImage(format="jpeg", data=encode_jpeg(picture, self._camera.jpeg_quality))
        image.header.stamp, image.header.frame_id = stamp, "camera"
        self._image_out.publish(image)
        self._info_out.publish(self._camera_info(image.header))
        truth = NavSatFix(latitude=self._vehicle.latitude, longitude=self._vehicle.longitude, altitude=math.nan)
        truth.header.stamp, truth.header.frame_id = stamp, "truth"
        self._truth_out.publish(truth)

    def _camera_info(self, header: Any) -> CameraInfo:
        camera, focal = self._camera, focal_px(self._camera)
        across, down = (camera.width_px - 1) / 2.0, (camera.height_px - 1) / 2.0
        info = CameraInfo(header=header, width=camera.width_px, height=camera.height_px, distortion_model="plumb_bob")
        info.k = [focal, 0.0, across, 0.0, focal, down, 0.0, 0.0, 1.0]
        info.d = [0.0] * 5
        return info


def main(args: Sequence[str] | None = None) -> int:
    """Run the node."""
    return run_node(SimulatedCameraNode, args)


if __name__ == "__main__":
    sys.exit(main())
