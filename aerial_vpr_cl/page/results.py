"""Result files beside the flights: what `evaluate` and `replay` wrote with --json, and records of a benchmark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.evaluation.score_tables import answers_of_values, text_of
from aerial_vpr_cl.page.answered import run_of
from aerial_vpr_cl.page.runs import FlightRun, Result

RESULT_SUFFIX = ".json"


def read_results(path: Path, epsg: int) -> tuple[list[FlightRun], list[Result]]:
    """Flights whose positions are over this map, and results that can be compared without one."""
    try:
        values = json.loads(path.read_text())
        if "matrix" in values:
            return [], [_of_benchmark(values)]
        return [_of_flight(flight, epsg, path) for flight in values["missions"]], []
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MissionError(
            f"{path}: no result that can be shown ({error!r}); give what evaluate --json, replay --json or a benchmark "
            "of this version wrote"
        ) from None


def _of_flight(values: Mapping[str, Any], epsg: int, path: Path) -> FlightRun:
    if values["epsg"] != epsg:
        raise MissionError(f"{path}: is in EPSG:{values['epsg']}, the map in EPSG:{epsg}: it was flown elsewhere")
    return replace(run_of(answers_of_values(values)), name=f"{values['name']}, {path.name}")


def _of_benchmark(record: Mapping[str, Any]) -> Result:
    """Method, order and seed, the paper's figures, the errors of the last network and the matrix R."""
    run, summary = record["run"], record["summary"]
    budget = f", B {run['budget']}" if run["budget"] else ""
    percent = {
        "C1": summary["c1"],
        "FAA": summary["faa"],
        "BWT": summary["bwt"],
        "FWT": summary["fwt"],
    }
    errors = [error for mission in record["final"].values() for error in mission["errors_m"]]
    return Result(
        name=f"{run['method']}, {run['order']}{budget}, seed {run['seed']}",
        figures={"frames": str(len(errors)), **{name: text_of(value, ".1%") for name, value in percent.items()}},
        errors_m=[error for error in errors if error is not None],
        frames=len(errors),
        missions=record["missions"],
        matrix=record["matrix"][f"{record['threshold_m']:g}"],
    )
