"""Parameters of the learner node that belong to ROS; the others come from the library's own settings."""

from __future__ import annotations

from dataclasses import dataclass

from aerial_vpr_cl.settings import setting


@dataclass(frozen=True)
class LearnerSettings:
    """What the learner is connected to, and when it refuses."""

    store: str = setting("", "directory of the store: map, generations, missions; made by aerial-vpr build-map")
    autostart: bool = setting(True, "configure and activate without being asked; false: wait for a lifecycle manager")
    flying_speed_mps: float = setting(2.0, "GNSS speed above which the drone counts as flying, in m/s", low=0.1)
    allow_while_flying: bool = setting(
        False, "learn even if the drone seems to fly (on the desk, when bags are played)"
    )
