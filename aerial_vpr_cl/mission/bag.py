"""Missions as rosbag2 directories: the names other parts of the package import."""

from aerial_vpr_cl.mission.writing import TRUTH_TOPIC, MissionWriter

__all__ = ["TRUTH_TOPIC", "MissionWriter"]
