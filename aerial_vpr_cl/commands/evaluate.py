"""aerial-vpr evaluate: how well a store's newest generation places the frames of recorded flights."""

from __future__ import annotations

import argparse
from pathlib import Path

from aerial_vpr_cl.evaluation.flight_score import FlightAnswers, FlightScore
from aerial_vpr_cl.evaluation.score_tables import flight_values, score_table, scores_of
from aerial_vpr_cl.evaluation.store_evaluation import evaluate_store
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.localization.estimate import REASONS
from aerial_vpr_cl.localization.tracker_settings import TrackerSettings
from aerial_vpr_cl.model.runtimes.names import AUTO, RUNTIME_HELP, RUNTIMES
from aerial_vpr_cl.progress import ProgressBar
from aerial_vpr_cl.settings import add_arguments as add_settings
from aerial_vpr_cl.settings import from_arguments

HELP = """Fly recorded flights again through the tracker of a store, frame by frame from a cold start, and measure its
answers: how many, how near, how honest their ellipses are, and why there were none. For each bag, for all, and for
visible and infrared frames apart. Positions are the bag's true ones where it has them (/ground_truth/fix), else its
GNSS fixes. Parts can be switched off: --no-use-network, --no-use-registration, --no-use-belief."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    parser.add_argument("store", type=Path, help="store made by build-map and train-base")
    parser.add_argument("bags", type=Path, nargs="+", metavar="BAG", help="bag directories")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="also draw tracks, errors and reliability there")
    parser.add_argument(
        "--alone", action="store_true", help="the network's cell of every frame alone, as in the paper; all are counted"
    )
    parser.add_argument("--image-topic", metavar="TOPIC", help="topic of the frames (default: found by type)")
    parser.add_argument("--fix-topic", metavar="TOPIC", help="topic of the GNSS fixes (default: found by type)")
    parser.add_argument("--device", default="auto", help="cpu, cuda, ...; auto takes a GPU if there is one")
    parser.add_argument("--runtime", choices=RUNTIMES, default=AUTO, help=RUNTIME_HELP)
    add_settings(parser, TrackerSettings)


def run(args: argparse.Namespace) -> None:
    """Evaluate and print the table."""
    bar = ProgressBar()
    try:
        generation, flights = evaluate_store(
            args.store,
            args.bags,
            settings=from_arguments(args, TrackerSettings),
            alone=args.alone,
            device=args.device,
            runtime=args.runtime,
            image_topic=args.image_topic,
            fix_topic=args.fix_topic,
            progress=bar,
        )
    finally:
        bar.close()
    scores = scores_of(flights)
    print(f"generation {generation}")
    print(score_table(scores))
    for flight in flights:
        _tell(flight, scores[flight.name])
    summaries = {name: found.to_dict() for name, found in scores.items()}
    missions = [flight_values(flight) for flight in flights]
    args.json.write({"generation": generation, "summaries": summaries, "missions": missions})
    if args.plots is not None:
        from aerial_vpr_cl.evaluation.track_pictures import draw_flights

        for path in draw_flights(open_map(args.store).satellite, flights, args.plots):
            print(path)


def _tell(flight: FlightAnswers, found: FlightScore) -> None:
    """What the table does not say."""
    if flight.positions != "truth":
        against = "measured against its GNSS" if flight.positions else "and no GNSS: nothing to measure against"
        print(f"{flight.name}: no true positions in the bag; {against}")
    for reason, count in found.silences.items():
        print(f"{flight.name}: {count} frames without a position: {REASONS.get(reason, reason)}")
