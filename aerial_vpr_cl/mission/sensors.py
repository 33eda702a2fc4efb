"""From the readings of a flight to what the drone knows at a frame: live and from bags by the same code."""

from __future__ import annotations

import math
import threading
from typing import NamedTuple

from aerial_vpr_cl.errors import SensorError
from aerial_vpr_cl.geo.camera import CameraModel
from aerial_vpr_cl.geo.rotation import Matrix, from_angles, from_quaternion, heading_of, interpolate, turned
from aerial_vpr_cl.geo.terrain import Near, Terrain
from aerial_vpr_cl.mission.heights import HeightMeter
from aerial_vpr_cl.mission.odometer import Odometer, Place
from aerial_vpr_cl.mission.readings import AltitudeReading, CameraReading, HeightReading, ImuReading, Reading
from aerial_vpr_cl.mission.sensor_settings import SensorSettings
from aerial_vpr_cl.mission.series import Around, Series
from aerial_vpr_cl.mission.situation import (
    UNKNOWN_HEADING_DEG,
    UNKNOWN_TILT_DEG,
    Motion,
    Situation,
)

IMU, HEIGHT, CAMERA_INFO, ODOMETRY = "imu", "height", "camera_info", "odometry"
"""Keys of `FlightSensors.problems`: the topics of the localization node."""

VAGUE_HEADING_DEG = 45.0
"""A driver that states a larger sigma has no heading; MAVROS states 57° unless it is told better."""
LEAST_HEADING_DEG, LEAST_TILT_DEG = 1.0, 0.5
"""No compass or level is better, whatever its driver states."""
TURN_DEG_S = 20.0
"""How fast heading and tilt may change: what a reading that is a little old adds to their sigmas."""
SAME_SHAPE = 0.02


class _Attitude(NamedTuple):
    rotation: Matrix
    heading_sigma_deg: float
    tilt_sigma_deg: float
    upright: float  # cosine of the body's tilt, also where a gimbal takes it off the camera


class FlightSensors:
    """Takes readings as they come, from any thread, and tells once per frame, in time order, what is known then."""

    def __init__(
        self, settings: SensorSettings | None = None, *, north_deg: float = 0.0, terrain: Terrain | None = None
    ) -> None:
        """`north_deg` is the bearing of true north on the map, whose own north is that of its projection.

        Over terrain the altitude stands in for a range finder.
        """
        self.settings = settings or SensorSettings()
        self.problems: dict[str, str] = {}
        self._north_deg = north_deg
        self._lock = threading.Lock()
        self._attitudes = Series[_Attitude](self.settings.imu_max_age_s)
        self._heights = HeightMeter(self.settings, terrain)
        self._camera: CameraModel | None = None
        self._camera_fault = ""
        self._odometer = Odometer(self.settings.odometry_max_age_s, self.settings.max_speed_mps)

    def add(self, reading: Reading | AltitudeReading) -> None:
        """Take a reading; one that cannot be used is named in `problems` while nothing better comes."""
        with self._lock:
            if isinstance(reading, ImuReading):
                self._add_attitude(reading)
            elif isinstance(reading, HeightReading):
                self._heights.add(reading)
            elif isinstance(reading, AltitudeReading):
                self._heights.add_altitude(reading)
            elif isinstance(reading, CameraReading):
                self._add_camera(reading)
            else:
                self._odometer.add(reading)

    def clear(self) -> None:
        """Forget all readings but the calibration: the clock was set back, and they would mix with those to come."""
        with self._lock:
            self._attitudes.clear()
            self._heights.clear()
            self._odometer.clear()

    def at(
        self, stamp_ns: int, size_px: tuple[int, int] | None = None, near: Near | None = None
    ) -> tuple[Situation, Motion | None]:
        """What is known of a frame (width and height in pixels), and the motion since the one asked for before.

        `near` is where the drone is thought to be: which terrain lies under it.
        """
        with self._lock:
            self.problems = {}
            attitude = self._attitude_at(stamp_ns)
            height, why = self._heights.at(stamp_ns, near, attitude.upright if attitude else None)
            self._note(HEIGHT, why)
            situation = Situation(
                camera=self._camera_of(size_px),
                mount=self.settings.mount,
                rotation=attitude.rotation if attitude else None,
                heading_sigma_deg=attitude.heading_sigma_deg if attitude else UNKNOWN_HEADING_DEG,
                tilt_sigma_deg=attitude.tilt_sigma_deg if attitude else self._unknown_tilt_deg,
                height_m=height.height_m if height else None,
                height_sigma_m=height.sigma_m if height else 0.0,
            )
            motion, why = self._odometer.motion_to(stamp_ns)
            self._note(ODOMETRY, why)
            return situation, motion

    @property
    def place(self) -> Place | None:
        """Where odometry has the drone at the frame asked for last; None if that is not known."""
        with self._lock:
            return self._odometer.place

    # Attitude

    def _add_attitude(self, reading: ImuReading) -> None:
        settings = self.settings
        if reading.orientation is None:
            self._attitudes.refuse("the driver says that it has no orientation; use one that estimates it")
            return
        try:
            rotation = from_quaternion(reading.orientation)
        except SensorError as error:
            self._attitudes.refuse(str(error))
            return
        heading, tilt = settings.heading_sigma_deg, settings.tilt_sigma_deg
        if settings.stated_sigmas:
            heading = heading if math.isnan(reading.heading_sigma_deg) else reading.heading_sigma_deg
            tilt = tilt if math.isnan(reading.tilt_sigma_deg) else reading.tilt_sigma_deg
        if not settings.compass:
            heading = UNKNOWN_HEADING_DEG
        rotation = turned(rotation, settings.heading_offset_deg + self._north_deg)
        upright = float(rotation[2, 2])
        if settings.levelled:
            rotation, tilt = from_angles(heading_of(rotation)), settings.tilt_sigma_deg
        tilt = min(max(tilt, LEAST_TILT_DEG), UNKNOWN_TILT_DEG)
        self._attitudes.add(reading.stamp_ns, _Attitude(rotation, max(heading, LEAST_HEADING_DEG), tilt, upright))

    def _attitude_at(self, stamp_ns: int) -> _Attitude | None:
        around, why = self._attitudes.at(stamp_ns)
        if around is None:
            self._note(IMU, why)
            return None
        before, after = around.before, around.after
        nearer = before if around.share <= 0.5 else after
        upright = before.upright + around.share * (after.upright - before.upright)
        vague = [attitude.heading_sigma_deg > VAGUE_HEADING_DEG for attitude in (before, after)]
        # A lost heading may be any: nothing lies between it and one that is known.
        rotation = nearer.rotation if any(vague) else interpolate(before.rotation, after.rotation, around.share)
        if any(vague):
            stated = max(before.heading_sigma_deg, after.heading_sigma_deg)
            if self.settings.compass:
                self._note(IMU, f"its heading is unknown: the driver states a sigma of {stated:.0f}°")
            return _Attitude(rotation, UNKNOWN_HEADING_DEG, nearer.tilt_sigma_deg, upright)
        heading = math.hypot(max(before.heading_sigma_deg, after.heading_sigma_deg), _turned_since(around))
        tilt = math.hypot(max(before.tilt_sigma_deg, after.tilt_sigma_deg), _turned_since(around))
        return _Attitude(rotation, heading, min(tilt, UNKNOWN_TILT_DEG), upright)

    @property
    def _unknown_tilt_deg(self) -> float:
        return self.settings.tilt_sigma_deg if self.settings.levelled else UNKNOWN_TILT_DEG

    # Camera

    def _add_camera(self, reading: CameraReading) -> None:
        k = (reading.fx, 0.0, reading.cx, 0.0, reading.fy, reading.cy, 0.0, 0.0, 1.0)
        try:
            self._camera = CameraModel.from_camera_info(
                reading.width_px, reading.height_px, k, reading.distortion, reading.distortion_model
            )
            self._camera_fault = ""
        except SensorError as error:
            self._camera, self._camera_fault = None, str(error)

    def _camera_of(self, size_px: tuple[int, int] | None) -> CameraModel | None:
        """The model of a frame of this size: camera_info's, resized, or that of the field of view that is set."""
        camera, fault = self._camera, self._camera_fault
        if camera is not None:
            if size_px is None:
                return camera
            if abs(camera.width_px * size_px[1] / (camera.height_px * size_px[0]) - 1.0) <= SAME_SHAPE:
                return camera.at_size(*size_px)
            shape = f"{camera.width_px} × {camera.height_px}"
            fault = f"it is of images of {shape}, not {size_px[0]} × {size_px[1]}: the frames were cut"
        if size_px is not None and self.settings.horizontal_fov_deg > 0.0:
            self._note(CAMERA_INFO, fault and f"{fault}; horizontal_fov_deg is used")
            return CameraModel.from_fov(*size_px, self.settings.horizontal_fov_deg)
        self._note(CAMERA_INFO, fault)
        return None

    def _note(self, what: str, words: str) -> None:
        if words:
            self.problems[what] = words


def _turned_since(around: Around[_Attitude]) -> float:
    """How far a single reading that is a little old may be off; between two readings little is left open."""
    return TURN_DEG_S * around.age_s if around.before is around.after else 0.0
