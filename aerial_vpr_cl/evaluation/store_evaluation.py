"""A store on recorded flights: every frame through the tracker that flies, in time order, with what the drone knew."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from aerial_vpr_cl.evaluation.flight_score import FlightAnswers
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.localization.estimate import Estimate, Rejection
from aerial_vpr_cl.localization.localizer import Localizer, LocalizerSettings, SingleFrames
from aerial_vpr_cl.localization.open_tracker import open_tracker
from aerial_vpr_cl.localization.tracker import Tracker
from aerial_vpr_cl.localization.tracker_settings import TrackerSettings
from aerial_vpr_cl.mission.frames import Frame
from aerial_vpr_cl.mission.mission import Flight, read_flight
from aerial_vpr_cl.model.devices import pick_device
from aerial_vpr_cl.model.runtimes.names import AUTO
from aerial_vpr_cl.progress import Progress, silent


def evaluate_store(
    store: Path,
    bags: Sequence[Path],
    *,
    settings: TrackerSettings | None = None,
    alone: bool = False,
    device: str = "auto",
    runtime: str = AUTO,
    image_topic: str | None = None,
    fix_topic: str | None = None,
    progress: Progress = silent,
) -> tuple[int, list[FlightAnswers]]:
    """Number of the newest generation, and its answers to every bag; `alone`: the network's to every single frame."""
    localizer = Localizer.open(store, device=pick_device(device), runtime=runtime)
    assert localizer.generation is not None
    tracker: Tracker | SingleFrames = SingleFrames(localizer, LocalizerSettings(min_confidence=0.0))
    if not alone:
        tracker = open_tracker(store, settings, localizer=localizer, progress=progress)
    terrain, found = open_map(store).terrain, []
    for bag in bags:
        flight = read_flight(bag, tracker.grid, image_topic=image_topic, fix_topic=fix_topic, terrain=terrain)
        found.append(follow(tracker, flight, progress))
    return localizer.generation.number, found


Watch = Callable[[int, Frame, "Estimate | Rejection", float], object]
"""Hears of every frame: its number, the frame, the answer, and the seconds it took."""


def follow(
    tracker: Tracker | SingleFrames, flight: Flight, progress: Progress = silent, watch: Watch = lambda *_: None
) -> FlightAnswers:
    """Fly a recorded flight again, from a cold start."""
    tracker.reset()
    given = np.full((len(flight), 2), np.nan)
    covariances = np.full((len(flight), 2, 2), np.nan)
    reasons = []
    for row, frame in enumerate(flight.frames):
        start_s = time.perf_counter()
        answer = tracker.step(frame.stamp_ns, frame.decode(), frame.situation, frame.motion)
        watch(row, frame, answer, time.perf_counter() - start_s)
        if isinstance(answer, Estimate):
            given[row], covariances[row] = answer.position, answer.covariance
        reasons.append("" if isinstance(answer, Estimate) else answer.reason)
        progress(f"evaluating {flight.name}", row + 1, len(flight))
    return FlightAnswers(
        name=flight.name,
        modality=flight.modality,
        positions=flight.positions_from,
        stamps_ns=flight.stamps_ns,
        truth=flight.positions,
        given=given,
        covariances=covariances,
        reasons=tuple(reasons),
        refused=flight.refused,
        epsg=tracker.grid.epsg,
    )
