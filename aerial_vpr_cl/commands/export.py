"""aerial-vpr export: engines of the network for the flight computer."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from aerial_vpr_cl.knowledge.engines import export_engines
from aerial_vpr_cl.progress import ProgressBar

HELP = """Write the newest generation of a store for a faster runtime (ONNX Runtime) into STORE/engines.

The frozen trunk is written once, the tail for every generation. The localization node and `evaluate`, `localize`,
`replay` and `report` take engines that are there by themselves (runtime: auto); `adapt` makes those of the generations
that follow. Needs the packages of requirements/onnx.txt; to use what is there onnxruntime is enough.

--int8 quantises as well, calibrated on patches of the map and replayed frames. It is kept only if at least 99 % of
held-out views keep their cell and it is faster on this computer; else it is refused, with the figure."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    parser.add_argument("store", type=Path, metavar="STORE", help="directory of the store")
    parser.add_argument("--int8", action="store_true", help="also quantise, if that gives the same cells faster")


def run(args: argparse.Namespace) -> None:
    """Export, and print what is there now."""
    bar = ProgressBar()
    try:
        exported = export_engines(args.store, int8=args.int8, progress=bar)
    finally:
        bar.close()
    print(f"generation {exported.generation}")
    for path in exported.paths:
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
    if exported.judgement is not None:
        found = exported.judgement
        print(
            f"int8: {found.agreement:.1%} of {found.views} held-out views keep their cell; "
            f"{found.time_ratio:.2f} of the time of the exact engine"
        )
    sizes = {str(path): path.stat().st_size for path in exported.paths}
    judged = asdict(exported.judgement) if exported.judgement is not None else None
    args.json.write({"generation": exported.generation, "bytes": sizes, "int8": judged})
