"""The table and the picture of scale.py, made from its records alone."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

Record = dict[str, Any]

ROWS: tuple[tuple[str, str, str], ...] = (
    ("cells (classes)", "map.classes", "{:,.0f}"),
    ("patches", "map.patches", "{:,.0f}"),
    ("raster (MB)", "world.raster_mb", "{:.1f}"),
    ("build-map, patches laid (s)", "map.cpu_s", "{:.1f}"),
    ("… peak memory (MB)", "map.peak_mb", "{:.0f}"),
    ("orientation channel made (s)", "channel.cpu_s", "{:.1f}"),
    ("… on disk (MB)", "channel.channel_mb", "{:.1f}"),
    ("… peak memory (MB)", "channel.peak_mb", "{:.0f}"),
    ("until the first step of base training, cells imprinted (s)", "train.until_first_step_s", "{:.0f}"),
    ("base training, a step of 64 patches (s)", "train.step_s", "{:.2f}"),
    ("… steps taken here", "train.steps", "{:.0f}"),
    ("… own-date recall then", "train.recall", "{:.2f}"),
    ("… peak memory (MB)", "train.peak_mb", "{:.0f}"),
    ("a generation on disk (MB)", "train.generation_mb", "{:.1f}"),
    ("store opened, first answer (s)", "query.open_s", "{:.1f}"),
    ("query: features (ms)", "query.features_ms", "{:.1f}"),
    ("query: all heads (ms)", "query.heads_ms", "{:.2f}"),
    ("query: estimate (ms)", "query.estimate_ms", "{:.2f}"),
    ("retrieval over all patches instead of heads (ms)", "retrieval.retrieval_ms", "{:.1f}"),
    ("… its memory (MB)", "retrieval.retrieval_mb", "{:.0f}"),
    ("… memory of the heads instead (MB)", "query.heads_mb", "{:.1f}"),
    ("registration where a track is (ms)", "search.tracking_ms", "{:.0f}"),
    ("… on twenty proposed cells (ms)", "search.proposed_ms", "{:.0f}"),
    ("… on the whole map (s)", "search.everything_s", "{:.2f}"),
    ("… peak memory (MB)", "search.peak_mb", "{:.0f}"),
    ("first fix, whole map searched: frames", "first_fix.everything.frames", "{}"),
    ("… processor time until then (s)", "first_fix.everything.search_s", "{:.1f}"),
    ("first fix, its network proposes: frames", "first_fix.network.frames", "{}"),
    ("… processor time until then (s)", "first_fix.network.search_s", "{:.1f}"),
    ("… views whose cell was among its 20", "first_fix.named_in_20", "{}"),
    ("first fix, oracle¹ proposes: frames", "first_fix.oracle.frames", "{}"),
    ("… processor time until then (s)", "first_fix.oracle.search_s", "{:.1f}"),
    ("a tracked frame (ms)", "first_fix.everything.tracking_ms", "{:.0f}"),
    ("positions wrong by more than 100 m, all of these", "first_fix.wrong", "{:.0f}"),
    ("adaptation, 40 frames, 2 passes (s)", "adapt.adapt_s", "{:.0f}"),
    ("… peak memory (MB)", "adapt.peak_mb", "{:.0f}"),
)

CURVES = {
    "build-map (s)": "map.cpu_s",
    "channel (s)": "channel.cpu_s",
    "training step (s)": "train.step_s",
    "query: features and heads (ms)": "query.query_ms",
    "registration, tracking (ms)": "search.tracking_ms",
    "registration, twenty cells (ms)": "search.proposed_ms",
    "registration, whole map (ms)": "search.everything_ms",
    "retrieval over patches (ms)": "retrieval.retrieval_ms",
    "adaptation (s)": "adapt.adapt_s",
}

INTRODUCTION = """# What grows with the map

    python benchmarks/scale.py

Procedural countries of worlds side by side at 5 m a pixel, cells of 200 m, views of 450 m, EfficientNet-Lite0,
{machine}, shared with other work, so seconds are processor time of one thread; stages of a column may be of
several runs. Memory is the
peak of the stage's own process; its libraries alone take about 120 MB, with PyTorch about 830 MB. Flights are of autumn
over a summer map, by turns in visible light and in infrared, with erring instruments; *frames* are those until the
first position ({never} where there was none). –: not measured.

"""

FOOTNOTE = """
¹ The oracle is told the truth and has the right cell among its twenty in 80 % of the frames, all other cells at random:
what a network of that recall would bring, not what one has. Base training was ended after the steps shown, too few for
the larger maps; its recall there is no limit of the method. The network of 369 km² pools by quarters, began with the
tail of a network of another place and with imprinted heads:

    python benchmarks/scale.py --tiles 6 --steps 160 --imprint 8 --begin-with STORE

STORE is that of results/naip_nd_north_up. Those of 10 and 1,024 km² began at random and pool by GeM.

![growth](growth.png)
"""


def write_report(folder: Path) -> None:
    """README.md and growth.png of all records in a folder."""
    records = sorted((json.loads(path.read_text()) for path in folder.glob("tiles*.json")), key=lambda r: r["km2"])
    for record in records:
        _derive(record)
    lines = [
        "| | " + " | ".join(f"{record['km2']:,.0f} km²" for record in records) + " | last ÷ first |",
        "|---|" + "--:|" * (len(records) + 1),
        *(line for title, path, form in ROWS if (line := _row(title, path, form, records))),
    ]
    text = INTRODUCTION.format(machine=records[0]["machine"], never=_never(records))
    (folder / "README.md").write_text(text + "\n".join(lines) + "\n" + FOOTNOTE)
    _draw(records, folder / "growth.png")


def _row(title: str, path: str, form: str, records: list[Record]) -> str:
    values = [_value(record, path) for record in records]
    if all(value is None for value in values):
        return ""
    cells = ["–" if value is None else form.format(value) for value in values]
    plain = isinstance(values[0], (int, float)) and isinstance(values[-1], (int, float)) and values[0]
    growth = f"{values[-1] / values[0]:.1f}" if plain and len(values) > 1 else ""
    return f"| {title} | {' | '.join(cells)} | {growth} |"


def _derive(record: Record) -> None:
    """Figures that are made of others."""
    if "query" in record:
        record["query"]["query_ms"] = record["query"]["features_ms"] + record["query"]["heads_ms"]
    if "search" in record:
        record["search"]["everything_ms"] = 1e3 * record["search"]["everything_s"]
    if "first_fix" in record:
        tried = [found for found in record["first_fix"].values() if isinstance(found, dict)]
        record["first_fix"]["wrong"] = sum(found["wrong"] for found in tried)


def _never(records: list[Record]) -> int:
    """What stands for a first position that did not come."""
    return next((record["first_fix"]["most_frames"] + 1 for record in records if "first_fix" in record), 0)


def _value(record: Record, path: str) -> Any:
    value: Any = record
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, list):
        return ", ".join(f"{item:.3g}" for item in value)
    return None if isinstance(value, float) and math.isnan(value) else value


def _draw(records: list[Record], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8.0, 5.0), layout="constrained")
    for title, curve in CURVES.items():
        points = [(record["km2"], _value(record, curve)) for record in records]
        points = [(km2, value) for km2, value in points if value]
        if points:
            axes.loglog(*zip(*points), marker="o", label=title)
    axes.set(xlabel="km²", ylabel="processor time, in the unit of each")
    axes.grid(True, which="both", alpha=0.2)
    axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.savefig(path, dpi=100)
    pyplot.close(figure)
