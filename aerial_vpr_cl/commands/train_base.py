"""aerial-vpr train-base: generation 0 from the satellite map."""

from __future__ import annotations

import argparse
from pathlib import Path

from aerial_vpr_cl.learning.base_training import train_base
from aerial_vpr_cl.learning.base_training_settings import BaseTrainingSettings
from aerial_vpr_cl.progress import ProgressBar
from aerial_vpr_cl.settings import add_arguments as add_settings
from aerial_vpr_cl.settings import from_arguments

HELP = """Train the base model on the satellite map of a store and commit it as generation 0.

An interrupted run goes on where it was when the command is given again with the same options.
Several GPUs or computers:  torchrun --nproc-per-node 4 -m aerial_vpr_cl train-base STORE"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    parser.add_argument("store", type=Path, help="store made by build-map")
    parser.add_argument("--settings", type=Path, help="YAML file with the options below; options given here win")
    add_settings(parser, BaseTrainingSettings)


def run(args: argparse.Namespace) -> None:
    """Train, and print what came out."""
    generation = train_base(args.store, from_arguments(args, BaseTrainingSettings, args.settings), ProgressBar())
    if generation is not None:
        recall = generation.facts.held_out_recall
        print(
            f"generation {generation.number}: {recall:.1%} of held-out views placed within 1.5 cells; {generation.path}"
        )
        args.json.write({"generation": generation.number, "held_out_recall": recall, "path": generation.path})
