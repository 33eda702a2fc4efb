"""Figures of a study: curves over missions, error distributions, accuracy matrices and capacities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aerial_vpr_cl.benchmark.records import Record, Records, by_method
from aerial_vpr_cl.benchmark.settings import Study
from aerial_vpr_cl.evaluation import plots
from aerial_vpr_cl.evaluation.metrics import c3, mean_std
from aerial_vpr_cl.evaluation.tables import method_title

HEAT_MAPS = ("ft", "dbs_hybrid")


def draw_figures(study: Study, records: Records, folder: Path) -> None:
    """The study's figures as PNG."""
    order, budgets = study.orders[0], study.budgets
    main = {run: record for run, record in records.items() if run.order == order and run.budget in (0, budgets[-1])}
    if not main:
        return
    first = next(iter(main.values()))
    missions, limit = first["missions"], f"{first['threshold_m']:g}"
    curves = {
        "C1": (0, lambda record: record["held_out_recall"][limit]),
        "C3": (2, lambda record: _retention(record, limit)),
    }
    for metric, (first_step, curve) in curves.items():
        values = by_method(main, order, budgets[-1], curve)
        if len(missions) < 2 or (metric == "C1" and not first["held_out"]):
            continue
        figure = plots.metric_over_missions(_titled(values), missions, metric, first_step=first_step)
        plots.save(figure, folder / f"{study.name}-{metric}.png")
    errors = {
        method: np.concatenate([mission["errors_m"] for record in found for mission in record["final"].values()])
        for method, found in by_method(main, order, budgets[-1], lambda record: record).items()
    }
    plots.save(plots.error_distribution(_titled(errors)), folder / f"{study.name}-errors.png")
    for method in HEAT_MAPS:
        found = by_method(main, order, budgets[-1], lambda record: record["matrix"][limit]).get(method)
        if found:
            mean = np.mean(np.asarray(found, float), axis=0)
            figure = plots.accuracy_heat_map(mean, missions, method_title(method))
            plots.save(figure, folder / f"{study.name}-R-{method}.png")
    if len(budgets) > 1:
        plots.save(plots.capacity_sensitivity(_by_capacity(study, records)), folder / f"{study.name}-capacity.png")


def _retention(record: Record, limit: str) -> list[float]:
    counts = [record["facts"][name]["test"] for name in record["missions"]]
    return [c3(record["matrix"][limit], counts, step) for step in range(2, len(counts) + 1)]


def _by_capacity(study: Study, records: Records) -> dict[str, dict[str, dict[int, Any]]]:
    found: dict[str, dict[str, dict[int, Any]]] = {}
    for metric in ("faa", "c1", "c3", "bwt"):
        for budget in study.budgets:
            for method, summaries in by_method(
                records, study.orders[0], budget, lambda record: record["summary"]
            ).items():
                if any(run.method == method and run.budget for run in records):
                    title = method_title(method)
                    values = mean_std([summary[metric] for summary in summaries])
                    found.setdefault(metric.upper(), {}).setdefault(title, {})[budget] = values
    return found


def _titled(values: Mapping[str, Sequence[Any] | np.ndarray]) -> dict[str, Any]:
    return {method_title(method): value for method, value in values.items()}
