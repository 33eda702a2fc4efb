"""The paper's table of resource costs, from what the records say of time and memory."""

from __future__ import annotations

import math

import numpy as np

from aerial_vpr_cl.benchmark.records import Record
from aerial_vpr_cl.evaluation.tables import Column

ADAPTATION_COLUMNS = (
    Column("total_min", "Total time", "", "min", 1),
    Column("mission_s", "A mission", "", "s", 1),
    Column("trunk_share", "of it trunk", "", "%", 1),
    Column("update_share", "of it buffer update", "", "%", 1),
    Column("select_ms", "Selection", "", "ms/mission", 0),
    Column("peak_memory_mb", "Peak memory", "", "MB", 0),
    Column("peak_accelerator_mib", "Peak accelerator", "", "MiB", 0),
    Column("buffer_mb", "Replay buffer", "", "MB", 2),
)
"""Panel (a). The buffer's update includes the trunk's pass over the candidates, as in the paper."""

QUERY_COLUMNS = (
    Column("mean_ms", "Mean latency", "", "ms", 1),
    Column("p50_ms", "p50", "", "ms", 1),
    Column("p95_ms", "p95", "", "ms", 1),
    Column("per_second", "Throughput", "", "query/s", 1),
    Column("peak_accelerator_mib", "Peak accelerator", "", "MiB", 0),
)
"""Panel (b)."""


def adaptation_figures(record: Record) -> dict[str, float]:
    """What all missions of a run would take alone, and what of it the trunk and the buffer's update."""
    timing = record["timing"]
    figures = {
        "select_ms": 1000 * float(np.mean(timing["select_s"])),
        "buffer_mb": record["buffer"]["bytes"] / 1e6,
        "peak_accelerator_mib": timing.get("peak_accelerator_mib", math.nan),
    }
    if "trunk_ms" not in timing:  # an older record, whose times and memory depend on which run came first
        return figures | dict.fromkeys(
            ("total_min", "mission_s", "trunk_share", "update_share", "peak_memory_mb"), math.nan
        )
    passes = {part: timing["trunk_ms"] / 1000 * sum(timing[f"{part}_views"]) for part in ("learn", "select")}
    update_s = sum(timing["select_s"]) + passes["select"]
    total_s = sum(timing["learn_s"]) + passes["learn"] + update_s
    return figures | {
        "total_min": total_s / 60,
        "mission_s": total_s / len(timing["learn_s"]),
        "trunk_share": sum(passes.values()) / total_s,
        "update_share": update_s / total_s,
        "peak_memory_mb": timing["peak_memory_mb"],
    }


def query_figures(record: Record) -> dict[str, dict[str, float]]:
    """Latencies by set of queries; empty for older records."""
    names = {"sequence": "All missions of the sequence", "held_out": "Held-out missions"}
    return {names[part]: figures for part, figures in record["timing"].get("queries", {}).items()}
