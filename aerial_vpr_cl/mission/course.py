"""Heading from the course over ground, for learning from flights whose attitude was not recorded.

Never in flight: it needs positions to be trusted, and what flies by them would not need to be told where it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from aerial_vpr_cl.geo.rotation import bearing_of, from_angles, heading_of, turned
from aerial_vpr_cl.mission.frames import Frame
from aerial_vpr_cl.mission.mission import Mission

CRAB_DEG = 10.0
"""A drone does not point where it goes: 3 m/s of wind from the side at 15 m/s make 11°."""
SLOWEST_MPS = 3.0
"""Below it a multirotor points anywhere."""
LONGEST_S = 10.0
SHARPEST_DEG = 60.0
"""Where the course turns by more between the frames before and after, the heading at the frame is anyone's guess."""


def with_course_heading(mission: Mission) -> Mission:
    """The mission with a heading for frames that have none, where their positions tell one, with its sigma."""
    frames = mission.frames
    headed = [frame if frame.situation.heading_known else _headed(frames, row) for row, frame in enumerate(frames)]
    return replace(mission, frames=tuple(headed))


def _headed(frames: Sequence[Frame], row: int) -> Frame:
    """A frame with the course that its neighbours tell best: near ones of a turn, far ones where positions err."""
    frame, best = frames[row], None
    for reach in range(1, len(frames)):
        before = frames[row - reach] if row >= reach else None
        after = frames[row + reach] if row + reach < len(frames) else None
        found = _course(before, frame, after)
        if found is None:
            break
        best = min(best or found, found, key=lambda course: course[1])
    if best is None:
        return frame
    heading_deg, sigma_deg = best
    situation = frame.situation
    rotation = situation.rotation
    headed = from_angles(heading_deg) if rotation is None else turned(rotation, heading_deg - heading_of(rotation))
    return replace(frame, situation=replace(situation, rotation=headed, heading_sigma_deg=sigma_deg))


def _course(before: Frame | None, frame: Frame, after: Frame | None) -> tuple[float, float] | None:
    """Heading and sigma in degrees from the ways to and from a frame; None where these tell none."""
    legs = [leg for leg in (_leg(before, frame), _leg(frame, after)) if leg is not None]
    if not legs:
        return None
    (first, _), (last, _) = legs[0], legs[-1]
    turn_deg = (last - first + 180.0) % 360.0 - 180.0
    if abs(turn_deg) > SHARPEST_DEG:
        return None
    sigmas_m = sorted(other.position_sigma_m for other in (before, frame, after) if other is not None)[-2:]
    noise_deg = math.degrees(math.atan2(math.hypot(*sigmas_m), sum(length_m for _, length_m in legs)))
    # Of one leg alone nobody knows how it would have gone on.
    turning_deg = abs(turn_deg) / 2.0 if len(legs) > 1 else CRAB_DEG
    return (first + turn_deg / 2.0) % 360.0, math.hypot(CRAB_DEG, noise_deg, turning_deg)


def _leg(start: Frame | None, end: Frame | None) -> tuple[float, float] | None:
    """Bearing and length of the way between two frames; none if it is too slow or too long ago."""
    if start is None or end is None:
        return None
    way = end.position - start.position
    seconds, length_m = (end.stamp_ns - start.stamp_ns) / 1e9, math.hypot(*way)
    if not (0.0 < seconds <= LONGEST_S and length_m >= SLOWEST_MPS * seconds):  # NaN is not a way either
        return None
    return bearing_of(way), length_m
