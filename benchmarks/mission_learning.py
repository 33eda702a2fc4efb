"""How long, at which rates, beside how many exemplars and how far drawn back a mission is best learnt: `turned`.

    aerial-vpr benchmark config/benchmarks/naip_nd_imprinted.yaml --raster-dir FOLDER --study parts --out WORK
    python benchmarks/mission_learning.py FOLDER WORK

What belongs to a method has names of its own and is compared by the first command; what belongs to every method's
learning is set here. Missions and base model are those of WORK. Records lie in WORK/ways and are kept, so that ways may
be learnt one by one (--only), in other orders (--orders) and side by side; the table has those that are there, and the
means over the orders that they have in common.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from aerial_vpr_cl.benchmark.runner import run_all
from aerial_vpr_cl.benchmark.settings import load_benchmark
from aerial_vpr_cl.benchmark.work_folder import WorkFolder
from aerial_vpr_cl.learning import mission_step
from aerial_vpr_cl.learning.adapt_settings import GateSettings, LearnSettings
from aerial_vpr_cl.learning.loop import LearnReport, Memories, learn
from aerial_vpr_cl.learning.methods.base import Method
from aerial_vpr_cl.learning.recipes import Recipe
from aerial_vpr_cl.learning.trunk_outputs import TrunkOutputs
from aerial_vpr_cl.learning.validation import Questions
from aerial_vpr_cl.memory.buffer import Observation
from aerial_vpr_cl.model.network import Network
from aerial_vpr_cl.progress import Progress, ProgressBar, silent

CONFIG = Path(__file__).parents[1] / "config" / "benchmarks" / "naip_nd_imprinted.yaml"
METHOD = "turned"
FIGURES = ("faa", "bwt", "fwt", "c1", "c2", "c3")
SHARES = (0.0, 0.15, 0.3, 0.5, 0.7)
"""Of the weights before a mission, among which the gate chooses."""


@dataclass(frozen=True)
class Way:
    """What is other than in `turned` as it is."""

    learn: dict[str, Any] = field(default_factory=dict)  # fields of LearnSettings
    gate_chooses: bool = False  # how far weights are drawn back, mission by mission


WAYS = {
    "weights drawn back as far as the gate's questions are answered best": Way(gate_chooses=True),
    "30 exemplars a step instead of 10": Way({"batch_exemplar": 30}),
    "15 cycles instead of 6": Way({"cycles": 15}),
    "15 cycles, the paper's rates (1e-5 and 1e-3)": Way({"cycles": 15, "tail_rate": 1e-5, "head_rate": 1e-3}),
    "15 cycles, a rate is halved after 3 of them instead of 1": Way({"cycles": 15, "plateau_cycles": 3}),
}


def learn_and_let_the_gate_choose(
    network: Network,
    current: Sequence[Observation],
    memories: Memories,
    method: Method,
    recipe: Recipe,
    settings: LearnSettings,
    trunk: TrunkOutputs,
    progress: Progress = silent,
) -> LearnReport:
    """Learn without an anchor, then keep the share of the weights of before that answers best; the largest of equals.

    The questions are the gate's: the mission's frames, the replay buffer and a sample of the exemplars.
    """
    before = network.copy_living_parts()
    method.options = replace(method.options, anchor=0.0)  # type: ignore[call-arg]
    report = learn(network, current, memories, method, recipe, settings, trunk, progress)
    after = network.copy_living_parts()
    questions = Questions.about(network, current, memories, GateSettings().gate_samples)

    def answered(share: float) -> float:
        draw_back(network, after, before, share)
        told = questions.put_to(network, trunk)
        return float(np.nanmean([told.mission, told.replay, told.exemplars]))

    best = max((answered(share), share) for share in SHARES)[1]
    print(f"drawn back by {best:g} after {current[0].mission}", flush=True)
    draw_back(network, after, before, best)
    return report


@torch.no_grad()
def draw_back(network: Network, after: Network, before: Network, share: float) -> None:
    """Set the weights that learn to those between two networks."""
    for now, new, old in zip(network.parameters(), after.parameters(), before.parameters()):
        if now.requires_grad:
            now.copy_(new.lerp(old, share))


def work_of(name: str, way: Way, folder: Path, work: Path, orders: Sequence[str]) -> WorkFolder:
    """A work folder beside the others, over the same missions and base model."""
    config = load_benchmark(CONFIG, raster_dir=folder)
    benchmark = config.narrowed(["main"], methods=[METHOD], orders=list(orders), seeds=[0])
    settings = replace(benchmark.settings, store=work / "store", learn=replace(benchmark.settings.learn, **way.learn))
    path = work / "ways" / name.replace(" ", "_").replace("/", "-")
    path.mkdir(parents=True, exist_ok=True)
    for shared in ("missions", "trunk"):  # what the trunk said of the same views holds here, too
        if not (path / shared).exists():
            (path / shared).symlink_to((work / shared).resolve(), target_is_directory=True)
    return WorkFolder(path, replace(benchmark, settings=settings))


def make(way: Way, own: WorkFolder) -> None:
    """Its runs, unless there is a record of them."""
    gate: AbstractContextManager[Any] = nullcontext()
    if way.gate_chooses:
        gate = patch.object(mission_step, "learn", learn_and_let_the_gate_choose)
    with gate:
        own.prepare(ProgressBar())
        run_all(own, progress=ProgressBar())


def table(works: dict[str, Path]) -> Iterator[str]:
    """Markdown, a way a row, of those that have records; each is set beside what `turned` does in the same orders."""
    yield "| way | orders | " + " | ".join(name.upper() for name in FIGURES) + " | minutes a mission |"
    yield "|---|--:|" + "--:|" * (len(FIGURES) + 1)
    found = {name: records_of(results) for name, results in works.items()}
    sets = {frozenset(records) for records in found.values() if records}
    for orders in sorted(sets, key=lambda orders: (len(orders), sorted(orders))):
        for name, records in found.items():
            if orders <= set(records):
                yield row(name, [records[order] for order in sorted(orders)])


def records_of(results: Path) -> dict[str, dict[str, Any]]:
    """Records of METHOD by order."""
    ending = "-B50-s0.json"
    paths = results.glob(f"{METHOD}-*{ending}")
    return {path.name[len(METHOD) + 1 : -len(ending)]: json.loads(path.read_text()) for path in paths}


def row(name: str, records: Sequence[dict[str, Any]]) -> str:
    """Means over records."""
    values = [100 * np.mean([record["summary"][figure] for record in records]) for figure in FIGURES]
    minutes = np.mean([np.mean(record["timing"]["learn_s"]) for record in records]) / 60
    figures = " | ".join(f"{value:.1f}" for value in values)
    return f"| {name} | {len(records)} | {figures} | {minutes:.1f} |"


def main() -> None:
    """Learn in the ways that have no record, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="rasters of config/scenarios/naip_nd.yaml")
    parser.add_argument("work", type=Path, help="work folder of naip_nd_imprinted.yaml, with its base model")
    parser.add_argument("--orders", nargs="+", default=["forward"], help="mission orders (default: forward)")
    parser.add_argument("--only", nargs="*", metavar="WORDS", help="ways whose name holds one of these; none: no run")
    args = parser.parse_args()
    works = {name: work_of(name, way, args.folder, args.work, args.orders) for name, way in WAYS.items()}
    for name, way in WAYS.items():
        if args.only is None or any(words in name for words in args.only):
            make(way, works[name])
    print("\n".join(table({"as it is": args.work / "results", **{name: one.results for name, one in works.items()}})))


if __name__ == "__main__":
    main()
