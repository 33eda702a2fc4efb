"""aerial-vpr evaluate: how well a store's newest generation places the frames of recorded missions."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from aerial_vpr_cl.evaluation.metrics import mean_std, summarize_by_modality
from aerial_vpr_cl.evaluation.store_evaluation import MissionErrors, evaluate_store
from aerial_vpr_cl.evaluation.tables import LOCALIZATION_COLUMNS, Panel, Table, markdown
from aerial_vpr_cl.files import replace_file
from aerial_vpr_cl.localization.estimate import REASONS
from aerial_vpr_cl.progress import ProgressBar

HELP = """Measure the newest generation of a store on mission bags: share of frames within 50, 100, 200 and 300 m, and
median, mean and root-mean-square error, for each bag, for all, and for visible and infrared frames apart.
Positions are the bag's true ones where it has them (/ground_truth/fix), else its GNSS fixes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    parser.add_argument("store", type=Path, help="store made by build-map and train-base")
    parser.add_argument("bags", type=Path, nargs="+", metavar="BAG", help="bag directories")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures and errors to a file")
    parser.add_argument("--image-topic", metavar="TOPIC", help="topic of the frames (default: found by type)")
    parser.add_argument("--fix-topic", metavar="TOPIC", help="topic of the GNSS fixes (default: found by type)")
    parser.add_argument("--device", default="auto", help="cpu, cuda, ...; auto takes a GPU if there is one")


def run(args: argparse.Namespace) -> None:
    """Evaluate and print the table."""
    bar = ProgressBar()
    try:
        generation, missions = evaluate_store(
            args.store,
            args.bags,
            device=args.device,
            image_topic=args.image_topic,
            fix_topic=args.fix_topic,
            progress=bar,
        )
    finally:
        bar.close()
    summaries = _summaries(missions)
    print(f"generation {generation}")
    rows = {name: {key: mean_std([value]) for key, value in figures.items()} for name, figures in summaries.items()}
    print(markdown(Table(LOCALIZATION_COLUMNS, [Panel(rows)], marks=0, corner="Frames of")))
    for mission in missions:
        if mission.positions == "gnss":
            print(f"{mission.name}: no true positions in the bag; measured against its GNSS")
        for reason, count in mission.silent.items():
            print(f"{mission.name}: {count} frames without an answer: {REASONS[reason]}")
    if args.json is not None:
        values = {
            "generation": generation,
            "summaries": summaries,
            "missions": [mission.to_dict() for mission in missions],
        }
        args.json.parent.mkdir(parents=True, exist_ok=True)
        replace_file(args.json, (json.dumps(values, indent=1) + "\n").encode())


def _summaries(missions: list[MissionErrors]) -> dict[str, dict[str, float]]:
    """Figures of every mission, then of all frames and of each modality."""
    found = {}
    for mission in missions:
        found[mission.name] = asdict(summarize_by_modality(mission.errors_m, [])["all"])
    errors = [error for mission in missions for error in mission.errors_m]
    modalities = [mission.modality for mission in missions for _ in mission.errors_m]
    whole = summarize_by_modality(errors, modalities)
    return {**found, **{kind if kind != "all" else "all frames": asdict(part) for kind, part in whole.items()}}
