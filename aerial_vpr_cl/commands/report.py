"""aerial-vpr report: recorded flights as a page to look at, for an operator after landing or to compare runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from aerial_vpr_cl.files import prepare_output
from aerial_vpr_cl.localization.tracker_settings import TrackerSettings
from aerial_vpr_cl.model.runtimes.engine import AUTO, RUNTIME_HELP, RUNTIMES
from aerial_vpr_cl.page.flight_page import write_page
from aerial_vpr_cl.page.flown import fly_again, learning_lines
from aerial_vpr_cl.progress import ProgressBar
from aerial_vpr_cl.settings import add_arguments as add_settings
from aerial_vpr_cl.settings import from_arguments

HELP = """Fly recorded flights again through the tracker of a store and write one page about them: the map with track,
ellipses, truth, GNSS and silences by reason; a slider through the frames with view and map side by side; error, sigma,
confidence and latency over time; all flights side by side; what was learnt. One file that needs no network."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    parser.add_argument("store", type=Path, help="store made by build-map and train-base")
    parser.add_argument("bags", type=Path, nargs="+", metavar="BAG", help="bag directories")
    parser.add_argument("--out", type=Path, default=Path("report.html"), help="the page (default: report.html)")
    parser.add_argument("--title", default="", help="headline (default: the names of the flights)")
    parser.add_argument("--device", default="auto", help="cpu, cuda, ...; auto takes a GPU if there is one")
    parser.add_argument("--runtime", choices=RUNTIMES, default=AUTO, help=RUNTIME_HELP)
    add_settings(parser, TrackerSettings)


def run(args: argparse.Namespace) -> None:
    """Fly and write."""
    prepare_output(args.out)
    bar = ProgressBar()
    settings = from_arguments(args, TrackerSettings)
    try:
        ground, runs = fly_again(
            args.store, args.bags, settings=settings, device=args.device, runtime=args.runtime, progress=bar
        )
    finally:
        bar.close()
    title = args.title or f"Flights {', '.join(run.name for run in runs)}"
    write_page(args.out, title, ground, runs, learning_lines(args.store), f"store {args.store.name}")
    for run in runs:
        print(f"{run.name}: {run.summary}")
    print(f"{args.out}: open it in a browser")
