"""Pictures of a followed flight: the track with its ellipses, error and sigma over time, and how honest they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import EllipseCollection
from matplotlib.figure import Figure

from aerial_vpr_cl.evaluation.flight_score import FlightAnswers, region
from aerial_vpr_cl.files import new_file
from aerial_vpr_cl.satellite.raster import SatelliteMap

TRUE, GIVEN, SILENT = "#000000", "#0072B2", "#D55E00"
MAP_PX = 1000
LEAST_M = 1.0


def draw_flights(satellite: SatelliteMap, flights: Sequence[FlightAnswers], folder: Path) -> list[Path]:
    """Three pictures per flight and one of all flights' honesty, as PNG; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    background, written = satellite.overview(MAP_PX), []
    for flight in flights:
        figure = Figure(figsize=(9.0, 7.5), dpi=110, layout="constrained")
        draw_track(figure.subplots(), satellite, background, flight)
        written.append(_save(figure, folder / f"{flight.name}_track.png"))
        figure = Figure(figsize=(9.0, 3.6), dpi=110, layout="constrained")
        draw_errors(figure.subplots(), flight)
        written.append(_save(figure, folder / f"{flight.name}_errors.png"))
    figure = Figure(figsize=(4.6, 4.4), dpi=110, layout="constrained")
    draw_reliability(figure.subplots(), flights)
    written.append(_save(figure, folder / "reliability.png"))
    return written


def draw_track(axes: Axes, satellite: SatelliteMap, background: np.ndarray, flight: FlightAnswers) -> None:
    """True way, given positions with their 95 % ellipses, and where nothing was said."""
    west, south, east, north = satellite.bounds
    axes.imshow(background, extent=(west, east, south, north), alpha=0.75)
    axes.set(xlim=(west, east), ylim=(south, north), aspect="equal", xticks=[], yticks=[], title=flight.name)
    given = flight.published
    values, vectors = np.linalg.eigh(flight.covariances[given])
    sides = 2.0 * np.sqrt(region(95) * values)
    angles = np.degrees(np.arctan2(vectors[:, 1, 1], vectors[:, 0, 1]))
    axes.add_collection(
        EllipseCollection(
            sides[:, 1], sides[:, 0], angles, units="xy", offsets=flight.given[given], offset_transform=axes.transData,
            facecolors="none", edgecolors=GIVEN, linewidths=0.6, alpha=0.7,
        )
    )  # fmt: skip
    axes.plot(*flight.truth.T, "-", color="white", linewidth=2.4)
    axes.plot(*flight.truth.T, "-", color=TRUE, linewidth=1.1, label="true")
    axes.plot(*flight.given[given].T, ".", color=GIVEN, markersize=4.0, label="given, with 95 % ellipse")
    axes.plot(*flight.truth[~given].T, "x", color=SILENT, markersize=5.0, label="silent")
    axes.legend(loc="lower right", fontsize=8)


def draw_errors(axes: Axes, flight: FlightAnswers) -> None:
    """Error and stated 95 % radius over time, silences marked below."""
    seconds = (flight.stamps_ns - flight.stamps_ns[0]) / 1e9
    given = flight.published
    radius = np.full(len(seconds), np.nan)
    radius[given] = np.sqrt(region(95) * np.linalg.eigvalsh(flight.covariances[given])[:, -1])
    axes.fill_between(seconds, LEAST_M, radius, color=GIVEN, alpha=0.15, linewidth=0, label="95 % radius")
    axes.plot(seconds, flight.errors_m.clip(LEAST_M), ".-", color=GIVEN, markersize=3, linewidth=0.8, label="error")
    axes.plot(seconds[~given], np.full((~given).sum(), LEAST_M * 1.2), "x", color=SILENT, markersize=4, label="silent")
    axes.set(yscale="log", ylim=(LEAST_M, None), xlabel="seconds", ylabel="metres", title=flight.name)
    axes.legend(frameon=False, fontsize=8, ncols=3)


def draw_reliability(axes: Axes, flights: Sequence[FlightAnswers]) -> None:
    """Share of truths inside the stated regions against what was stated: on the diagonal is honest."""
    squared = np.concatenate([flight.squared for flight in flights])
    squared = squared[np.isfinite(squared)]
    stated = np.linspace(0.0, 0.99, 50)
    held = [float((squared <= region(100.0 * share)).mean()) if squared.size else np.nan for share in stated]
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1.0)
    axes.plot(stated, held, color=GIVEN)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="stated", ylabel="held", title="regions of positions")


def _save(figure: Figure, path: Path) -> Path:
    FigureCanvasAgg(figure)
    with new_file(path) as temporary:
        figure.savefig(temporary, format="png")
    return path
