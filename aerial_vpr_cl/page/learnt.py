"""What the learner did after the flights, as the page shows it: from the generations of a store."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.knowledge.draft import REPLAY_FILE
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.knowledge.report import MissionReport, Recalls
from aerial_vpr_cl.memory.buffer import Observation, ReplayBuffer
from aerial_vpr_cl.page.columns import number
from aerial_vpr_cl.page.runs import FlightRun, Moment

SAME_PLACE_M = 300.0
"""A remembered frame of the same time that lies farther off is another flight's: simulated clocks repeat."""


def generations_of(store: Path) -> list[dict[str, Any]]:
    """Each generation that is kept and learnt from a mission, oldest first, with what it was told to the operator."""
    kept = GenerationStore(store)
    reports = {number: kept.open(number).facts.report for number in kept.numbers()}
    # A report is written before its generation has a number.
    return [_row(replace(report, generation=number)) for number, report in reports.items() if report is not None]


def with_kept(store: Path, runs: Sequence[FlightRun]) -> list[FlightRun]:
    """The flights, with those of their frames marked that the newest generation remembers."""
    grid_hash = open_map(store).grid.hash
    path = GenerationStore(store).newest(grid_hash=grid_hash).path / REPLAY_FILE
    buffer = list(ReplayBuffer.load(path, grid_hash))
    return [marked(run, buffer) for run in runs]


def marked(run: FlightRun, remembered: Iterable[Observation]) -> FlightRun:
    """A flight with the frames marked that are remembered: of the same time, and not from elsewhere."""
    places = {kept.stamp_ns: kept.position for kept in remembered}
    return replace(run, kept=[row for row, moment in enumerate(run.moments) if _is_kept(moment, places)])


def _is_kept(moment: Moment, places: Mapping[int, NDArray[np.float64]]) -> bool:
    if moment.stamp_ns not in places:
        return False
    here = next((place for place in (moment.truth, moment.gnss, moment.position) if place is not None), None)
    return here is not None and math.dist(here, places[moment.stamp_ns]) <= SAME_PLACE_M


def _row(report: MissionReport) -> dict[str, Any]:
    return {
        "generation": report.generation,
        "mission": report.mission,
        "flown": report.frames + sum(report.refused.values()),
        "labels": report.labels,
        "refused": report.refused,
        "used": report.used,
        "kept": report.kept,
        "before": _shares(report.before),
        "after": _shares(report.after),
        "summary": report.summary(),
    }


def _shares(recalls: Recalls | None) -> dict[str, float | None]:
    recalls = recalls or Recalls(np.nan, np.nan, np.nan)
    return {
        "this flight": number(recalls.mission, 3),
        "earlier flights": number(recalls.replay, 3),
        "the map": number(recalls.exemplars, 3),
    }
