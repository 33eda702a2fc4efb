"""aerial-vpr rollback: return to the generation before."""

from __future__ import annotations

import argparse
from pathlib import Path

from aerial_vpr_cl.knowledge.generations import GenerationStore

HELP = """Withdraw the newest generation, so that the one before it serves again. Missions that the withdrawn one
learnt were deleted when it was committed; they do not come back."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    parser.add_argument("store", type=Path, help="store with at least two generations")


def run(args: argparse.Namespace) -> None:
    """Roll back and say what serves now."""
    generation = GenerationStore(args.store).rollback()
    print(f"{args.store}: generation {generation.number} serves now")
    args.json.write({"generation": generation.number})
