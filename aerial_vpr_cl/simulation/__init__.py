"""A world to fly over without a drone."""
