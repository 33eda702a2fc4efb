"""A picture of flights: the map, the way that was flown, and what the node answered to every frame."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from aerial_vpr_cl.evaluation.flight_score import FlightAnswers
from aerial_vpr_cl.evaluation.metrics import distance_errors
from aerial_vpr_cl.files import new_file
from aerial_vpr_cl.satellite.raster import SatelliteMap

NEAR, FAR = "#009E73", "#D55E00"
PANEL_IN = 4.2
MAP_PX = 700


def draw_answers(satellite: SatelliteMap, flights: Mapping[str, FlightAnswers], near_m: float, path: Path) -> None:
    """Write a PNG with a panel per flight: lines lead from the true position to the answer, green when near."""
    columns = min(3, len(flights))
    rows = -(-len(flights) // columns)
    figure = Figure(figsize=(PANEL_IN * columns, (PANEL_IN + 0.35) * rows), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    background = satellite.overview(MAP_PX)
    for number, (name, answers) in enumerate(flights.items()):
        axes = figure.add_subplot(rows, columns, number + 1)
        _draw_flight(axes, satellite, background, answers, near_m)
        errors = distance_errors(answers.given, answers.truth)
        axes.set_title(f"{name}\n{(errors <= near_m).mean():.0%} within {near_m:.0f} m", fontsize=10)
    with new_file(path) as temporary:
        figure.savefig(temporary, format="png")


def _draw_flight(
    axes: Axes, satellite: SatelliteMap, background: np.ndarray, answers: FlightAnswers, near_m: float
) -> None:
    west, south, east, north = satellite.bounds
    axes.imshow(background, extent=(west, east, south, north), alpha=0.75)
    axes.set(xlim=(west, east), ylim=(south, north), aspect="equal", xticks=[], yticks=[])
    near = distance_errors(answers.given, answers.truth) <= near_m
    answered = np.isfinite(answers.given).all(axis=1)
    for rows, colour in ((answered & ~near, FAR), (answered & near, NEAR)):
        lines = np.stack([answers.truth[rows], answers.given[rows]], axis=1)
        axes.add_collection(LineCollection(list(lines), colors=colour, linewidths=0.7, alpha=0.8))
        axes.plot(*answers.given[rows].T, "s", color=colour, markersize=3.0)
    axes.plot(*answers.truth.T, "-", color="white", linewidth=2.2)
    axes.plot(*answers.truth.T, "-", color="black", linewidth=1.1)
    axes.plot(*answers.truth[~answered].T, "x", color="black", markersize=4.0)
