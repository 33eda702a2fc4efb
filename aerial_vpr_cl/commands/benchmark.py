"""aerial-vpr benchmark: compare continual-learning methods over mission orders and seeds."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from aerial_vpr_cl.benchmark.pictures import draw_pictures
from aerial_vpr_cl.benchmark.report import write_report
from aerial_vpr_cl.benchmark.runner import finished, run_all, waiting
from aerial_vpr_cl.benchmark.settings import load_benchmark
from aerial_vpr_cl.benchmark.sues200_folder import Sues200Folder
from aerial_vpr_cl.benchmark.work_folder import WorkFolder
from aerial_vpr_cl.progress import ProgressBar

HELP = """Run methods × orders × seeds over missions, as a benchmark file says, and print the paper's tables.

Missions are flown, the map is built and the base model is trained first, once. Every run writes one JSON file to
OUT/results; runs that have theirs are skipped, so an interrupted benchmark goes on when the command is given again.
Tables (Markdown, CSV, LaTeX) and figures are in OUT/report. Options that choose methods, orders, seeds or budgets
narrow the first study of the file, or those named by --study."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    parser.add_argument(
        "config", type=Path, metavar="CONFIG", help="benchmark file, such as config/benchmarks/demo.yaml"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="work folder (default: runs/NAME of the file)")
    parser.add_argument(
        "--raster-dir", type=Path, metavar="DIR", help="folder of what the file names: GeoTIFFs or a data set"
    )
    parser.add_argument("--study", nargs="+", metavar="NAME", help="only these studies (default: all)")
    parser.add_argument("--methods", nargs="+", metavar="NAME", help="instead of the study's methods")
    parser.add_argument("--orders", nargs="+", metavar="NAME", help="instead of the study's mission orders")
    parser.add_argument("--seeds", nargs="+", type=int, metavar="N", help="instead of the study's seeds")
    parser.add_argument("--budgets", nargs="+", type=int, metavar="B", help="instead of the study's buffer capacities")
    parser.add_argument("--workers", type=int, metavar="N", help="processes side by side (default: one a CPU core)")
    parser.add_argument("--ray", action="store_true", help="run on the Ray cluster instead; needs Ray")
    parser.add_argument("--list", action="store_true", help="show the runs and which are done, and stop")
    parser.add_argument("--report", action="store_true", help="write the report of the finished runs, run nothing")


def run(args: argparse.Namespace) -> None:
    """Prepare, run, report."""
    benchmark = load_benchmark(args.config, raster_dir=args.raster_dir)
    choices = {name: getattr(args, name) for name in ("methods", "orders", "seeds", "budgets")}
    benchmark = benchmark.narrowed(args.study, **choices)
    kind = Sues200Folder if benchmark.settings.sues200 else WorkFolder
    work = kind(args.out or Path("runs") / args.config.stem, benchmark)
    if args.list:
        left = set(waiting(work))
        for one in benchmark.runs():
            print(f"{'waiting' if one in left else 'done   '}  {one.name}")
        print(f"{len(benchmark.runs()) - len(left)} of {len(benchmark.runs())} runs are done")
        args.json.write({"runs": {one.name: {"done": one not in left} for one in benchmark.runs()}})
        return
    if not args.report:
        workers = max(1, args.workers or (os.cpu_count() or 1) // benchmark.settings.threads)
        bar = ProgressBar()
        try:
            work.prepare(bar)
            run_all(work, workers=workers, ray=args.ray, progress=bar)
        finally:
            bar.close()
    records = finished(work)
    report = work.path / "report"
    print(write_report(benchmark, records, report))
    draw_pictures(work, records, report)
    print(f"{len(records)} runs; tables and figures in {report}")
    kept = ("summary", "localization", "held_out_recall", "matrix", "missions", "threshold_m")
    runs = {one.name: {name: record[name] for name in kept} for one, record in records.items()}
    args.json.write({"report": report, "runs": runs})
