"""Scores of flights as a table, and as values for other programs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.evaluation.flight_score import FlightAnswers, FlightScore, score
from aerial_vpr_cl.terminal import table

COLUMNS = {
    "frames": lambda found: f"{found.frames}",
    "placed": lambda found: f"{found.published}",
    "from": lambda found: text_of(found.first_fix_frame, ".0f"),
    "available": lambda found: text_of(found.availability, ".1%"),
    "all ≤ 50 m": lambda found: text_of(found.recall["50"], ".1%"),
    "all ≤ 300 m": lambda found: text_of(found.recall["300"], ".1%"),
    "≤ 25 m": lambda found: text_of(found.published_recall["25"], ".1%"),
    "≤ 50 m": lambda found: text_of(found.published_recall["50"], ".1%"),
    "> 100 m": lambda found: text_of(found.wrong_100m, ".2%"),
    "median": lambda found: text_of(found.median_m, ".0f", " m"),
    "95 % hold": lambda found: text_of(found.coverage["95"], ".0%"),
    "NEES": lambda found: text_of(found.nees, ".1f"),
}
"""Frames, those with a position, the first of them, how many from then on have one; how near, of all and of these;
how honest."""
BRIEF = ("frames", "placed", "from", "≤ 25 m", "≤ 50 m", "> 100 m", "median")


def scores_of(flights: Sequence[FlightAnswers]) -> dict[str, FlightScore]:
    """Of every flight, of all frames, and of each modality where there are several."""
    found: dict[str, FlightScore] = {}
    for flight in flights:
        again = sum(name == flight.name or name.startswith(f"{flight.name} (") for name in found)
        found[f"{flight.name} ({again + 1})" if again else flight.name] = score([flight])
    found["all frames"] = score(flights)
    for kind in sorted({flight.modality for flight in flights}, reverse=True):
        found[kind] = score([flight for flight in flights if flight.modality == kind])
    return found


def score_table(scores: Mapping[str, FlightScore], columns: Sequence[str] = tuple(COLUMNS)) -> str:
    """A row each, for a terminal."""
    rows = [[name, *(COLUMNS[column](found) for column in columns)] for name, found in scores.items()]
    return table(["flight", *columns], rows)


def flight_values(flight: FlightAnswers) -> dict[str, Any]:
    """A flight and its score as plain values: every answer, and errors and stamps of the frames that got a position."""
    judged = np.isfinite(flight.errors_m)
    return {
        "name": flight.name,
        "modality": flight.modality,
        "positions": flight.positions,
        **score([flight]).to_dict(),
        "stamps_ns": flight.stamps_ns[judged].tolist(),
        "errors_m": flight.errors_m[judged].round(2).tolist(),
        "refused": flight.refused,
        "epsg": flight.epsg,
        "answers": {
            "stamps_ns": flight.stamps_ns.tolist(),
            "truth": _rounded(flight.truth),
            "given": _rounded(flight.given),
            "covariances": _rounded(flight.covariances.reshape(-1, 4)),
            "reasons": list(flight.reasons),
        },
    }


def answers_of_values(values: Mapping[str, Any]) -> FlightAnswers:
    """The flight that `flight_values` wrote; KeyError or ValueError for what another program did."""
    answers = values["answers"]
    count = len(answers["stamps_ns"])
    return FlightAnswers(
        name=values["name"],
        modality=values["modality"],
        positions=values["positions"],
        stamps_ns=np.array(answers["stamps_ns"], np.int64),
        truth=_array(answers["truth"], count, 2),
        given=_array(answers["given"], count, 2),
        covariances=_array(answers["covariances"], count, 4).reshape(-1, 2, 2),
        reasons=tuple(answers["reasons"]),
        refused=dict(values["refused"]),
        epsg=values["epsg"],
    )


def _rounded(rows: NDArray[np.float64]) -> list[list[float] | None]:
    """To centimetres; None for a row that is not known."""
    return [row.round(2).tolist() if np.isfinite(row).all() else None for row in rows]


def _array(rows: Sequence[Sequence[float] | None], count: int, width: int) -> NDArray[np.float64]:
    unknown = [math.nan] * width
    return np.array([unknown if row is None else row for row in rows], np.float64).reshape(count, width)


def text_of(value: float | None, form: str, unit: str = "") -> str:
    """A figure in words; a dash for what was not measured."""
    return "–" if value is None or math.isnan(value) else f"{value:{form}}{unit}"
