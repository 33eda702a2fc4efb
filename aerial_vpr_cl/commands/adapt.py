"""aerial-vpr adapt: Learn-and-Dispose on missions."""

from __future__ import annotations

import argparse
from pathlib import Path

from aerial_vpr_cl.errors import AerialVprError, StoreError
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.readiness import what_is_missing
from aerial_vpr_cl.learning.adapt import adapt
from aerial_vpr_cl.learning.adapt_settings import AdaptSettings
from aerial_vpr_cl.mission.open_mission import missions_being_recorded
from aerial_vpr_cl.progress import ProgressBar
from aerial_vpr_cl.settings import add_arguments as add_settings
from aerial_vpr_cl.settings import from_arguments

HELP = """Learn from missions: adapt the network to each, choose what the replay buffer keeps, commit the next
generation, and then DELETE the raw mission (--keep-raw keeps it). Without missions, those waiting in
STORE/missions are learnt. Interrupting leaves the old generation and the mission as they were."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    parser.add_argument("store", type=Path, help="store made by build-map and train-base")
    parser.add_argument(
        "missions", type=Path, nargs="*", metavar="MISSION", help="bag directories, learnt in this order"
    )
    parser.add_argument("--settings", type=Path, help="YAML file with the options below; options given here win")
    add_settings(parser, AdaptSettings)


def run(args: argparse.Namespace) -> None:
    """Adapt and print a line for each mission."""
    settings = from_arguments(args, AdaptSettings, args.settings)
    if missing := what_is_missing(str(args.store)):
        raise StoreError(missing)
    missions = args.missions or GenerationStore(args.store).waiting_missions()
    if not missions:
        recording = missions_being_recorded(GenerationStore(args.store).missions_dir)
        still = f"; {', '.join(recording)} is still being recorded" if recording else ""
        print(f"{args.store}: no mission is waiting{still}")
        args.json.write({"missions": []})
        return
    reports = adapt(args.store, missions, settings, ProgressBar())
    for report in reports:
        print(report.summary())
        if costs := report.costs():
            print(costs)
    args.json.write({"missions": [report.to_dict() for report in reports]})
    failed = [report.mission for report in reports if not report.committed]
    if failed:
        raise AerialVprError(f"not learnt: {', '.join(failed)}")
