"""What metadata.yaml and the metadata records of an MCAP file say about a bag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

MISSION_RECORD = "aerial_vpr_cl"
"""Name of the MCAP metadata record at the start of the file; its entries are those of custom_data in metadata.yaml."""
NAME_KEY = "mission_name"
MODALITY_KEY = "mission_modality"
SENSORS_KEY = "mission_sensors"
"""Settings of the drone's sensors that no topic tells, as JSON."""
GATES_KEY = "mission_gnss_gates"
"""The GNSS gates that the mission was recorded with, as JSON."""

# Version 8 is read by Humble, Iron and Jazzy alike; version 9 writes QoS in a way only Jazzy understands.
METADATA_VERSION = 8
_INFINITE = {"sec": 9223372036, "nsec": 854775807}


@dataclass
class RecordedTopic:
    """A topic of a bag that is being written."""

    name: str
    message_type: str
    channel: int
    qos: str
    type_hash: str
    count: int = 0


def bag_information(
    file_name: str, topics: Sequence[RecordedTopic], span_ns: tuple[int, int], facts: Mapping[str, str]
) -> dict[str, Any]:
    """The rosbag2_bagfile_information of a bag with one MCAP file; `span_ns` are the first and last time in it."""
    span = {
        "starting_time": {"nanoseconds_since_epoch": span_ns[0]},
        "duration": {"nanoseconds": span_ns[1] - span_ns[0]},
        "message_count": sum(topic.count for topic in topics),
    }
    return {
        "version": METADATA_VERSION,
        "storage_identifier": "mcap",
        **span,
        "topics_with_message_count": [
            {
                "topic_metadata": {
                    "name": topic.name,
                    "type": topic.message_type,
                    "serialization_format": "cdr",
                    "offered_qos_profiles": topic.qos,
                    "type_description_hash": topic.type_hash,
                },
                "message_count": topic.count,
            }
            for topic in topics
        ],
        "compression_format": "",
        "compression_mode": "",
        "relative_file_paths": [file_name],
        "files": [{"path": file_name, **span}],
        "custom_data": dict(facts),
        "ros_distro": "jazzy",
    }


def qos_profiles(*, best_effort: bool) -> str:
    """Sensor data for images, reliable for the rest, in the numbers of rmw/types.h: a bag plays as it was flown."""
    profile = {
        "history": 1,  # keep last
        "depth": 5 if best_effort else 10,
        "reliability": 2 if best_effort else 1,
        "durability": 2,  # volatile
        "deadline": _INFINITE,
        "lifespan": _INFINITE,
        "liveliness": 1,  # automatic
        "liveliness_lease_duration": _INFINITE,
        "avoid_ros_namespace_conventions": False,
    }
    return dump_yaml([profile]).strip()


def clean_text(text: str) -> str:
    """Text that can be written anywhere: file names and YAML may hold half a character, which nothing else takes."""
    return text.encode(errors="replace").decode()


def dump_yaml(value: Any) -> str:
    """YAML in the order given, without anchors, which not every reader resolves."""
    return yaml.dump(value, Dumper=_PlainDumper, sort_keys=False, allow_unicode=True)


class _PlainDumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True
