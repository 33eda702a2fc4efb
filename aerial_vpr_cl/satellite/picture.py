"""A picture of the map: the grid over the raster with its groups tinted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from aerial_vpr_cl.files import new_file
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.satellite.raster import SatelliteMap

# Wong's palette: told apart by colour-blind readers too.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
LONGER_SIDE_IN = 11.0
DPI = 120


def draw_map(satellite: SatelliteMap, grid: Grid, path: Path) -> None:
    """Write a PNG of the map with its grid, cells tinted by group, and a scale bar."""
    figure, axes = _map_figure(satellite)
    _tint_groups(axes, grid, opacity=0.22)
    _draw_cell_borders(axes, grid)
    if grid.n_groups <= len(COLOURS):
        labels = [Patch(color=COLOURS[group], alpha=0.7, label=f"group {group}") for group in range(grid.n_groups)]
        axes.legend(handles=labels, loc="upper right", framealpha=0.85, fontsize=9)
    axes.set_title(
        f"{grid.n_classes} cells of {grid.cell_side_m:g} m in {grid.n_groups} groups, EPSG:{grid.epsg}", fontsize=11
    )
    _save(figure, path)


def _map_figure(satellite: SatelliteMap) -> tuple[Figure, Axes]:
    """The raster in axes labelled in kilometres with a scale bar."""
    west, south, east, north = satellite.bounds
    scale = LONGER_SIDE_IN / max(east - west, north - south)
    figure = Figure(figsize=((east - west) * scale, (north - south) * scale), dpi=DPI)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.imshow(satellite.overview(round(LONGER_SIDE_IN * DPI)), extent=(west, east, south, north), zorder=0)
    axes.set(xlim=(west, east), ylim=(south, north), aspect="equal")
    axes.xaxis.set_major_formatter(lambda metres, _: f"{metres / 1000:.1f}")
    axes.yaxis.set_major_formatter(lambda metres, _: f"{metres / 1000:.1f}")
    axes.tick_params(labelsize=8)
    axes.set_xlabel("easting (km)", fontsize=9)
    axes.set_ylabel("northing (km)", fontsize=9)
    _draw_scale_bar(axes, satellite.bounds)
    return figure, axes


def _tint_groups(axes: Axes, grid: Grid, opacity: float) -> None:
    low, high = grid.cells.min(axis=0), grid.cells.max(axis=0) + 1
    tint = np.zeros((*(high - low)[::-1], 4))
    palette = np.array([to_rgb(colour) for colour in COLOURS])
    i, j = (grid.cells - low).T
    tint[j, i, :3] = palette[grid.groups % len(COLOURS)]
    tint[j, i, 3] = opacity
    (west, south), (east, north) = low * grid.cell_side_m, high * grid.cell_side_m
    axes.imshow(tint, extent=(west, east, south, north), origin="lower", interpolation="nearest", zorder=1)


def _draw_cell_borders(axes: Axes, grid: Grid) -> None:
    corners = grid.cells.astype(np.float64) * grid.cell_side_m
    axes.add_collection(
        LineCollection(list(_squares(corners, grid.cell_side_m)), colors="white", linewidths=0.5, alpha=0.6, zorder=2)
    )
    (west, east), (south, north) = axes.get_xlim(), axes.get_ylim()
    # Window centres lie inside the raster; the corners of their cells need not.
    axes.set_xlim(min(west, corners[:, 0].min()), max(east, corners[:, 0].max() + grid.cell_side_m))
    axes.set_ylim(min(south, corners[:, 1].min()), max(north, corners[:, 1].max() + grid.cell_side_m))


def _squares(corners: NDArray[np.float64], side: float) -> NDArray[np.float64]:
    """(C, 5, 2) closed outlines of squares with the given south-west corners."""
    return corners[:, None] + np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]) * side


def _draw_scale_bar(axes: Axes, bounds: tuple[float, float, float, float]) -> None:
    """A bar of a round length, about a fifth of the map's width."""
    west, south, east, north = bounds
    wanted = (east - west) / 5
    power = 10.0 ** np.floor(np.log10(wanted))
    length = max(step * power for step in (1, 2, 5) if step * power <= wanted)
    x, y, thickness = west + (east - west) * 0.03, south + (north - south) * 0.04, (north - south) * 0.008
    for part in range(2):
        colour = ("black", "white")[part]
        axes.add_patch(
            Rectangle((x + part * length / 2, y), length / 2, thickness, fc=colour, ec="black", lw=0.8, zorder=4)
        )
    label = f"{length / 1000:g} km" if length >= 1000 else f"{length:g} m"
    halo = [withStroke(linewidth=3, foreground="black")]
    axes.text(
        x + length / 2, y + thickness * 2, label, ha="center", va="bottom", color="white", path_effects=halo, zorder=4
    )


def _save(figure: Figure, path: Path) -> None:
    with new_file(Path(path)) as temporary:
        figure.savefig(temporary, bbox_inches="tight", pad_inches=0.15, format="png")
