"""How long, at which rates and beside how many exemplars a mission is best learnt: `turned` on one base model.

    aerial-vpr benchmark config/benchmarks/naip_nd_imprinted.yaml --raster-dir FOLDER --study parts --out WORK
    python benchmarks/mission_learning.py FOLDER WORK

What belongs to a method has names of its own and is compared by the first command; what belongs to every method's
learning is set here. Missions and base model are those of WORK. Records lie in WORK/ways and are kept.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from aerial_vpr_cl.benchmark.runner import run_all
from aerial_vpr_cl.benchmark.settings import load_benchmark
from aerial_vpr_cl.benchmark.work_folder import WorkFolder
from aerial_vpr_cl.progress import ProgressBar

CONFIG = Path(__file__).parents[1] / "config" / "benchmarks" / "naip_nd_imprinted.yaml"
WAYS: dict[str, dict[str, Any]] = {
    "30 exemplars a step instead of 10": {"batch_exemplar": 30},
    "15 cycles instead of 6": {"cycles": 15},
    "15 cycles, the paper's rates (1e-5 and 1e-3)": {"cycles": 15, "tail_rate": 1e-5, "head_rate": 1e-3},
    "a rate is halved after 3 cycles instead of 1": {"cycles": 15, "plateau_cycles": 3},
}
METHOD = "turned"
FIGURES = ("faa", "bwt", "fwt", "c1", "c2", "c3")


def work_of(name: str, change: dict[str, Any], folder: Path, work: Path) -> WorkFolder:
    """A work folder beside the others, over the same missions and base model."""
    benchmark = load_benchmark(CONFIG, raster_dir=folder).narrowed(["main"], methods=[METHOD], seeds=[0])
    settings = replace(benchmark.settings, store=work / "store", learn=replace(benchmark.settings.learn, **change))
    path = work / "ways" / name.replace(" ", "_").replace("/", "-")
    path.mkdir(parents=True, exist_ok=True)
    if not (path / "missions").exists():
        (path / "missions").symlink_to((work / "missions").resolve(), target_is_directory=True)
    return WorkFolder(path, replace(benchmark, settings=settings))


def lines(folder: Path, work: Path) -> Iterator[str]:
    """The table, a way a row."""
    yield "| way | " + " | ".join(name.upper() for name in FIGURES) + " | minutes a mission |"
    yield "|---|" + "--:|" * (len(FIGURES) + 1)
    for name, change in WAYS.items():
        way = work_of(name, change, folder, work)
        way.prepare(ProgressBar())
        run_all(way, progress=ProgressBar())
        (path,) = way.results.glob("*.json")
        record = json.loads(path.read_text())
        figures = " | ".join(f"{100 * record['summary'][figure]:.1f}" for figure in FIGURES)
        learn_s = record["timing"]["learn_s"]
        yield f"| {name} | {figures} | {sum(learn_s) / len(learn_s) / 60:.1f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="rasters of config/scenarios/naip_nd.yaml")
    parser.add_argument("work", type=Path, help="work folder of naip_nd_imprinted.yaml, with its base model")
    args = parser.parse_args()
    for line in lines(args.folder, args.work):
        print(line, flush=True)


if __name__ == "__main__":
    main()
