"""Benchmark files: which missions over which map, how they are learnt, and which methods, orders and seeds run."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aerial_vpr_cl.benchmark.orders import order
from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.evaluation.metrics import PRIMARY_THRESHOLD_M
from aerial_vpr_cl.files import sha256_of
from aerial_vpr_cl.geo.view_kind import PAPER_VIEW
from aerial_vpr_cl.knowledge.draft import TAIL_FILE
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.learning.adapt_settings import LearnSettings
from aerial_vpr_cl.learning.augmentation import AUGMENTATIONS
from aerial_vpr_cl.learning.base_training_settings import BaseTrainingSettings
from aerial_vpr_cl.learning.methods import method_of
from aerial_vpr_cl.learning.recipes import recipe_of
from aerial_vpr_cl.memory.buffer import DEFAULT_BUDGET
from aerial_vpr_cl.model.backbone import LIVING_BLOCKS
from aerial_vpr_cl.model.network import NetworkSettings
from aerial_vpr_cl.satellite.patches import PatchSettings
from aerial_vpr_cl.settings import load_settings, read_yaml, setting


@dataclass(frozen=True, order=True)
class Run:
    """One pass of one method through the missions. Methods without a replay buffer have budget 0."""

    method: str
    order: str
    budget: int
    seed: int

    @property
    def name(self) -> str:
        """Name of the result file."""
        budget = f"-B{self.budget}" if self.budget else ""
        return f"{self.method}-{self.order}{budget}-s{self.seed}"


@dataclass(frozen=True)
class Study:
    """A question that a table answers: all combinations of methods, orders, budgets and seeds."""

    name: str = setting("main", "name of the study and of its tables")
    title: str = setting("", "caption of its tables")
    methods: tuple[str, ...] = setting(("ft", "ft_ex", "random", "dbs_hybrid"), "methods and selection strategies")
    orders: tuple[str, ...] = setting(("forward",), "mission orders: forward, backward, pressure, robust, random-SEED")
    seeds: tuple[int, ...] = setting((0, 1, 2), "seeds of everything that is drawn while learning")
    budgets: tuple[int, ...] = setting((DEFAULT_BUDGET,), "observations the replay buffer keeps per group (B)")

    def runs(self) -> list[Run]:
        """Its runs; seeds change fastest, so that runs side by side share little that has yet to be computed."""
        found: dict[Run, None] = {}
        for order_name in self.orders:
            for method in self.methods:
                for budget in self.budgets if method_of(method).strategy else (0,):
                    for seed in self.seeds:
                        found[Run(method, order_name, budget, seed)] = None
        return list(found)


LATER = {"living_blocks": LIVING_BLOCKS, "imprint": 0, "begin_with": None, "unseen": 0.0}
"""Choices that came later, and the value by which all is as it was: records of before stay good."""


def _without_later(values: Any) -> Any:
    """Nested settings without choices that change nothing."""
    if not isinstance(values, dict):
        return values
    kept = {key: value for key, value in values.items() if key not in LATER or value != LATER[key]}
    return {key: _without_later(value) for key, value in kept.items()}


@dataclass(frozen=True)
class BenchmarkSettings:
    """Everything about a benchmark but its studies, which stand beside it in the file."""

    scenario: Path | None = setting(None, "scenario whose missions are flown; relative to the benchmark file")
    scale: float = setting(1.0, "factor of the missions' numbers of frames", low=0.01, high=100.0)
    bags: Path | None = setting(None, "folder of recorded mission bags, instead of a scenario")
    sues200: Path | None = setting(None, "folder of the SUES-200 data set, instead of missions over a map")
    sequence: tuple[str, ...] = setting((), "missions to learn, in forward order; none: the scenario's, in its order")
    held_out: tuple[str, ...] = setting((), "missions to test on only; none: the scenario's held-out ones")
    store: Path | None = setting(None, "store with a base model to start from; none: made as said below")
    raster: Path | None = setting(None, "GeoTIFF of the map; none: the map of the scenario's simulated world")
    bands: tuple[int, ...] | None = setting(None, "bands of that raster, from 1")
    map: PatchSettings = setting(PatchSettings(), "how the map is cut (build-map)")
    base: BaseTrainingSettings = setting(BaseTrainingSettings(), "how the base model is trained (train-base)")
    learn: LearnSettings = setting(LearnSettings(), "how missions are learnt (adapt)")
    threshold_m: float = setting(PRIMARY_THRESHOLD_M, "distance within which a position counts as right", low=1.0)
    threads: int = setting(1, "CPU threads of a run; results are the same to the bit for the same number", low=1)
    base_threads: int = setting(2, "CPU threads of the base training, during which nothing else runs", low=1)
    cache_gb: float = setting(8.0, "most disk space for trunk outputs shared by all runs", low=0.0)
    retrieval_methods: tuple[str, ...] = setting(
        ("ft_ex", "dbs_hybrid"), "methods whose forward runs are also compared with retrieval over satellite patches"
    )
    retrieval_patches: int = setting(4000, "most patches that retrieval searches, evenly over the map", low=1)

    def digest(self) -> str:
        """What results depend on, as one hash: runs with another one must not be mixed with these."""
        values = {
            key: value for key, value in dataclasses.asdict(self).items() if key not in ("cache_gb", "threshold_m")
        }
        backbone = NetworkSettings(self.base.backbone).resolved().backbone
        view = self.map.view_kind if self.sues200 is None else PAPER_VIEW
        recipe = dataclasses.asdict(recipe_of(backbone, view))
        recipe["north_up_augmentation"] = None  # taken in by now, or not used
        for key in ("living_blocks", "imprint"):  # told once, whether the file or the recipe says so
            recipe[key] = recipe[key] if values["base"][key] is None else values["base"][key]
            del values["base"][key]
        if self.base.augmentation:
            values["base_augmentation"] = dataclasses.asdict(AUGMENTATIONS[self.base.augmentation])
            recipe["augmentation"] = recipe["mission_augmentation"]  # not used; any that does not change will do
        if self.base.begin_with:
            values["base"]["begin_with"] = _weights_of(Path(self.base.begin_with))
        values["recipe"] = recipe
        if self.scenario is not None:
            values["scenario"] = self.scenario.read_text()
        for key in ("bags", "sues200", "raster"):  # the same data may lie elsewhere tomorrow
            values[key] = Path(values[key]).name if values[key] else None
        values["store"] = _weights_of(self.store) if self.store is not None else None
        return hashlib.sha256(json.dumps(_without_later(values), sort_keys=True, default=str).encode()).hexdigest()


def _weights_of(store: Path) -> str:
    """A hash of what its newest generation knows."""
    return sha256_of(GenerationStore(store).newest().path / TAIL_FILE)


@dataclass(frozen=True)
class Benchmark:
    """A benchmark file, read."""

    settings: BenchmarkSettings
    studies: tuple[Study, ...]
    raster_dir: Path | None = None

    def runs(self) -> list[Run]:
        """All runs of all studies, each once."""
        return list(dict.fromkeys(run for study in self.studies for run in study.runs()))

    def narrowed(self, studies: Sequence[str] | None = None, **choices: Sequence[Any] | None) -> Benchmark:
        """Only the named studies, with methods, orders, seeds or budgets replaced by the given ones."""
        known = {study.name: study for study in self.studies}
        for name in studies or ():
            if name not in known:
                raise SettingsError(f"no study '{name}' in the benchmark; it has {', '.join(known)}")
        chosen = [known[name] for name in studies] if studies else list(self.studies)
        given: dict[str, Any] = {key: tuple(values) for key, values in choices.items() if values}
        if given and not studies:
            chosen = chosen[:1]  # the first study with other choices, not every study with the same ones
        return dataclasses.replace(self, studies=tuple(dataclasses.replace(study, **given) for study in chosen))


def load_benchmark(path: str | Path, *, raster_dir: Path | None = None) -> Benchmark:
    """Read a benchmark file; its paths are relative to it, those of rasters and data sets to `raster_dir` if given."""
    path = Path(path)
    values = read_yaml(path)
    entries = values.pop("studies", None) or [{}]
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise SettingsError(f"{path}: 'studies' must be a list of mappings")
    try:
        studies = tuple(load_settings(Study, entry) for entry in entries)
        settings = load_settings(BenchmarkSettings, values)
        for study in studies:
            for name in study.orders:
                order(name, ())
            study.runs()
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None
    if len({study.name for study in studies}) < len(studies):
        raise SettingsError(f"{path}: two studies have the same name")
    found = {key: path.parent / value for key in ("scenario", "bags", "store") if (value := getattr(settings, key))}
    for key in ("raster", "sues200"):
        if value := getattr(settings, key):
            found[key] = (raster_dir or path.parent) / value
    if settings.base.begin_with:
        found["base"] = dataclasses.replace(settings.base, begin_with=str(path.parent / settings.base.begin_with))
    settings = dataclasses.replace(settings, **found)
    _check(settings, path)
    return Benchmark(settings, studies, raster_dir)


def _check(settings: BenchmarkSettings, path: Path) -> None:
    if sum(source is not None for source in (settings.scenario, settings.bags, settings.sues200)) != 1:
        raise SettingsError(f"{path}: give one of 'scenario', 'bags' and 'sues200': where the missions come from")
    if settings.sues200 is not None and (settings.store is not None or settings.raster is not None):
        raise SettingsError(f"{path}: SUES-200 has no map and makes its own base model; leave out 'store' and 'raster'")
    if settings.sues200 is not None and settings.base.imprint:
        raise SettingsError(
            f"{path}: heads of SUES-200 begin at random, there is no map to imprint; leave out 'imprint'"
        )
    if settings.bags is not None and not settings.sequence:
        raise SettingsError(f"{path}: with 'bags', name the missions to learn under 'sequence'")
    if settings.bags is not None and settings.store is None and settings.raster is None:
        raise SettingsError(f"{path}: with 'bags', give a 'store' or the 'raster' of the map")
