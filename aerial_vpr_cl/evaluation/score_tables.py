"""Scores of flights as a table, and as values for other programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aerial_vpr_cl.evaluation.flight_score import FlightAnswers, FlightScore, score
from aerial_vpr_cl.evaluation.metrics import mean_std
from aerial_vpr_cl.evaluation.tables import Column, Panel, Table, markdown

COLUMNS = (
    Column("frames", "frames", "", "", 0),
    Column("availability", "with a position, from the first on", unit="%", digits=1),
    Column("first", "first", "lower", "", 0),
    *(Column(f"within_{metres}", f"≤ {metres} m", digits=1, group="of all frames: within") for metres in (25, 50, 300)),
    *(Column(f"given_{metres}", f"≤ {metres} m", digits=1, group="of positions: within") for metres in (25, 50)),
    Column("wrong_100m", "wrong > 100 m", "lower", digits=2),
    Column("median_m", "median", "lower", "m", 0),
    Column("covered_95", "95 % region holds", "", digits=0),
    Column("nees", "NEES (2)", "", "", 1),
)


def scores_of(flights: Sequence[FlightAnswers]) -> dict[str, FlightScore]:
    """Of every flight, of all frames, and of each modality where there are several."""
    found = {flight.name: score([flight]) for flight in flights}
    found["all frames"] = score(flights)
    for kind in sorted({flight.modality for flight in flights}, reverse=True):
        found[kind] = score([flight for flight in flights if flight.modality == kind])
    return found


def score_table(scores: Mapping[str, FlightScore], corner: str = "Frames of") -> str:
    """Markdown."""
    rows = {name: {key: mean_std([value]) for key, value in _row(found).items()} for name, found in scores.items()}
    return markdown(Table(COLUMNS, [Panel(rows)], marks=0, corner=corner))


def flight_values(flight: FlightAnswers) -> dict[str, Any]:
    """A flight and its score as plain values; errors and stamps of the frames that got a position."""
    judged = np.isfinite(flight.errors_m)
    return {
        "name": flight.name,
        "modality": flight.modality,
        "positions": flight.positions,
        **score([flight]).to_dict(),
        "stamps_ns": flight.stamps_ns[judged].tolist(),
        "errors_m": flight.errors_m[judged].round(2).tolist(),
        "refused": flight.refused,
    }


def _row(found: FlightScore) -> dict[str, float]:
    return {
        "frames": float(found.frames),
        "availability": found.availability,
        "first": found.first_fix_frame,
        **{f"within_{metres}": share for metres, share in found.recall.items()},
        **{f"given_{metres}": share for metres, share in found.published_recall.items()},
        "wrong_100m": found.wrong_100m,
        "median_m": found.median_m,
        "covered_95": found.coverage["95"],
        "nees": found.nees,
    }
