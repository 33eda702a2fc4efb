"""Missions as rosbag2 directories: the names other parts of the package import."""

from aerial_vpr_cl.mission.reading import Frame, Mission, mission_facts, read_mission
from aerial_vpr_cl.mission.writing import MODALITIES, TRUTH_TOPIC, MissionWriter

__all__ = ["MODALITIES", "TRUTH_TOPIC", "Frame", "Mission", "MissionWriter", "mission_facts", "read_mission"]
