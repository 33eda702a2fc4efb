"""The record of a run: one JSON file with everything tables and figures are made from.

The same seed gives the same record to the byte, but for what stands under "timing".
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from aerial_vpr_cl.benchmark.protocol import Answers, Course, FlownMission, Trajectory, errors_of
from aerial_vpr_cl.benchmark.settings import Run
from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.evaluation.flight_score import score
from aerial_vpr_cl.evaluation.metrics import accuracy_matrix, recall_at, summarize_by_modality, summarize_run
from aerial_vpr_cl.files import replace_file
from aerial_vpr_cl.learning.method_options import parse_method
from aerial_vpr_cl.learning.methods import method_of
from aerial_vpr_cl.memory.buffer import ReplayBuffer

FORMAT = 1
THRESHOLDS_M = (50.0, 100.0, 200.0, 300.0)
PROPOSALS = (1, 5, 20)

Record = dict[str, Any]
Records = Mapping[Run, Record]


def record_of(
    trajectory: Trajectory, course: Course, buffer: ReplayBuffer, *, threshold_m: float, digest: str
) -> Record:
    """Everything about a run but its timing and the comparison with retrieval."""
    names, held_out = trajectory.missions, tuple(mission.name for mission in course.held_out)
    missions = {mission.name: mission for mission in course.missions}
    errors = [[answers[name].errors_m for name in names] for answers in trajectory.answers]
    thresholds = sorted({*THRESHOLDS_M, threshold_m})
    counts = [len(missions[name].test) for name in names]
    final = trajectory.answers[-1]
    return {
        "format": FORMAT,
        "digest": digest,
        "run": asdict(trajectory.run),
        "options": asdict(parse_method(trajectory.run.method)[1]),
        "threshold_m": threshold_m,
        "missions": list(names),
        "held_out": list(held_out),
        "facts": {name: _facts(mission) for name, mission in missions.items()},
        "matrix": {f"{limit:g}": accuracy_matrix(errors, limit).tolist() for limit in thresholds},
        "held_out_recall": {
            f"{limit:g}": [recall_at(errors_of(answers, held_out), limit) for answers in trajectory.answers]
            for limit in thresholds
        },
        "summary": asdict(
            summarize_run(
                accuracy_matrix(errors, threshold_m), counts, errors_of(final, held_out), threshold_m=threshold_m
            )
        ),
        "localization": {
            "sequence": _localization(final, names, missions),
            "held_out": _localization(final, held_out, missions),
        },
        "told": {
            moment: {"sequence": _told(answers, names), "held_out": _told(answers, held_out)}
            for moment, answers in (("base", trajectory.answers[0]), ("final", final))
        },
        "proposed": {
            moment: {"sequence": _proposed(answers, names), "held_out": _proposed(answers, held_out)}
            for moment, answers in (("base", trajectory.answers[0]), ("final", final))
        },
        "proposed_of": {
            moment: {name: _proposed(answers, (name,)) for name in (*names, *held_out)}
            for moment, answers in (("base", trajectory.answers[0]), ("final", final))
        },
        "base": _by_frame(trajectory.answers[0]),
        "final": _by_frame(final),
        "buffer": {
            "sizes": [len(group) for group in buffer.groups],
            "bytes": buffer.n_bytes,
            "kept": {name: _kept(buffer, missions[name]) for name in names},
        },
        "steps": trajectory.steps,
        "losses": trajectory.losses,
    }


def write_record(path: Path, record: Record) -> None:
    """Write a record whole or not at all."""
    replace_file(path, (json.dumps(_plain(record), sort_keys=True, separators=(",", ":")) + "\n").encode())


def read_records(folder: Path) -> dict[Run, Record]:
    """All records in a folder, by their runs; figures that could not be measured are NaN again."""
    found = {}
    for path in sorted(folder.glob("[!.]*.json")):
        try:
            record = json.loads(path.read_text())
            if record["format"] != FORMAT:
                raise SettingsError(f"{path}: has format {record['format']}, this software reads {FORMAT}")
            found[Run(**record["run"])] = _numbers(record)
        except (ValueError, KeyError, TypeError) as error:
            raise SettingsError(f"{path}: is no record of a run ({error!r}); delete it to repeat the run") from None
    return found


def by_method(records: Records, order: str, budget: int, pick: Callable[[Record], Any]) -> dict[str, list[Any]]:
    """What is picked from the records of an order and a budget, by method, one a seed; those without a buffer too."""
    found: dict[str, list[Any]] = {}
    for run, record in records.items():
        if run.order == order and run.budget == (budget if method_of(run.method).strategy else 0):
            found.setdefault(run.method, []).append(pick(record))
    return found


def _facts(mission: FlownMission) -> dict[str, Any]:
    return {
        "modality": mission.modality,
        "train": len(mission.train),
        "test": len(mission.test),
        "shared_cells": mission.shared_cells if mission.train else math.nan,
    }


def _localization(
    answers: dict[str, Answers], names: tuple[str, ...], missions: dict[str, FlownMission]
) -> dict[str, Any]:
    modalities = [missions[name].modality for name in names for _ in missions[name].test]
    return {kind: asdict(part) for kind, part in summarize_by_modality(errors_of(answers, names), modalities).items()}


def _told(answers: dict[str, Answers], names: tuple[str, ...]) -> dict[str, Any]:
    """What drones would have been told on these missions: how much, how near, how honest, and why not."""
    flown = [answers[name].flown for name in names]
    return score(flown).to_dict() if flown else {}


def _proposed(answers: dict[str, Answers], names: tuple[str, ...]) -> dict[str, float]:
    """Share of the frames whose own cell is among the first so many: where registration would have to look."""
    ranks = np.concatenate([np.empty(0), *[answers[name].ranks for name in names]])
    return {str(count): float((ranks <= count).mean()) if len(ranks) else math.nan for count in PROPOSALS}


def _by_frame(answers: dict[str, Answers]) -> dict[str, Any]:
    """Every single answer, by mission."""
    return {
        name: {"classes": own.classes.tolist(), "errors_m": [round(float(error), 2) for error in own.errors_m]}
        for name, own in answers.items()
    }


def _kept(buffer: ReplayBuffer, mission: FlownMission) -> list[int]:
    """Which training frames of a mission are in the buffer, by number."""
    stamps = {observation.stamp_ns for observation in buffer if observation.mission == mission.name}
    return [row for row, observation in enumerate(mission.train) if observation.stamp_ns in stamps]


def _plain(value: Any) -> Any:
    """JSON knows neither NaN nor infinity."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _numbers(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_numbers(part) for part in value]
    return math.nan if value is None else value
