"""One report with every figure that this package is to hold, and what else one could have done, side by side.

    make bench [RASTERS=FOLDER]          or: python benchmarks/bench.py [--rasters FOLDER] [--out FILE]

What fits in some minutes is measured in this run; what takes hours is quoted from the records that the named command
left in results/, and said to be. FOLDER holds the dated GeoTIFFs of naip_nd; without it their rows are left out.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

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
    "tracked, nothing learnt, of published: within 25 m": "tilt noise of 3° with a slow half bounds an ideal filter to "
    "72 to 81 % from 480 m up (results/tracking.md); next: a steadier attitude, or tilt read off the view itself",
    "availability after the first fix": "one stretch of one infrared flight; next: why its views fit so badly there",
    "learning step with cached trunk ÷ plain loop, ViT-B/14": "forward and backward through two of twelve blocks leave "
    "6 of 16 units of work, 0.38, before anything else is paid; next: mixed precision in the tail",
    "satellite storage ÷ raster, procedural ground at 5 m": "drawn ground deflates far better than photographed "
    "ground, its edges do not; measure with RASTERS=FOLDER",
    "published and wrong by more than 100 m": "none was wrong, but there are too few frames to say so; next: fly more",
    "off-map frames that get a position": "none got one, but there are too few frames to say so; next: fly more",
    "50 / 90 / 95 % regions hold the truth": "regions are too wide, as the errors that last are counted in full",
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
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="measure only these")
    parser.add_argument("--repeats", type=int, default=20, help="of quick measurements (default: %(default)s)")
    parser.add_argument("--vit", action="store_true", help="measure ViT-B/14 too: some minutes more")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "bench.md")
    args = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    start, load = time.monotonic(), os.getloadavg()[0]
    measured: list[Row] = []
    missing: dict[str, str] = {}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        effort = Effort(Path(scratch), repeats=args.repeats, rasters=args.rasters, vit=args.vit)
        for name in args.parts:
            begin = time.monotonic()
            try:
                measured += PARTS[name](effort)
            except NotHere as error:
                missing[name] = str(error)
            print(f"{name}: {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
            # After every part: a run that is interrupted leaves what it has.
            args.out.write_text(report(measured, quoted_rows(), missing, time.monotonic() - start, load))
    print(args.out.read_text())


def report(measured: list[Row], quoted: list[Row], missing: dict[str, str], seconds: float, load: float) -> str:
    """The page."""
    here = [row for row in measured if row.hold]
    beside = [row for row in [*measured, *quoted] if not row.hold]
    there = [row for row in quoted if row.hold]
    failed = [row.what for row in [*here, *there] if row.held is False]
    return "\n".join(
        [
            "# The figures to hold, and what else one could do",
            "",
            f"`make bench`, {seconds / 60:.1f} minutes. {_machine()}; one thread. Load when it began: {load:.1f} on "
            f"{os.cpu_count()} processors: with much other work seconds mean little, ratios more.",
            "",
            "## To be held, measured in this run",
            "",
            *_table(here),
            "",
            *(f"Not measured, {name}: {why}." for name, why in missing.items()),
            "",
            "## To be held, quoted from committed records of longer runs",
            "",
            *_table(there),
            "",
            "Quoted figures were not measured in this run; each file says by which command and on what they were.",
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
        f"| {row.what} | {row.hold} | {row.found} | {HELD[row.held]} | {row.detail} | {row.record or 'this run'} |"
        for row in rows
    ]


def _machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    revision = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, capture_output=True)
    return f"{model}, {os.cpu_count()} cores, PyTorch {torch.__version__}, commit {revision.stdout.decode().strip()}"


if __name__ == "__main__":
    main()
