"""The report of a benchmark: tables in the paper's form (Markdown, CSV, LaTeX) and figures, from the runs' records."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aerial_vpr_cl.benchmark.cost_tables import (
    ADAPTATION_COLUMNS,
    QUERY_COLUMNS,
    adaptation_figures,
    query_figures,
)
from aerial_vpr_cl.benchmark.figures import draw_figures
from aerial_vpr_cl.benchmark.records import PROPOSALS, Record, Records, by_method
from aerial_vpr_cl.benchmark.settings import Benchmark, Study
from aerial_vpr_cl.evaluation.metrics import mean_std, old_final, over_seeds
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
PROPOSAL_COLUMNS = tuple(
    Column(f"{part}.{count}", f"top {count}", group=words)
    for part, words in (("sequence", "Sequence"), ("held_out", "Held out"))
    for count in PROPOSALS
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
    if all("proposed" in record for record in records.values()):
        found["proposals"] = Table(
            PROPOSAL_COLUMNS,
            [
                _base_proposals(records),
                *_panels(study, records, lambda record: _proposals(record, "final"), "After all missions"),
            ],
            f"{title}frames whose own cell is among the first the network names",
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
    found["costs"] = Table(
        ADAPTATION_COLUMNS,
        _panels(study, records, adaptation_figures),
        f"{title}costs of adaptation on this computer; every run as if it were alone",
        marks=0,
    )
    if panels := _query_panels(study, records):
        found["queries"] = Table(
            QUERY_COLUMNS, panels, f"{title}costs of single queries on this computer", marks=0, corner="Queries"
        )
    return found


def _order_tables(study: Study, records: Records, title: str) -> dict[str, Table]:
    """By order, as the paper's named orders are given, and over orders, as its random ones are; budgets apart."""
    groups = {"orders": ("faa", "bwt"), "orders-criteria": ("c1", "c2", "c3")}
    by_order = {
        budget: {order: by_method(records, order, budget, _summary) for order in study.orders}
        for budget in study.budgets
    }
    found = {}
    for name, keys in groups.items():
        columns = columns_of_orders(study.orders, [column for column in CONTINUAL_COLUMNS if column.key in keys])
        panels = [panel_of_orders(runs, _budget_title(study, budget)) for budget, runs in by_order.items()]
        words = " / ".join(key.upper() for key in keys)
        found[name] = Table(columns, panels, f"{title}{words} by mission order")
    panels = [panel_of_runs(_means_of_orders(runs), _budget_title(study, budget)) for budget, runs in by_order.items()]
    flown = len({run.order for run in records})
    caption = f"{title}mean and deviation over {flown} mission orders, each the mean of its seeds"
    found["over-orders"] = Table(CONTINUAL_COLUMNS, panels, caption)
    return found


def _means_of_orders(by_order: Mapping[str, Mapping[str, Sequence[Any]]]) -> dict[str, list[dict[str, float]]]:
    """By method, one a mission order: the mean of its seeds."""
    means: dict[str, list[dict[str, float]]] = {}
    for methods in by_order.values():
        for method, summaries in methods.items():
            means.setdefault(method, []).append({key: value.mean for key, value in over_seeds(summaries).items()})
    return means


def _budget_title(study: Study, budget: int) -> str:
    return f"B = {budget}" if len(study.budgets) > 1 else ""


def _panels(study: Study, records: Records, pick: Callable[[Record], Any], title: str = "") -> list[Panel]:
    """One panel for every order and budget; methods without a buffer stand in each."""
    panels = []
    for order in study.orders:
        for budget in study.budgets:
            runs = by_method(records, order, budget, pick)
            many = len(study.orders) * len(study.budgets) > 1
            if runs:
                panels.append(panel_of_runs(runs, f"{order.capitalize()}, B = {budget}" if many else title))
    return panels


def _base_panel(records: Records) -> Panel:
    """The base model before any mission: what learning has to beat."""
    record = next(iter(records.values()))
    limit = f"{record['threshold_m']:g}"
    figures = {"faa": np.mean(record["matrix"][limit][0]), "c1": record["held_out_recall"][limit][0]}
    return Panel({"Base model": {key: mean_std([value]) for key, value in figures.items()}}, "Before the first mission")


def _base_proposals(records: Records) -> Panel:
    figures = _proposals(next(iter(records.values())), "base")
    return Panel({"Base model": {key: mean_std([value]) for key, value in figures.items()}}, "Before the first mission")


def _proposals(record: Record, moment: str) -> dict[str, float]:
    return {
        f"{part}.{count}": share for part, own in record["proposed"][moment].items() for count, share in own.items()
    }


def _retrieval_panels(records: Records) -> list[Panel]:
    """The base model once, then every method and budget."""
    kept: dict[tuple[str, int], list[Record]] = {}
    for run, record in records.items():
        if "retrieval" in record:
            kept.setdefault((run.method, run.budget), []).append(record)
    budgets = {budget for _, budget in kept if budget}
    panels = [_retrieval_panel(found, "base", "Base model") for found in [*kept.values()][:1]]
    for (method, budget), found in kept.items():
        words = f", B = {budget}" if budget and len(budgets) > 1 else ""
        panels.append(_retrieval_panel(found, "final", f"After all missions, {method_title(method)}{words}"))
    return panels


def _retrieval_panel(found: Sequence[Record], stage: str, title: str) -> Panel:
    named = {
        "classification": "Classification",
        "retrieval": f"Retrieval, {found[0]['retrieval'][stage]['patches']} patches",
    }
    rows = {words: over_seeds([_way(record, stage, way) for record in found]) for way, words in named.items()}
    return Panel(rows, title)


def _query_panels(study: Study, records: Records) -> list[Panel]:
    """Latencies of the last method of the study, the one it is about: the networks of all are alike."""
    for method in reversed(study.methods):
        found = [query_figures(record) for run, record in records.items() if run.method == method]
        names = list(dict.fromkeys(name for figures in found for name in figures))
        if names:
            rows = {name: over_seeds([figures[name] for figures in found if name in figures]) for name in names}
            return [Panel(rows, method_title(method))]
    return []


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
