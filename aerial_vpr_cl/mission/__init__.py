"""Missions as rosbag2 directories: reading, writing, splitting, GNSS gates."""
