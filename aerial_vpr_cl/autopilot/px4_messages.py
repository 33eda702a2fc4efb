"""Positions as PX4 takes them over uXRCE-DDS: a message of the ROS package px4_msgs, of the release that flies."""

from __future__ import annotations

import importlib
import math
from typing import Any

from aerial_vpr_cl.autopilot.answers import Position
from aerial_vpr_cl.errors import SettingsError

SOURCE_VISION = 2
"""As in MAVLink's GLOBAL_POSITION_SRC."""


def position_type() -> type:
    """The message of the installed px4_msgs: AuxGlobalPosition, or VehicleGlobalPosition of releases before 1.18."""
    try:
        messages = importlib.import_module("px4_msgs.msg")
    except ImportError as error:
        raise SettingsError(
            f"output aux_global_position needs the ROS package px4_msgs of your PX4 release ({error}): build it, "
            "source its workspace and start again, or use output global_position_sensor over the MAVLink cable"
        ) from error
    found: type = getattr(messages, "AuxGlobalPosition", None) or messages.VehicleGlobalPosition
    return found


def topic_of(message_type: type) -> str:
    """Where PX4 listens: versions of a message after the first have their number in the name."""
    version = int(getattr(message_type, "MESSAGE_VERSION", 0))
    return "fmu/in/aux_global_position" + (f"_v{version}" if version else "")


def position_values(position: Position, sensor_id: int, now_ns: int) -> dict[str, Any]:
    """Fields of both messages, by name. Times are this computer's: PX4's client takes the difference off itself.

    The altitude is not ours to tell, and the reset counter stays as it is: a changed one asks for a reset.
    """
    return {
        "timestamp": now_ns // 1_000,
        "timestamp_sample": position.stamp_ns // 1_000,
        "id": sensor_id,
        "source": SOURCE_VISION,
        "lat": position.latitude,
        "lon": position.longitude,
        "lat_lon_valid": True,
        "alt": math.nan,
        "alt_ellipsoid": math.nan,
        "alt_valid": False,
        "eph": position.sigma_m,
        "epv": math.nan,
        "lat_lon_reset_counter": 0,
    }


def position_message(message_type: Any, position: Position, sensor_id: int, now_ns: int) -> Any:
    """A position as a message of the given type."""
    fields = message_type.get_fields_and_field_types()
    values = position_values(position, sensor_id, now_ns)
    return message_type(**{name: value for name, value in values.items() if name in fields})
