"""What each change of look brings to generation 0, trained under none, one alone and all; and how it best begins.

    python benchmarks/base_training.py FOLDER --kind north_up --steps 240 --out benchmarks/results/base_training.json
    python benchmarks/base_training.py --table benchmarks/results/base_training.json

FOLDER holds the rasters of config/scenarios/naip_nd.yaml. The network is trained on the date of 2015 and placed over
random crops and over frames of flights: of the dates and sensors of the missions that are learnt later. Those of the
held-out missions are left out, as looks are chosen by these figures, and so is 2018, a second date of the map in one of
the rows. What the file holds already is skipped.
"""

from __future__ import annotations

import argparse
import functools
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from tracking import MAP_DATE, flown

from aerial_vpr_cl.evaluation.flight_score import score
from aerial_vpr_cl.evaluation.store_evaluation import follow
from aerial_vpr_cl.files import replace_file
from aerial_vpr_cl.geo.view_kind import AS_SEEN, NORTH_UP, ViewKind
from aerial_vpr_cl.knowledge.facts import GenerationFacts
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.knowledge import commit_generation, load_knowledge
from aerial_vpr_cl.knowledge.map_dates import add_dates
from aerial_vpr_cl.knowledge.map_folder import build_map
from aerial_vpr_cl.learning import base_training, recipes
from aerial_vpr_cl.learning.augmentation import AUGMENTATIONS, PAPER, STYLE, Augmentation
from aerial_vpr_cl.learning.base_training_settings import BaseTrainingSettings
from aerial_vpr_cl.learning.calibration import scores_of
from aerial_vpr_cl.learning.satellite_batches import held_out_views
from aerial_vpr_cl.learning.weight_mean import WeightMean
from aerial_vpr_cl.localization.localizer import Localizer, LocalizerSettings, SingleFrames
from aerial_vpr_cl.memory.buffer import ReplayBuffer
from aerial_vpr_cl.mission.mission import Flight
from aerial_vpr_cl.model.backbone import LIVING_BLOCKS
from aerial_vpr_cl.model.network import Network
from aerial_vpr_cl.progress import ProgressBar
from aerial_vpr_cl.satellite.patches import PatchSettings
from aerial_vpr_cl.satellite.raster import SatelliteMap
from aerial_vpr_cl.simulation.scenario import MissionSpec, load_scenario

SCENARIO = Path(__file__).parents[1] / "config" / "scenarios" / "naip_nd.yaml"
MAP = PatchSettings(cell_side_m=250.0, footprint_m=560.0)
NEAR_M = 300.0
CROPS = 250
CHANGES = {
    "brightness, contrast, colour, grey": ("brightness", "contrast", "colour", "grey"),
    "tone curves, folded ones too": ("tone", "fold"),
    "mixed channels": ("mixing", "signed"),
    "random convolution": ("texture",),
    "bright and dark swapped": ("invert",),
    "shading, and fields the map has not": ("shading", "patchwork"),
    "blur and noise": ("softness", "noise"),
    "moved borders of surfaces": ("bands",),
}
ALL = "all"
MEANS = {  # of the weights of that same training, by the power of a step's number that it counts by
    "all, a mean of later weights": 16.0,
    "all, the last weights instead of their mean": 1e12,
}
TWO_DATES = "all, on a map of two dates"
SECOND_DATE = "m_4709963_se_14_1_20180716.tif"
FRAMES = 40


@dataclass(frozen=True)
class Way:
    """What a network is shown, and what it begins with: unless told otherwise as the paper has it, but for looks."""

    looks: Augmentation
    unseen: float = 0.0  # share of the views that lack what a turned camera does not see
    living_blocks: int = LIVING_BLOCKS
    imprint: int = 0


def ways(kind: str) -> dict[str, Way]:
    """What is trained, by what the table calls it; only north-up views lack corners."""
    alone = {
        name: Way(Augmentation(**{field: getattr(STYLE, field) for field in fields}))
        for name, fields in CHANGES.items()
    }
    found = {"none (the paper's crops)": Way(PAPER), **alone, ALL: Way(STYLE), TWO_DATES: Way(STYLE)}
    ours = recipes.EMBEDDED_RECIPE.for_view(ViewKind())
    blocks, views = ours.living_blocks, ours.imprint
    unseen = ours.augmentation.unseen if kind == NORTH_UP else 0.0
    if unseen:
        found["all, corners without ground in training"] = Way(STYLE, unseen)
    return {
        **found,
        f"all, {blocks} blocks that learn": Way(STYLE, unseen, living_blocks=blocks),
        "all, imprinted heads": Way(STYLE, unseen, imprint=views),
        f"all, {blocks} blocks and imprinted heads: the default": Way(STYLE, unseen, blocks, views),
    }


@dataclass(frozen=True)
class Trained:
    """One network: how it was trained, and the shares of crops and frames that it places within 300 m."""

    kind: str
    looks: str
    steps: int
    seed: int
    seconds: int
    own_date: float
    crops: dict[str, float]  # by mission, whose date and sensor they are
    frames: dict[str, float]

    @property
    def way(self) -> tuple[str, str, int, int]:
        """What tells it from others."""
        return self.kind, self.looks, self.steps, self.seed


def errors_m(store: Path, raster: Path, bands: list[int], crops: int = CROPS) -> NDArray[np.float64]:
    """How far from random crops of a raster the store's network puts them."""
    known = load_knowledge(GenerationStore(store), torch.device("cpu"))
    satellite = SatelliteMap.open(raster, bands=bands, epsg=known.map.grid.epsg)
    other = replace(known.map, opened=satellite, laid=known.map.patches)  # the same cells with other pixels
    views = held_out_views(other, known.network.input_size, crops, seed=77)
    predicted = known.map.grid.centres[scores_of(known.network, views.images).argmax(axis=1)]
    return np.asarray(np.linalg.norm(predicted - views.positions, axis=1))


@functools.cache
def flights(folder: Path) -> dict[str, Flight]:
    """Missions of the sequence, some frames each, evenly over their tracks; instruments err."""
    missions = load_scenario(SCENARIO, raster=folder).missions
    chosen = [spec for spec in missions if spec.role == "sequence" and Path(spec.raster).name != SECOND_DATE]
    return {spec.name: flown(folder, thinned(spec, FRAMES))[1] for spec in chosen}


def thinned(spec: MissionSpec, frames: int) -> MissionSpec:
    """The same track with fewer frames."""
    spacing_m = spec.track.spacing_m * spec.frames / frames
    return replace(spec, frames=frames, track=replace(spec.track, spacing_m=spacing_m))


def train(folder: Path, kind: str, looks: str, how: Way, steps: int, seed: int) -> Iterator[Trained]:
    """Train in some way, and place crops of the map's date, and crops and frames of those of the missions."""
    settings = BaseTrainingSettings(
        backbone="tf_efficientnet_lite0",
        augmentation="style",
        living_blocks=how.living_blocks,
        imprint=how.imprint,
        max_steps=steps,
        good_recall=2.0,
        patience=1000,
        plateau_cycles=3,
        exemplars=1,
        exemplar_candidates=1,  # nothing is learnt afterwards
        seed=seed,
        device="cpu",
    )
    means: dict[str, WeightMean] = {}
    with tempfile.TemporaryDirectory() as scratch:
        store = Path(scratch) / "store"
        build_map(folder / MAP_DATE, store, replace(MAP, view=kind), bands=[1, 2, 3])
        if looks == TWO_DATES:
            add_dates(store, [folder / SECOND_DATE], bands=[1, 2, 3])
        start = time.monotonic()
        with (
            patch.dict(AUGMENTATIONS, style=how.looks),
            patch.object(recipes, "UNSEEN", how.unseen),
            patch.object(base_training, "WeightMean", beside(means)),
        ):
            base_training.train_base(store, settings, ProgressBar())
        way = steps, seed, round(time.monotonic() - start)
        yield Trained(kind, looks, *way, **shares_near(folder, store))
        for name, mean in means.items() if looks == ALL else ():
            buffer = ReplayBuffer.empty(mean.network.grid.n_groups)
            commit_generation(GenerationStore(store), mean.network, buffer, GenerationFacts())
            yield Trained(kind, name, *way, **shares_near(folder, store))


def beside(means: dict[str, WeightMean]) -> type[WeightMean]:
    """The mean of base training, which fills in others as it goes."""

    class Beside(WeightMean):
        def __init__(self, network: Network) -> None:
            super().__init__(network)
            means.update({name: WeightMean(network, growth) for name, growth in MEANS.items()})

        def add(self, step: int) -> None:
            super().add(step)
            for mean in means.values():
                mean.add(step)

    return Beside


def shares_near(folder: Path, store: Path) -> dict[str, Any]:
    """The figures of a store's newest network."""

    def near(raster: Path, bands: list[int]) -> float:
        return float((errors_m(store, raster, bands) <= NEAR_M).mean())

    specs = {spec.name: spec for spec in load_scenario(SCENARIO, raster=folder).missions}
    flown_over = {name: specs[name] for name in flights(folder)}
    network = SingleFrames(Localizer.open(store), LocalizerSettings(min_confidence=0.0))
    return {
        "own_date": near(folder / MAP_DATE, [1, 2, 3]),
        "crops": {name: near(folder / Path(spec.raster).name, list(spec.bands)) for name, spec in flown_over.items()},
        "frames": {name: score([follow(network, flight)]).recall["300"] for name, flight in flights(folder).items()},
    }


def table(results: list[Trained]) -> Iterator[str]:
    """Markdown, one row a way of training; the mean over seeds."""
    yield "| view | steps | changes of look | crops: own date | other dates, VIS | IR | frames: VIS | IR | minutes |"
    yield "|---|--:|---|--:|--:|--:|--:|--:|--:|"
    for kind, looks, steps in dict.fromkeys((one.kind, one.looks, one.steps) for one in results):
        same = [one for one in results if (one.kind, one.looks, one.steps) == (kind, looks, steps)]
        figures = [[one.own_date, *_sensors(one.crops), *_sensors(one.frames)] for one in same]
        cells = " | ".join(f"{100 * figure:.1f} %" for figure in np.mean(figures, axis=0))
        yield f"| {kind} | {steps} | {looks} | {cells} | {np.mean([one.seconds for one in same]) / 60:.1f} |"


def _sensors(shares: dict[str, float]) -> list[float]:
    """Means over the missions in visible light and in infrared."""
    sensors = ("VIS", "IR")
    return [float(np.mean([share for name, share in shares.items() if name.endswith(own)])) for own in sensors]


def read(path: Path) -> list[Trained]:
    """What was measured already."""
    return [Trained(**values) for values in json.loads(path.read_text())] if path.exists() else []


def main() -> None:
    """Train what is missing, or print the table of what is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="rasters; with none the table is printed")
    parser.add_argument("--kind", choices=(AS_SEEN, NORTH_UP), default=NORTH_UP)
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", metavar="WORDS", help="rows whose name holds one of these")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/base_training.json"))
    parser.add_argument("--table", type=Path, help="print the table of this file")
    args = parser.parse_args()
    if args.table or not args.folder:
        print("\n".join(table(read(args.table or args.out))))
        return
    for looks, how in ways(args.kind).items():
        results = read(args.out)
        if (args.kind, looks, args.steps, args.seed) in {one.way for one in results}:
            continue
        if args.only and not any(words in looks for words in args.only):
            continue
        for trained in train(args.folder, args.kind, looks, how, args.steps, args.seed):
            results.append(trained)
            replace_file(args.out, (json.dumps([asdict(one) for one in results], indent=1) + "\n").encode())
    print("\n".join(table(read(args.out))))


if __name__ == "__main__":
    main()
