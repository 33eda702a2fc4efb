"""Positions as PX4 takes them over uXRCE-DDS, in messages of two generations of releases."""

import importlib.util
import math
from dataclasses import fields, make_dataclass

import numpy as np
import pytest

from aerial_vpr_cl.autopilot.answers import Position
from aerial_vpr_cl.autopilot.px4_messages import position_message, position_type, position_values, topic_of
from aerial_vpr_cl.errors import SettingsError

NOW_NS = 1_800_000_000_500_000_000
POSITION = Position(1_800_000_000_400_000_000, 47.0, -99.0, np.diag([25.0, 16.0]))
COMMON = ("timestamp", "timestamp_sample", "lat", "lon", "alt", "eph", "epv", "lat_lon_reset_counter")
FROM_1_18 = (*COMMON, "id", "source")
FROM_1_16 = (*COMMON, "alt_ellipsoid", "lat_lon_valid", "alt_valid", "terrain_alt", "dead_reckoning")
TO_1_15 = (*COMMON, "alt_ellipsoid", "terrain_alt", "dead_reckoning")


def message(names, version=None):
    """A class with the names that the release's definition has, as rosidl makes one."""
    made = make_dataclass("Message", [(name, object, 0) for name in names])
    made.get_fields_and_field_types = classmethod(lambda cls: {field.name: "" for field in fields(cls)})
    if version is not None:
        made.MESSAGE_VERSION = version
    return made


@pytest.mark.parametrize("names", [FROM_1_18, FROM_1_16, TO_1_15], ids=["1.18", "1.16", "1.15"])
def test_every_release_is_told_place_time_and_accuracy(names):
    told = position_message(message(names), POSITION, 7, NOW_NS)
    assert (told.lat, told.lon, told.eph) == (47.0, -99.0, 5.0)
    assert (told.timestamp, told.timestamp_sample) == (1_800_000_000_500_000, 1_800_000_000_400_000)
    assert math.isnan(told.alt) and math.isnan(told.epv)
    assert getattr(told, "id", 7) == 7 and getattr(told, "lat_lon_valid", True) is True


def test_no_position_ever_asks_for_a_reset():
    later = Position(NOW_NS, 48.0, -98.0, np.eye(2))
    assert position_values(POSITION, 1, NOW_NS)["lat_lon_reset_counter"] == 0
    assert position_values(later, 1, NOW_NS)["lat_lon_reset_counter"] == 0


def test_the_topic_is_that_of_the_messages_version():
    assert topic_of(message(FROM_1_18, 1)) == "fmu/in/aux_global_position_v1"
    assert topic_of(message(FROM_1_16, 0)) == "fmu/in/aux_global_position"
    assert topic_of(message(TO_1_15)) == "fmu/in/aux_global_position"


@pytest.mark.skipif(importlib.util.find_spec("px4_msgs") is not None, reason="px4_msgs is installed")
def test_without_the_messages_an_engineer_reads_what_to_install():
    with pytest.raises(SettingsError, match="px4_msgs"):
        position_type()


@pytest.mark.skipif(importlib.util.find_spec("px4_msgs") is None, reason="px4_msgs is not installed")
def test_the_message_that_is_installed_takes_the_values():
    from rclpy.serialization import deserialize_message, serialize_message

    kind = position_type()
    told = deserialize_message(serialize_message(position_message(kind, POSITION, 7, NOW_NS)), kind)
    assert (told.lat, told.lon, told.eph, told.timestamp_sample) == (47.0, -99.0, 5.0, 1_800_000_000_400_000)
