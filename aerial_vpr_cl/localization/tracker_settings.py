"""Settings of the tracker, for YAML, command line and node alike."""

from __future__ import annotations

from dataclasses import dataclass

from aerial_vpr_cl.settings import setting


@dataclass(frozen=True)
class TrackerSettings:
    """What is believed, how it moves, and what it takes to publish it."""

    use_network: bool = setting(True, "let the network propose cells")
    use_registration: bool = setting(True, "lay the view on the map itself")
    use_perspective: bool = setting(True, "read the error of the stated tilt off the perspective it leaves in the view")
    use_belief: bool = setting(True, "remember; false: every frame is answered alone")
    min_confidence: float = setting(
        0.99, "least share of the belief in one place for a position to be published", low=0.5, high=1.0
    )
    max_radius_m: float = setting(
        0.0,
        "largest 95 % radius that is published, in metres; 0: 150 m, or two cells where there is no registration",
        low=0.0,
    )
    confirmations: int = setting(
        2,
        "frames in a row that must agree before the first position; those that "
        "show the same ground and prove nothing by themselves count less",
        low=1,
        high=100,
    )
    surprises: int = setting(
        1, "frames in a row that do not fit before positions are withheld and all is searched", low=1, high=100
    )
    lost_after: int = setting(
        4, "unsure frames in a row, for two seconds at least, before the track is given up", low=1, high=1000
    )
    leak: float = setting(
        1e-4,
        "share of the belief that may be anywhere after every frame, or every second if frames come faster",
        low=0.0,
        high=0.5,
    )
    off_map: float = setting(0.1, "probability of being off the map when nothing is known", low=0.0, high=1.0)
    network_trust: float = setting(
        0.5, "share of views of which the network is thought to know anything", low=0.0, high=1.0
    )
    top_cells: int = setting(20, "cells of the network that are looked at when the whole map is too large", low=1)
    search_km2: float = setting(100.0, "largest map that is searched whole whenever the drone is lost, in km²", low=0.0)
    lattice_m: float = setting(0.0, "side of a cell of the belief in metres; 0: 10 to 25 by the map's size", low=0.0)
    odometry_noise: float = setting(0.05, "error of odometry (σ) as a share of the way", low=0.0, high=1.0)
    odometry_lasting_m: float = setting(100.0, "how far an error of odometry keeps its sign, in metres", low=0.0)
    max_speed_m_s: float = setting(25.0, "fastest flight, for drones without odometry", low=0.1)
    attitude_lasting_s: float = setting(
        10.0, "how long the slow half of an attitude's error keeps its sign, in seconds", low=0.0
    )
    map_accuracy_m: float = setting(3.0, "error (σ) of the map itself, per axis, in metres", low=0.0)
    max_gap_s: float = setting(
        60.0, "longest time without frames, in seconds, after which the track is still followed", low=0.1
    )
