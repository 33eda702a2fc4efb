"""A mission as it is learnt: its frames with positions that can be believed, and where those come from."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

import numpy as np

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.geo.grid import NO_CLASS
from aerial_vpr_cl.geo.view_kind import AS_SEEN
from aerial_vpr_cl.knowledge.knowledge import Knowledge
from aerial_vpr_cl.learning.adapt_settings import AdaptSettings
from aerial_vpr_cl.learning.labels import GNSS, REASONS, TRACK, Label, Step, label_flight
from aerial_vpr_cl.learning.seen_elsewhere import shift_seen_m
from aerial_vpr_cl.localization.estimate import Estimate
from aerial_vpr_cl.localization.localizer import Localizer, LocalizerSettings, SingleFrames
from aerial_vpr_cl.localization.open_tracker import proposing, tracker_over
from aerial_vpr_cl.localization.tracker import Tracker
from aerial_vpr_cl.mission.course import with_course_heading
from aerial_vpr_cl.mission.frames import Frame
from aerial_vpr_cl.mission.gnss import OUTSIDE_MAP
from aerial_vpr_cl.mission.gnss import REASONS as GNSS_REASONS
from aerial_vpr_cl.mission.mission import Flight, Mission, gates_of, read_flight, read_mission, situations_at
from aerial_vpr_cl.progress import Progress, silent

log = logging.getLogger(__name__)

WORDS = {**GNSS_REASONS, **REASONS}


LEAST_PROVEN = 0.1
"""Share of a flight's frames over the map below which it waits for a network that proves more: what is learnt is
deleted."""


def read_whole(path: Path, known: Knowledge, settings: AdaptSettings) -> Flight:
    """All frames of a bag, whether they can be learnt from or not."""
    return read_flight(path, known.map.grid, terrain=known.map.terrain, **_topics(settings))


def labelled(
    flight: Flight, known: Knowledge, settings: AdaptSettings, progress: Progress = silent
) -> tuple[Mission, dict[str, int]]:
    """The frames of a flight that can be learnt from, and how many positions come from where.

    MissionError if there are none or next to none, with what was missing.
    """
    grid, terrain = known.map.grid, known.map.terrain
    # Frames as seen may come from a drone that has nothing but camera and GNSS: no track is proven then.
    has_track = known.map.settings.view != AS_SEEN or can_be_followed(flight)
    if settings.labels == TRACK or (settings.labels != GNSS and has_track):
        return _proven(flight, known, settings, progress)
    mission = read_mission(flight.path, grid, terrain=terrain, **_topics(settings))
    if settings.labels != GNSS:
        _refuse_if_seen_elsewhere(mission, known, progress)
    return with_course_heading(mission), {GNSS: len(mission)}


def can_be_followed(flight: Flight) -> bool:
    """Whether any frame can be laid on the map by what was recorded; then GNSS has to prove itself.

    Tilt and height are enough: headings can be tried. Instruments that failed in flight never make a false GNSS
    credible: what they no longer prove is left out.
    """
    situations = [frame.situation for frame in flight.frames]
    return any(known.rotation is not None and known.height_m is not None for known in situations)


def _proven(
    flight: Flight, known: Knowledge, settings: AdaptSettings, progress: Progress
) -> tuple[Mission, dict[str, int]]:
    """The frames whose position the flight itself proves."""
    grid = known.map.grid
    labels = label_flight(flight, grid, _trackers(known, progress), settings, gates_of(flight.path), progress)
    refused, sources, frames = Counter(flight.refused) + Counter(labels.left_out), Counter[str](), []
    for frame, label in zip(flight.frames, labels.labels):
        if not isinstance(label, Label):
            continue
        if grid.class_of([label.position])[0] == NO_CLASS:
            refused[OUTSIDE_MAP] += 1
            continue
        sources[label.source] += 1
        frames.append(replace(frame, position=label.position, position_sigma_m=label.sigma_m))
    over_map = len(flight.frames) - refused[OUTSIDE_MAP]
    if len(frames) < max(1.0, LEAST_PROVEN * over_map):
        found = f"only {len(frames)} of {over_map} frames have" if frames else "no frame has"
        words = ", ".join(f"{count} {reason} ({WORDS.get(reason, reason)})" for reason, count in refused.items())
        raise MissionError(f"{flight.path}: {found} a position that is proven: {words}; nothing is learnt from it")
    log.info("%s: positions from %s", flight.name, dict(sources))
    if known.map.terrain is not None:
        frames = _over_the_ground(flight, frames, known, settings)
    told = tuple(frames), dict(refused)
    placed = Mission(flight.path, flight.name, flight.modality, *told, begins_ns=flight.begins_ns)
    return with_course_heading(placed), dict(sources)


class _Topics(TypedDict):
    """Found by type where they are not named."""

    image_topic: str | None
    fix_topic: str | None


def _topics(settings: AdaptSettings) -> _Topics:
    return {"image_topic": settings.image_topic or None, "fix_topic": settings.fix_topic or None}


def _over_the_ground(flight: Flight, frames: list[Frame], known: Knowledge, settings: AdaptSettings) -> list[Frame]:
    """The same frames with heights above the ground beneath them, which was not known before they had a position."""
    positions = {frame.stamp_ns: frame.position for frame in frames}
    situations = situations_at(flight.path, known.map.grid, positions, terrain=known.map.terrain, **_topics(settings))
    return [replace(frame, situation=situations[frame.stamp_ns]) for frame in frames]


def _refuse_if_seen_elsewhere(mission: Mission, known: Knowledge, progress: Progress) -> None:
    """MissionError if the network saw the flight elsewhere: what nobody can prove may still be contradicted."""
    network = SingleFrames(Localizer(known.network, known.generation), LocalizerSettings(min_confidence=0.0))
    seen = np.full((len(mission), 2), np.nan)
    for row, frame in enumerate(mission.frames):
        answer = network.step(frame.stamp_ns, frame.decode(), frame.situation)
        seen[row] = answer.position if isinstance(answer, Estimate) else np.nan
        progress("look", row + 1, len(mission))
    shift = shift_seen_m(mission.positions, seen, known.map.grid.cell_side_m)
    if shift is not None:
        raise MissionError(
            f"{mission.path}: the camera saw other ground than GNSS says, about {np.hypot(*shift):.0f} m away; nothing "
            "is learnt from it (labels: gnss takes GNSS at its word)"
        )


def _trackers(known: Knowledge, progress: Progress) -> Callable[[], Step]:
    """One tracker, as it flies, begun anew for every way it is given."""
    localizer = Localizer(known.network, known.generation, footprint_m=known.map.settings.footprint_m)
    tracker: Tracker = tracker_over(known.map, propose=proposing(localizer), progress=progress)

    def begin() -> Step:
        tracker.reset()
        return lambda frame, now_ns, motion: tracker.step(now_ns, frame.decode(), frame.situation, motion)

    return begin
