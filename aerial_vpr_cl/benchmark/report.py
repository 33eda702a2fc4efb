"""The report of a benchmark: tables in the paper's form (Markdown, CSV, LaTeX) and figures, from the runs' records."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aerial_vpr_cl.benchmark.records import Record
from aerial_vpr_cl.benchmark.settings import Benchmark, Run, Study
from aerial_vpr_cl.evaluation import plots
from aerial_vpr_cl.evaluation.metrics import c3, mean_std, old_final, over_seeds
from aerial_vpr_cl.evaluation.tables import (
    CONTINUAL_COLUMNS,
    LOCALIZATION_COLUMNS,
    Column,
    Panel,
    Table,
    columns_of_orders,
    comma_separated,
    latex,
    markdown,
    method_title,
    panel_of_orders,
    panel_of_runs,
)
from aerial_vpr_cl.files import replace_file

Records = Mapping[Run, Record]

SENSOR_COLUMNS = (
    Column("recall_300", "R@300"),
    Column("median_m", "Median", "lower", "m"),
    Column("VIS", "VIS R@300"),
    Column("IR", "IR R@300"),
)
RETRIEVAL_COLUMNS = (
    Column("recall_100", "R@100"),
    Column("recall_300", "R@300"),
    Column("median_m", "Median", "lower", "m"),
    Column("megabytes", "Memory", "lower", "MB"),
    Column("search_ms", "Search", "lower", "ms", 3),
)
ALTITUDE_COLUMNS = (
    Column("faa", "FAA", digits=3),
    Column("bwt", "BWT", digits=3),
    Column("af", "AF", "lower", digits=3),
    Column("old_final", "Old-3 Final", digits=3),
)
UNSEEN_COLUMNS = (
    Column("recall_1", "R@1", digits=3),
    Column("recall_5", "R@5", digits=3),
    Column("recall_10", "R@10", digits=3),
    Column("mean_average_precision", "mAP", digits=3),
    Column("mean_rank", "Mean rank", "lower", "", 3),
)
"""Both panels of the paper's SUES-200 table."""
COST_COLUMNS = (
    Column("learn_s", "Learning", "", "s/mission", 1),
    Column("select_ms", "Selection", "", "ms/mission", 0),
    Column("query_p50_ms", "Query p50", "", "ms", 1),
    Column("query_p95_ms", "Query p95", "", "ms", 1),
    Column("peak_memory_mb", "Peak memory", "", "MB", 0),
    Column("buffer_mb", "Replay buffer", "", "MB", 2),
)
HEAT_MAPS = ("ft", "dbs_hybrid")


def write_report(benchmark: Benchmark, records: Records, folder: Path) -> str:
    """Write tables and figures of every study that has records; returns what to show on a terminal."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = [describe_missions(records)] if records else []
    for study in benchmark.studies:
        own = {run: records[run] for run in study.runs() if run in records}
        if not own:
            continue
        tables = tables_of(study, own)
        for name, table in tables.items():
            for ending, text in (("md", markdown(table)), ("csv", comma_separated(table)), ("tex", latex(table))):
                replace_file(folder / f"{study.name}-{name}.{ending}", text.encode())
        draw_figures(study, own, folder)
        shown += [markdown(table) for table in tables.values()]
        if missing := len(study.runs()) - len(own):
            shown.append(f"Study {study.name}: {missing} of {len(study.runs())} runs are still to be made.\n")
    text = "\n".join(shown)
    replace_file(folder / "report.md", text.encode())
    return text


def describe_missions(records: Records) -> str:
    """A table of the missions: frames to learn and to test on, and how many test frames lie over cells seen before."""
    record = next(iter(records.values()))
    lines = ["| Mission | Sensor | Role | Train | Test | Test frames over cells of the training half |"]
    lines.append("| :-- | :-- | :-- | --: | --: | --: |")
    shares, weights = [], []
    for name, facts in record["facts"].items():
        held_out = name in record["held_out"]
        share = "–" if held_out else f"{facts['shared_cells']:.0%}"
        role = "held out" if held_out else "sequence"
        lines.append(f"| {name} | {facts['modality']} | {role} | {facts['train']} | {facts['test']} | {share} |")
        if not held_out:
            shares.append(facts["shared_cells"])
            weights.append(facts["test"])
    lines.append(f"| all | | sequence | | {sum(weights)} | {np.average(shares, weights=weights):.0%} |")
    return "\n".join(lines) + "\n"


def tables_of(study: Study, records: Records) -> dict[str, Table]:
    """The tables of one study by name."""
    title = f"{study.title or study.name}: " if study.title or study.name else ""
    limit = next(iter(records.values()))["threshold_m"]
    found = {
        "continual": Table(
            CONTINUAL_COLUMNS,
            [_base_panel(records), *_panels(study, records, _summary, "After all missions")],
            f"{title}continual learning, positions within {limit:g} m",
        )
    }
    for part, words in (("sequence", "all missions of the sequence"), ("held_out", "held-out missions")):
        if part == "sequence" or next(iter(records.values()))["held_out"]:
            found[part] = Table(
                LOCALIZATION_COLUMNS,
                _panels(study, records, lambda record, part=part: record["localization"][part]["all"]),  # type: ignore[misc]
                f"{title}position errors of the final model, {words}",
            )
            found[f"{part}-sensors"] = Table(
                SENSOR_COLUMNS,
                _panels(study, records, lambda record, part=part: _by_sensor(record["localization"][part])),  # type: ignore[misc]
                f"{title}by sensor, {words}",
            )
    if len(study.orders) > 1:
        found |= _order_tables(study, records, title)
    if panels := _retrieval_panels(records):
        found["retrieval"] = Table(
            RETRIEVAL_COLUMNS,
            panels,
            f"{title}classification beside nearest-neighbour retrieval over satellite patches, same features, all test "
            "frames; memory and time of the search alone",
            marks=1,
            corner="Answer by",
        )
    if all("unseen_locations" in record for record in records.values()):
        found["altitudes"] = Table(
            ALTITUDE_COLUMNS, _panels(study, records, _altitudes), f"{title}altitudes as missions", marks=2
        )
        found["unseen"] = Table(
            UNSEEN_COLUMNS,
            _panels(study, records, lambda record: record["unseen_locations"]),
            f"{title}drone-to-satellite retrieval of unseen locations",
            marks=2,
        )
    found["costs"] = Table(COST_COLUMNS, _panels(study, records, _costs), f"{title}costs on this computer", marks=0)
    return found


def _order_tables(study: Study, records: Records, title: str) -> dict[str, Table]:
    """By order, as the paper's named orders are given, and over orders, as its random ones are."""
    by_order = {order: _by_method(records, order, None, _summary) for order in study.orders}
    panel = panel_of_orders(by_order)
    groups = {"orders": ("faa", "bwt"), "orders-criteria": ("c1", "c2", "c3")}
    found = {}
    for name, keys in groups.items():
        columns = columns_of_orders(study.orders, [column for column in CONTINUAL_COLUMNS if column.key in keys])
        words = " / ".join(key.upper() for key in keys)
        found[name] = Table(columns, [panel], f"{title}{words} by mission order")
    means: dict[str, list[dict[str, float]]] = {}
    for methods in by_order.values():
        for method, summaries in methods.items():
            means.setdefault(method, []).append({key: value.mean for key, value in over_seeds(summaries).items()})
    caption = f"{title}mean and deviation over {len(study.orders)} mission orders, each the mean of its seeds"
    found["over-orders"] = Table(CONTINUAL_COLUMNS, [panel_of_runs(means)], caption)
    return found


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
        values = _by_method(main, order, None, curve)
        if len(missions) < 2 or (metric == "C1" and not first["held_out"]):
            continue
        figure = plots.metric_over_missions(_titled(values), missions, metric, first_step=first_step)
        plots.save(figure, folder / f"{study.name}-{metric}.png")
    errors = {
        method: np.concatenate([mission["errors_m"] for record in found for mission in record["final"].values()])
        for method, found in _by_method(main, order, None, lambda record: record).items()
    }
    plots.save(plots.error_distribution(_titled(errors)), folder / f"{study.name}-errors.png")
    for method in HEAT_MAPS:
        found = _by_method(main, order, None, lambda record: record["matrix"][limit]).get(method)
        if found:
            mean = np.mean(np.asarray(found, float), axis=0)
            figure = plots.accuracy_heat_map(mean, missions, method_title(method))
            plots.save(figure, folder / f"{study.name}-R-{method}.png")
    if len(budgets) > 1:
        plots.save(plots.capacity_sensitivity(_by_capacity(study, records)), folder / f"{study.name}-capacity.png")


def _panels(study: Study, records: Records, pick: Callable[[Record], Any], title: str = "") -> list[Panel]:
    """One panel for every order and budget; methods without a buffer stand in each."""
    panels = []
    for order in study.orders:
        for budget in study.budgets:
            runs = _by_method(records, order, budget, pick)
            many = len(study.orders) * len(study.budgets) > 1
            if runs:
                panels.append(panel_of_runs(runs, f"{order.capitalize()}, B = {budget}" if many else title))
    return panels


def _by_method(records: Records, order: str, budget: int | None, pick: Callable[[Record], Any]) -> dict[str, list[Any]]:
    """What is picked from the records of an order and a budget (None: whichever), by method, one a seed."""
    found: dict[str, list[Any]] = {}
    for run, record in records.items():
        if run.order == order and (budget is None or run.budget in (0, budget)):
            found.setdefault(run.method, []).append(pick(record))
    return found


def _base_panel(records: Records) -> Panel:
    """The base model before any mission: what learning has to beat."""
    record = next(iter(records.values()))
    limit = f"{record['threshold_m']:g}"
    figures = {"faa": np.mean(record["matrix"][limit][0]), "c1": record["held_out_recall"][limit][0]}
    return Panel({"Base model": {key: mean_std([value]) for key, value in figures.items()}}, "Before the first mission")


def _retrieval_panels(records: Records) -> list[Panel]:
    panels = []
    kept = {run: record for run, record in records.items() if "retrieval" in record}
    for stage, words in (("base", "base model"), ("final", "")):
        for method in dict.fromkeys(run.method for run in kept):
            found = [record for run, record in kept.items() if run.method == method]
            rows = {way: [_way(record, stage, way) for record in found] for way in ("classification", "retrieval")}
            patches = found[0]["retrieval"][stage]["patches"]
            named = {"classification": "Classification", "retrieval": f"Retrieval, {patches} patches"}
            title = words.capitalize() or f"After all missions, {method_title(method)}"
            panels.append(Panel({named[way]: over_seeds(values) for way, values in rows.items()}, title))
            if stage == "base":
                break
    return panels


def _way(record: Record, stage: str, way: str) -> dict[str, float]:
    facts, times = record["retrieval"][stage], record["timing"]["search_ms"][stage]
    return {**facts[way], "megabytes": facts[f"{way}_bytes"] / 1e6, "search_ms": times[f"{way}_ms"]}


def _summary(record: Record) -> Any:
    return record["summary"]


def _altitudes(record: Record) -> dict[str, float]:
    return {**record["summary"], "old_final": old_final(record["matrix"][f"{record['threshold_m']:g}"])}


def _by_sensor(localization: Mapping[str, Any]) -> dict[str, float]:
    recalls = {kind: localization.get(kind, {}).get("recall_300", math.nan) for kind in ("VIS", "IR")}
    return {"recall_300": localization["all"]["recall_300"], "median_m": localization["all"]["median_m"], **recalls}


def _costs(record: Record) -> dict[str, float]:
    timing = record["timing"]
    return {
        "learn_s": float(np.mean(timing["learn_s"])),
        "select_ms": 1000 * float(np.mean(timing["select_s"])),
        "buffer_mb": record["buffer"]["bytes"] / 1e6,
        **{key: timing[key] for key in ("query_p50_ms", "query_p95_ms", "peak_memory_mb")},
    }


def _retention(record: Record, limit: str) -> list[float]:
    counts = [record["facts"][name]["test"] for name in record["missions"]]
    return [c3(record["matrix"][limit], counts, step) for step in range(2, len(counts) + 1)]


def _by_capacity(study: Study, records: Records) -> dict[str, dict[str, dict[int, Any]]]:
    found: dict[str, dict[str, dict[int, Any]]] = {}
    for metric in ("faa", "c1", "c3", "bwt"):
        for budget in study.budgets:
            for method, summaries in _by_method(records, study.orders[0], budget, _summary).items():
                if any(run.method == method and run.budget for run in records):
                    title = method_title(method)
                    values = mean_std([summary[metric] for summary in summaries])
                    found.setdefault(metric.upper(), {}).setdefault(title, {})[budget] = values
    return found


def _titled(values: Mapping[str, Sequence[Any] | np.ndarray]) -> dict[str, Any]:
    return {method_title(method): value for method, value in values.items()}
