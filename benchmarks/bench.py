"""One report with every figure that this package is to hold, and what else one could have done, side by side.

    make bench [RASTERS=FOLDER]          or: python benchmarks/bench.py [--rasters FOLDER] [--parts PART…] [--out DIR]

What fits in some minutes is measured in this run; what takes hours is quoted from the records that the named command
left in results/, and said to be. FOLDER holds the dated GeoTIFFs of naip_nd; without it their rows are left out.
Every part leaves a record, DIR/PART.json, and the report DIR.md is made of all of them: parts may be measured apart.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cv2
import torch
from bench_flight import answering, laying, real_dates, retrieving, running
from bench_learning import choosing, learning
from bench_records import quoted_rows
from bench_rows import Effort, NotHere, Row

PARTS: dict[str, Callable[[Effort], list[Row]]] = {
    "selection": choosing,
    "learning": learning,
    "registration": laying,
    "retrieval": retrieving,
    "runtime": running,
    "node": answering,
    "real": real_dates,
}

HELD = {True: "yes", False: "**no**", None: ""}

NOT_HELD = {
    "tracked, nothing learnt, of published: within 25 m": "a tilt error of 3° moves a view by 25 m "
    "from 480 m up, and the perspective takes a third off a single frame; next: a steadier attitude",
    "… within 50 m": "half of that error lasts for 15 s; next: as above",
    "registration alone, whole map, other dates, σ 3°, 5 %: within 50 m, VIS / NIR": "36 frames are few, three were "
    "missed; 306 have 98.4 / 98.7 % (results/registration.md)",
    "single-frame recall at 300 m, north up, other dates": "flights of the dates that look most unlike the "
    "map; next: several dates of the map",
    "availability after the first fix": "one stretch of one infrared flight; next: why its views fit so badly there",
    "learning step with cached trunk ÷ plain loop, ViT-B/14": "forward and backward through two of twelve blocks leave "
    "6 of 16 units of work, 0.38, before anything else is paid; next: mixed precision in the tail",
    "satellite storage ÷ raster, procedural ground at 5 m": "drawn ground deflates far better than photographed "
    "ground, its edges do not; measure with RASTERS=FOLDER",
    "published and wrong by more than 100 m": "none was wrong, but there are too few frames to say so; next: fly more",
    "off-map frames that get a position": "none got one, but there are too few frames to say so; next: fly more",
    "50 / 90 / 95 % regions hold the truth": "errors last otherwise than supposed; next: measure how long",
    "selection from n = 250 to 5,000 at B = 50": "times of a few milliseconds on a busy machine; next: more pools",
    "node time per frame ÷ its parts, raw": "executor and DDS weigh more than a tenth of a network of 13 ms; next: a "
    "composed camera and node in one process",
    "node time per frame ÷ its parts, compressed": "as with raw images, and a JPEG is decoded; next: decode at the "
    "size that is needed",
    "registration while tracking ÷ EfficientNet-Lite0": "the network became quicker than registration; next: fewer "
    "hypotheses once heading and scale are known",
}


def main() -> None:
    """Measure, quote, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rasters", type=Path, metavar="FOLDER", help="dated GeoTIFFs of naip_nd")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS), help="measure only these, or none")
    parser.add_argument("--repeats", type=int, default=20, help="of quick measurements (default: %(default)s)")
    parser.add_argument("--vit", action="store_true", help="measure ViT-B/14 too: some minutes more")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "bench", metavar="DIR")
    args = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        effort = Effort(Path(scratch), repeats=args.repeats, rasters=args.rasters, vit=args.vit)
        for name in args.parts:
            record = measure(name, effort)
            print(f"{name}: {record['seconds']:.0f} s", file=sys.stderr, flush=True)
            (args.out / f"{name}.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    found = {name: args.out / f"{name}.json" for name in PARTS}
    records = {name: json.loads(path.read_text()) for name, path in found.items() if path.exists()}
    page = args.out.with_suffix(".md")
    page.write_text(report(records, quoted_rows()))
    print(page.read_text())


def measure(part: str, effort: Effort) -> dict[str, Any]:
    """The record of a part."""
    start, load = time.monotonic(), os.getloadavg()[0]
    rows: list[Row] = []
    missing = ""
    try:
        rows = PARTS[part](effort)
    except NotHere as error:
        missing = str(error)
    facts = {"machine": machine(), "load": load, "seconds": round(time.monotonic() - start, 1)}
    return facts | {"missing": missing, "rows": [asdict(row) for row in rows]}


def report(records: dict[str, dict[str, Any]], quoted: list[Row]) -> str:
    """The page."""
    measured = [Row(**row) for record in records.values() for row in record["rows"]]
    here = [row for row in measured if row.hold]
    beside = [row for row in [*measured, *quoted] if not row.hold]
    there = [row for row in quoted if row.hold]
    failed = [row.what for row in [*here, *there] if row.held is False]
    loads = [record["load"] for record in records.values()]
    return "\n".join(
        [
            "# The figures to hold, and what else one could do",
            "",
            f"`make bench`, {sum(record['seconds'] for record in records.values()) / 60:.1f} minutes over all parts. "
            f"{'; '.join(sorted({record['machine'] for record in records.values()}))}; one thread. Load of the machine "
            f"meanwhile: {min(loads):.1f} to {max(loads):.1f}. Times are processor time; on a busy machine they are "
            "longer, too, and ratios say more.",
            "",
            "## To be held, measured by this command",
            "",
            *_table(here),
            "",
            *(f"Not measured, {name}: {record['missing']}." for name, record in records.items() if record["missing"]),
            "",
            "## To be held, quoted from committed records of longer runs",
            "",
            *_table(there),
            "",
            "Quoted figures were not measured by this command; each file says by which, and on what.",
            "",
            "## Side by side: what else one could do, ÷ what is done here",
            "",
            *_table(beside),
            "",
            "## What is not held, why, and what comes next",
            "",
            *(f"- {what}: {NOT_HELD.get(what, 'not looked into yet')}." for what in failed),
            *(["Everything that was measured or quoted here is held."] if not failed else []),
            "",
        ]
    )


def _table(rows: list[Row]) -> list[str]:
    head = ["| what | to hold | found | held | in detail | from |", "|---|---|--:|---|---|---|"]
    return head + [
        f"| {row.what} | {row.hold} | {row.found} | {HELD[row.held]} | {row.detail} | {row.record or 'measured'} |"
        for row in rows
    ]


def machine() -> str:
    """Its processor, PyTorch and the commit that was measured."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    revision = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, capture_output=True)
    return f"{model}, {os.cpu_count()} cores, PyTorch {torch.__version__}, commit {revision.stdout.decode().strip()}"


if __name__ == "__main__":
    main()
