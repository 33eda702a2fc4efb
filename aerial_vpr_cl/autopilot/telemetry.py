"""What the autopilot tells, as values in ROS's axes and this computer's time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pymavlink.dialects.v20 import ardupilotmega as mavlink

from aerial_vpr_cl.autopilot.axes import aeronautical_to_ros, frd_to_flu, ned_to_enu
from aerial_vpr_cl.autopilot.clock import AutopilotClock

RECENT_NS = 1_000_000_000
"""How long a range finder's reading keeps coarser heights from being used, an attitude belongs to a position, and one
position to the next."""

MESSAGE_RATES_HZ = {
    mavlink.MAVLINK_MSG_ID_ATTITUDE_QUATERNION: 20.0,
    mavlink.MAVLINK_MSG_ID_LOCAL_POSITION_NED: 20.0,
    mavlink.MAVLINK_MSG_ID_GLOBAL_POSITION_INT: 10.0,
    mavlink.MAVLINK_MSG_ID_GPS_RAW_INT: 5.0,
    mavlink.MAVLINK_MSG_ID_DISTANCE_SENSOR: 10.0,
    mavlink.MAVLINK_MSG_ID_EXTENDED_SYS_STATE: 1.0,
    mavlink.MAVLINK_MSG_ID_GPS_GLOBAL_ORIGIN: 0.5,
}
"""What every autopilot is asked to send, and how often."""
ALTITUDE_HZ = 5.0
"""Of ALTITUDE, which ArduPilot does not know: it would complain to the operator whenever it is asked."""


@dataclass(frozen=True, eq=False)
class Attitude:
    """Orientation of base_link (forward, left, up) in east, north, up as (x, y, z, w), and its rates in rad/s."""

    stamp_ns: int
    quaternion: NDArray[np.float64]
    rates: NDArray[np.float64]


@dataclass(frozen=True)
class Height:
    """Metres above the ground, or above home; `is_range`: a range finder's, along the body's own down axis."""

    stamp_ns: int
    height_m: float
    is_range: bool = False
    least_m: float = 0.0
    most_m: float = math.inf
    is_above_home: bool = False


@dataclass(frozen=True, eq=False)
class LocalPosition:
    """How the drone has moved: east, north, up; only differences mean something.

    Horizontally the velocities are added up: a filter that is set to another place, by us or by GNSS, is there at once,
    and the drone is not.
    """

    stamp_ns: int
    position: NDArray[np.float64]
    velocity: NDArray[np.float64]
    quaternion: NDArray[np.float64]


@dataclass(frozen=True)
class GlobalPosition:
    """Where the filter has the drone on the globe, dead reckoned or not."""

    stamp_ns: int
    latitude: float
    longitude: float


@dataclass(frozen=True)
class GnssFix:
    """What the receiver says; status as in NavSatFix: -1 no fix, 0 fix, 1 satellite based, 2 ground based."""

    stamp_ns: int
    latitude: float
    longitude: float
    altitude_m: float
    status: int
    sigma_m: float  # NaN if the receiver gives none


@dataclass(frozen=True)
class Landed:
    """Whether the drone stands on the ground and is not armed."""

    landed: bool


@dataclass(frozen=True)
class Origin:
    """Where the filter's local positions are measured from."""

    latitude: float
    longitude: float


_STATUS = {
    mavlink.GPS_FIX_TYPE_3D_FIX: 0,
    mavlink.GPS_FIX_TYPE_DGPS: 1,
    mavlink.GPS_FIX_TYPE_RTK_FLOAT: 2,
    mavlink.GPS_FIX_TYPE_RTK_FIXED: 2,
    mavlink.GPS_FIX_TYPE_STATIC: 0,
    mavlink.GPS_FIX_TYPE_PPP: 2,
}
INVALID_SIGNAL = 1  # of DISTANCE_SENSOR.signal_quality; 0 is unknown

Told = Attitude | Height | LocalPosition | GlobalPosition | GnssFix | Landed | Origin


def wanted_rates_hz(autopilot: int | None) -> dict[int, float]:
    """What an autopilot (MAV_AUTOPILOT) is asked to send, and how often."""
    if autopilot == mavlink.MAV_AUTOPILOT_ARDUPILOTMEGA:
        return MESSAGE_RATES_HZ
    return {**MESSAGE_RATES_HZ, mavlink.MAVLINK_MSG_ID_ALTITUDE: ALTITUDE_HZ}


class Telemetry:
    """Turns messages into values, one by one; nothing for messages that say nothing usable."""

    def __init__(self, clock: AutopilotClock) -> None:
        self._clock = clock
        self._attitude: Attitude | None = None
        self._local: tuple[int, LocalPosition] | None = None  # time since boot in ms
        self._range_ns = -RECENT_NS  # arrival of the last range
        self._clearance_ns = -RECENT_NS  # arrival of the last height above ground by the filter
        self._readers: dict[str, Callable[[Any, int, bool], list[Told]]] = {
            "ATTITUDE_QUATERNION": self._read_attitude,
            "DISTANCE_SENSOR": self._read_distance,
            "ALTITUDE": self._read_altitude,
            "GLOBAL_POSITION_INT": self._read_global_position,
            "LOCAL_POSITION_NED": self._read_local_position,
            "GPS_RAW_INT": self._read_gnss,
            "EXTENDED_SYS_STATE": self._read_landed,
            "GPS_GLOBAL_ORIGIN": self._read_origin,
        }

    def take(self, message: Any, arrived_ns: int, armed: bool = False) -> list[Told]:
        """What a message tells."""
        reader = self._readers.get(message.get_type())
        return reader(message, arrived_ns, armed) if reader is not None else []

    def _stamp(self, message: Any) -> int:
        return self._clock.ours(message.time_boot_ms * 1_000_000)

    def _read_attitude(self, message: Any, arrived_ns: int, armed: bool) -> list[Told]:
        quaternion = np.array([message.q1, message.q2, message.q3, message.q4], float)
        length = float(np.linalg.norm(quaternion))
        if not 0.5 < length < 2.0:  # false for NaN, too
            return []
        rates = frd_to_flu([message.rollspeed, message.pitchspeed, message.yawspeed])
        self._attitude = Attitude(self._stamp(message), aeronautical_to_ros(quaternion / length), rates)
        return [self._attitude]

    def _read_distance(self, message: Any, arrived_ns: int, armed: bool) -> list[Told]:
        if message.orientation != mavlink.MAV_SENSOR_ROTATION_PITCH_270:  # looks anywhere but down
            return []
        least_m, most_m = message.min_distance / 100.0, message.max_distance / 100.0
        height_m = message.current_distance / 100.0
        if not least_m <= height_m <= most_m or message.signal_quality == INVALID_SIGNAL:
            return []
        self._range_ns = arrived_ns
        return [Height(self._stamp(message), height_m, True, least_m, most_m)]

    def _read_altitude(self, message: Any, arrived_ns: int, armed: bool) -> list[Told]:
        # altitude_terrain is where the ground lies; how far below, the filter says only where it knows.
        height_m = float(message.bottom_clearance)
        if abs(arrived_ns - self._range_ns) < RECENT_NS or not math.isfinite(height_m) or height_m <= 0.0:
            return []
        self._clearance_ns = arrived_ns
        return [Height(self._clock.ours(message.time_usec * 1_000), height_m)]

    def _read_global_position(self, message: Any, arrived_ns: int, armed: bool) -> list[Told]:
        stamp_ns = self._stamp(message)
        told: list[Told] = []
        if message.lat or message.lon:  # both zero: the filter has no origin yet
            told.append(GlobalPosition(stamp_ns, message.lat / 1e7, message.lon / 1e7))
        heard = (self._range_ns, self._clearance_ns)
        if all(abs(arrived_ns - heard_ns) >= RECENT_NS for heard_ns in heard):  # above home is the last resort
            told.append(Height(stamp_ns, message.relative_alt / 1000.0, is_above_home=True))
        return told

    def _read_local_position(self, message: Any, arrived_ns: int, armed: bool) -> list[Told]:
        stamp_ns, attitude = self._stamp(message), self._attitude
        values = np.array([[message.x, message.y, message.z], [message.vx, message.vy, message.vz]], float)
        if attitude is None or abs(stamp_ns - attitude.stamp_ns) > RECENT_NS or not np.isfinite(values).all():
            return []
        position, velocity = ned_to_enu(values)
        if self._local is not None:
            before_ms, before = self._local
            seconds = (message.time_boot_ms - before_ms) / 1e3
            if abs(seconds) <= RECENT_NS / 1e9:
                position[:2] = before.position[:2] + (before.velocity + velocity)[:2] / 2.0 * seconds
        told = LocalPosition(stamp_ns, position, velocity, attitude.quaternion)
        self._local = (message.time_boot_ms, told)
        return [told]

    def _read_gnss(self, message: Any, arrived_ns: int, armed: bool) -> list[Told]:
        # Receivers count in their own way, since boot or since 1970: the arrival is the only common clock.
        sigma_m = message.h_acc / 1000.0 if message.h_acc else math.nan
        status = _STATUS.get(message.fix_type, -1)
        return [GnssFix(arrived_ns, message.lat / 1e7, message.lon / 1e7, message.alt / 1000.0, status, sigma_m)]

    def _read_landed(self, message: Any, arrived_ns: int, armed: bool) -> list[Told]:
        if message.landed_state == mavlink.MAV_LANDED_STATE_UNDEFINED and not armed:
            return []
        # Armed on the ground is about to fly: nobody learns then.
        return [Landed(message.landed_state == mavlink.MAV_LANDED_STATE_ON_GROUND and not armed)]

    def _read_origin(self, message: Any, arrived_ns: int, armed: bool) -> list[Told]:
        return [Origin(message.latitude / 1e7, message.longitude / 1e7)]
