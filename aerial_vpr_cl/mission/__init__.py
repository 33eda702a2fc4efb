"""Missions as rosbag2 directories: bags read and written, flights recorded and played back, GNSS gates."""
