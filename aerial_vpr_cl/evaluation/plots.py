"""Figures of results, drawn without a display. Every function returns a figure; `save` writes it by its file ending."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike, NDArray

from aerial_vpr_cl.evaluation.metrics import MeanStd, checked_matrix
from aerial_vpr_cl.files import new_file

# Okabe and Ito's palette, told apart by colour-blind readers too; a second round is dashed.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vPX"
_SHADED_CURVES = 4
_SLANTED: dict[str, Any] = {"rotation": 40, "ha": "right", "rotation_mode": "anchor", "fontsize": 8}


def save(figure: Figure, path: Path) -> None:
    """Write the figure whole or not at all; .png, .pdf and .svg are understood."""
    with new_file(path) as temporary:
        figure.savefig(temporary, dpi=150, bbox_inches="tight")


def metric_over_missions(
    curves: Mapping[str, ArrayLike], missions: Sequence[str], metric: str, *, first_step: int = 0
) -> Figure:
    """A metric (a share) after every step, one curve a method: (steps,) or the mean of (seeds, steps).

    The range over seeds is shaded where the curves are few enough to see it.
    first_step is 0 where the base model leads (C1) and 2 where there must be something to retain (C3).
    """
    figure, axes = _figure(8.0, 4.6)
    for (name, values), style in zip(curves.items(), _styles(len(curves))):
        runs = np.atleast_2d(np.asarray(values, float))
        steps = first_step + np.arange(runs.shape[1])
        axes.plot(steps, runs.mean(axis=0), label=name, **style)
        if len(runs) > 1 and len(curves) <= _SHADED_CURVES:
            axes.fill_between(steps, runs.min(axis=0), runs.max(axis=0), color=style["color"], alpha=0.12, linewidth=0)
    names = ["base", *missions]
    ticks = range(first_step, len(names))
    axes.set_xticks(ticks, [f"{k}  {names[k]}" for k in ticks], **_SLANTED)
    axes.set_xlabel("missions learnt")
    axes.set_ylabel(metric)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    _legend_beside(axes)
    return figure


def capacity_sensitivity(results: Mapping[str, Mapping[str, Mapping[int, MeanStd]]]) -> Figure:
    """results[metric][method][capacity], shares, one panel a metric, sample deviations as bars."""
    figure = Figure(figsize=(3.6 * max(1, len(results)), 3.4), layout="constrained")
    panels = figure.subplots(1, max(1, len(results)), squeeze=False)[0]
    for axes, (metric, methods) in zip(panels, results.items()):
        capacities = sorted({capacity for values in methods.values() for capacity in values})
        for k, ((name, values), style) in enumerate(zip(methods.items(), _styles(len(methods)))):
            at = [capacities.index(capacity) for capacity in sorted(values)]
            summaries = [values[capacity] for capacity in sorted(values)]
            # Side by side within a capacity: error bars on one place would hide each other.
            shifted = np.array(at) + 0.06 * (k - (len(methods) - 1) / 2)
            bars = np.nan_to_num([summary.std for summary in summaries])
            axes.errorbar(shifted, [summary.mean for summary in summaries], yerr=bars, capsize=3, label=name, **style)
        axes.set_xticks(range(len(capacities)), [str(capacity) for capacity in capacities])
        axes.set_xlabel("images per group, B")
        axes.set_title(metric)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        _tidy(axes)
    panels[0].legend(frameon=False, fontsize=8)
    return figure


def error_distribution(errors: Mapping[str, ArrayLike], thresholds_m: Sequence[float] = (50, 100, 200, 300)) -> Figure:
    """Share of queries within every distance, one curve a method, on a logarithmic scale of metres."""
    figure, axes = _figure(7.0, 4.2)
    for (name, values), style in zip(errors.items(), _styles(len(errors), markers=False)):
        metres = np.sort(np.asarray(values, float))
        axes.step(metres, np.arange(1, len(metres) + 1) / len(metres), where="post", label=name, **style)
    for threshold in thresholds_m:
        axes.axvline(threshold, color="0.75", linewidth=0.8, zorder=0)
        axes.text(threshold, 1.01, f"{threshold:g}", ha="center", va="bottom", fontsize=7, color="0.4")
    axes.set_xscale("log")
    axes.set_xlim(left=10)
    axes.set_ylim(0, 1)
    axes.set_xlabel("position error (m)")
    axes.set_ylabel("queries within")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    _legend_beside(axes)
    return figure


def accuracy_heat_map(matrix: ArrayLike, missions: Sequence[str], title: str = "") -> Figure:
    """The accuracy matrix R (K + 1, K) as a map with its percentages; a frame marks each mission just learnt."""
    R = checked_matrix(matrix)
    K = R.shape[1]
    figure, axes = _figure(2.2 + 0.62 * K, 1.6 + 0.48 * (K + 1))
    axes.grid(False)
    picture = axes.imshow(R, cmap="viridis", vmin=0, vmax=1, aspect="auto")
    for i, j in np.ndindex(R.shape):
        if not np.isnan(R[i, j]):
            colour = "white" if R[i, j] < 0.6 else "black"
            axes.text(j, i, f"{100 * R[i, j]:.0f}", ha="center", va="center", fontsize=8, color=colour)
    for j in range(K):
        axes.add_patch(Rectangle((j - 0.5, j + 0.5), 1, 1, fill=False, edgecolor="white", linewidth=1.5))
    axes.set_xticks(range(K), missions, **_SLANTED)
    axes.set_yticks(range(K + 1), ["base", *[f"+ {name}" for name in missions]], fontsize=8)
    axes.set_xlabel("tested on")
    axes.set_ylabel("after learning")
    axes.set_title(title, fontsize=10)
    figure.colorbar(picture, ax=axes, format=PercentFormatter(1.0, decimals=0), fraction=0.04, pad=0.02)
    return figure


@dataclass(frozen=True)
class QualitativeCase:
    """One query, its true tile and the tile each method predicted, with a line of text under each (error, hits)."""

    title: str
    query: NDArray[np.uint8]
    true_tile: NDArray[np.uint8]
    predicted: Mapping[str, NDArray[np.uint8]]
    notes: Mapping[str, str] = field(default_factory=dict)
    right: Mapping[str, bool] = field(default_factory=dict)


def qualitative_panels(cases: Sequence[QualitativeCase]) -> Figure:
    """One row a case: query, true tile, predicted tiles, framed green where right and red where wrong."""
    methods = list(dict.fromkeys(name for case in cases for name in case.predicted))
    heads = ["Airborne query", "True tile", *methods]
    figure = Figure(figsize=(2.0 * len(heads), 2.45 * max(1, len(cases))), layout="constrained")
    grid = figure.subplots(max(1, len(cases)), len(heads), squeeze=False)
    for row, case in zip(grid, cases):
        images = [case.query, case.true_tile, *[case.predicted.get(name) for name in methods]]
        for axes, head, image in zip(row, heads, images):
            axes.set_xticks([])
            axes.set_yticks([])
            if image is None:
                axes.axis("off")
                continue
            axes.imshow(image)
            axes.set_anchor("N")  # wide queries and square tiles begin at one height
            axes.set_xlabel(case.notes.get(head, ""), fontsize=8)
            if head in case.right:
                for spine in axes.spines.values():
                    spine.set(color="#009E73" if case.right[head] else "#D55E00", linewidth=3)
        row[0].set_xlabel(case.title, fontsize=8)
    for axes, head in zip(grid[0], heads):
        axes.set_title(head, fontsize=10, fontweight="bold")
    return figure


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, _tidy(figure.subplots())


def _tidy(axes: Axes) -> Axes:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    return axes


def _legend_beside(axes: Axes) -> None:
    """A legend right of the axes: eleven methods would hide the curves."""
    axes.legend(frameon=False, fontsize=8, handlelength=3.5, loc="center left", bbox_to_anchor=(1.01, 0.5))


def _styles(count: int, markers: bool = True) -> list[dict[str, Any]]:
    styles = []
    for k in range(count):
        n = k % len(_COLOURS)
        style = {"color": _COLOURS[n], "linestyle": "-" if k < len(_COLOURS) else "--", "linewidth": 1.5}
        styles.append(style | ({"marker": _MARKERS[n], "markersize": 4} if markers else {}))
    return styles
