"""aerial-vpr report: recorded flights as a page to look at, for an operator after landing or to compare runs."""

from __future__ import annotations

import argparse
from functools import cached_property
from pathlib import Path

from aerial_vpr_cl.files import prepare_output
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.localization.tracker_settings import TrackerSettings
from aerial_vpr_cl.model.runtimes.names import AUTO, RUNTIME_HELP, RUNTIMES
from aerial_vpr_cl.page.answered import answers_of_bag, run_of
from aerial_vpr_cl.page.flight_page import MAP_SIDE_PX, Page, write_page
from aerial_vpr_cl.page.flown import Pilot
from aerial_vpr_cl.page.learnt import generations_of, with_kept
from aerial_vpr_cl.page.results import RESULT_SUFFIX, read_results
from aerial_vpr_cl.page.runs import FlightRun, Ground, Result
from aerial_vpr_cl.page.thumbnails import MOST_PICTURES
from aerial_vpr_cl.progress import ProgressBar
from aerial_vpr_cl.settings import add_arguments as add_settings
from aerial_vpr_cl.settings import from_arguments

HELP = """Write one page about flights over the map of a store: the map with track, ellipses, truth, GNSS and silences
by reason; a slider through the frames with view, map and registration side by side; error, sigma, confidence and
latency over time; all flights side by side; what was learnt. One file that needs no network.

A BAG with images is flown again through the tracker of the store. A bag of answers (of `replay`) and a RESULT are
shown as they were answered: what `evaluate --json` and `replay --json` wrote, and records of `benchmark`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    parser.add_argument("store", type=Path, help="store made by build-map and train-base")
    parser.add_argument("flights", type=Path, nargs="+", metavar="BAG|RESULT", help="bag directories, or result files")
    parser.add_argument("--out", type=Path, default=Path("report.html"), help="the page (default: report.html)")
    parser.add_argument("--title", default="", help="headline (default: the names of the flights)")
    parser.add_argument("--device", default="auto", help="cpu, cuda, ...; auto takes a GPU if there is one")
    parser.add_argument("--runtime", choices=RUNTIMES, default=AUTO, help=RUNTIME_HELP)
    add_settings(parser, TrackerSettings)


def run(args: argparse.Namespace) -> None:
    """Fly and write."""
    prepare_output(args.out)
    reading = _Reading(args)
    try:
        for path in args.flights:
            reading.add(path)
    finally:
        reading.bar.close()
    satellite = open_map(args.store).satellite
    runs = with_kept(args.store, reading.runs)
    names = [*(flight.name for flight in runs), *(result.name for result in reading.results)]
    page = Page(
        args.title or f"Flights {', '.join(names)}",
        Ground(satellite.overview(MAP_SIDE_PX), satellite.bounds),
        runs,
        reading.results,
        generations_of(args.store),
        f"store {args.store.name}; pictures of at most {MOST_PICTURES} frames a flight",
    )
    size = write_page(args.out, page)
    for flight in runs:
        print(f"{flight.name}: {flight.summary}")
    flights = [{"name": flight.name, **flight.score} for flight in runs]
    args.json.write({"page": args.out, "bytes": size, "flights": flights})
    print(f"{args.out}: {size / 1e6:.1f} MB; open it in a browser")


class _Reading:
    """Flights and results, whatever kind of file they come from; a network is opened only for what is flown again."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._projection = open_map(args.store).grid.projection
        self.bar = ProgressBar()
        self.runs: list[FlightRun] = []
        self.results: list[Result] = []

    def add(self, path: Path) -> None:
        """One more."""
        if path.suffix == RESULT_SUFFIX:
            runs, results = read_results(path, self._projection.epsg)
            self.runs += runs
            self.results += results
        elif (answers := answers_of_bag(path, self._projection)) is not None:
            self.runs.append(run_of(answers))
        else:
            self.runs.append(self._pilot.fly(path))

    @cached_property
    def _pilot(self) -> Pilot:
        settings = from_arguments(self._args, TrackerSettings)
        return Pilot(self._args.store, settings, self._args.device, self._args.runtime, self.bar)
