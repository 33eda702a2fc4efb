"""The work folder of a benchmark: missions flown, map and base model made, once; then opened by every run."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import cv2
import torch

from aerial_vpr_cl.benchmark.protocol import Course, FlownMission, read_flown
from aerial_vpr_cl.benchmark.settings import Benchmark
from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.files import MANIFEST, replace_file, sha256_of
from aerial_vpr_cl.knowledge.draft import TAIL_FILE
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.knowledge import load_knowledge
from aerial_vpr_cl.knowledge.map_folder import MapFolder, build_map, open_map
from aerial_vpr_cl.learning.base_training import train_base
from aerial_vpr_cl.learning.loop import Memories
from aerial_vpr_cl.learning.trunk_outputs import TrunkOutputs, whole_image
from aerial_vpr_cl.localization.view import ViewSettings
from aerial_vpr_cl.model.checkpoint import read_identity
from aerial_vpr_cl.model.devices import pick_device
from aerial_vpr_cl.model.network import Network
from aerial_vpr_cl.progress import Progress, silent
from aerial_vpr_cl.simulation.scenario import Scenario, load_scenario
from aerial_vpr_cl.simulation.sorties import simulate_mission
from aerial_vpr_cl.simulation.world.procedural import procedural_world

UNFINISHED = ".flying-"


@dataclass(frozen=True, eq=False)
class WorkFolder:
    """Where a benchmark keeps what it makes: missions/, store/, trunk/ and results/."""

    path: Path
    benchmark: Benchmark

    @property
    def results(self) -> Path:
        """One JSON file a run."""
        return self.path / "results"

    @property
    def store(self) -> Path:
        """The store with the base model."""
        return self.benchmark.settings.store or self.path / "store"

    @cached_property
    def map(self) -> MapFolder:
        """The map of the store."""
        return open_map(self.store)

    @cached_property
    def views(self) -> ViewSettings:
        """What the base model is shown."""
        tail = GenerationStore(self.store).newest(grid_hash=self.map.grid.hash).path / TAIL_FILE
        settings = self.map.settings
        return ViewSettings(settings.view, settings.footprint_m, read_identity(tail, "tail")["input_size"])

    @cached_property
    def scenario(self) -> Scenario | None:
        """The scenario, its rasters found."""
        settings = self.benchmark.settings
        return load_scenario(settings.scenario, raster=self.benchmark.raster_dir) if settings.scenario else None

    @property
    def roles(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the missions to learn, in forward order, and of those to test on only."""
        settings, specs = self.benchmark.settings, self.scenario.missions if self.scenario else ()
        found = {role: tuple(spec.name for spec in specs if spec.role == role) for role in ("sequence", "held_out")}
        sequence = settings.sequence or found["sequence"]
        held_out = settings.held_out or tuple(name for name in found["held_out"] if name not in sequence)
        if both := set(sequence) & set(held_out):
            raise SettingsError(f"missions cannot be learnt and held out at once: {', '.join(sorted(both))}")
        return sequence, held_out

    def bag(self, name: str) -> Path:
        """Where the bag of a mission lies."""
        return (self.benchmark.settings.bags or self.path / "missions") / name

    def prepare(self, progress: Progress = silent) -> None:
        """Make what is missing; a killed preparation goes on where it was."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._claim()
        self._fly(progress)
        self._make_base(progress)
        self.use_threads()
        course, trunk = self.open()
        for number, mission in enumerate(course.missions, start=1):
            trunk.prepare(whole_image(observation) for observation in mission.test + mission.train)
            progress("test frames", number, len(course.missions))

    def open(self) -> tuple[Course, TrunkOutputs]:
        """What a run needs, loaded."""
        settings = self.benchmark.settings
        known = load_knowledge(GenerationStore(self.store), pick_device(settings.base.device))
        sequence, held_out = self.roles
        past = {learnt.name for learnt in known.generation.facts.missions}
        if both := ", ".join(sorted(past & {*sequence, *held_out})):
            raise SettingsError(
                f"{self.store}: generation {known.generation.number} has learnt {both}, which the benchmark is to learn"
                " or to test on; begin with a store that has not"
            )
        missions = [self.read(name, held_out=name in held_out) for name in (*sequence, *held_out)]
        course = Course(
            grid=known.map.grid,
            base=known.network,
            memories=Memories(known.exemplars, known.map.satellite),
            sequence=tuple(missions[: len(sequence)]),
            held_out=tuple(missions[len(sequence) :]),
            learn=settings.learn,
        )
        return course, self.trunk_outputs(known.network)

    def trunk_outputs(self, network: Network) -> TrunkOutputs:
        """What the trunk says, shared by all runs over the same map and exemplars, which are named by their rows."""
        capacity = int(self.benchmark.settings.cache_gb * 2**30)
        return TrunkOutputs.shared(network, self.path / "trunk" / self.rows_key, capacity_bytes=capacity)

    @property
    def rows_key(self) -> str:
        """Changes with what rows of patches and exemplars show."""
        return sha256_of(self.store / "map" / MANIFEST)[:16]

    def further_facts(self, network: Network, trunk: TrunkOutputs) -> dict[str, Any]:
        """What else the record of a run tells of its final network."""
        return {}

    def read(self, name: str, *, held_out: bool) -> FlownMission:
        """One mission, split."""
        return read_flown(self.bag(name), self.map.grid, self.views, held_out=held_out)

    def use_threads(self, count: int | None = None) -> None:
        """As many CPU threads as the benchmark gives a run, or so many: another number gives other last bits."""
        count = count or self.benchmark.settings.threads
        torch.set_num_threads(count)
        cv2.setNumThreads(count)

    def _claim(self) -> None:
        """Results of other settings are not mixed with these."""
        path, digest = self.path / "benchmark.json", self.benchmark.settings.digest()
        if path.exists() and json.loads(path.read_text())["digest"] != digest:
            raise SettingsError(
                f"{self.path}: holds results of other settings (missions, map, base or learn); use another folder, or "
                "delete the folder"
            )
        replace_file(path, json.dumps({"digest": digest}).encode())

    def _fly(self, progress: Progress) -> None:
        if self.scenario is None:
            return
        sequence, held_out = self.roles
        for spec in self.scenario.chosen([*sequence, *held_out]):
            bag = self.bag(spec.name)
            if bag.exists():
                continue
            unfinished = bag.with_name(UNFINISHED + bag.name)
            shutil.rmtree(unfinished, ignore_errors=True)
            bag.parent.mkdir(parents=True, exist_ok=True)
            scale = self.benchmark.settings.scale
            spec = spec if scale == 1.0 else spec.scaled(scale)
            simulate_mission(self.scenario.world_of(spec), spec, unfinished, progress=progress)
            unfinished.rename(bag)

    def _make_base(self, progress: Progress) -> None:
        settings = self.benchmark.settings
        if settings.store is not None or GenerationStore.create(self.store).numbers():
            return
        raster = settings.raster
        if raster is None and self.scenario is not None:
            raster = self.scenario.raster or self.path / "world.tif"
            if self.scenario.raster is None and not raster.exists():
                procedural_world(self.scenario.world).write_map(raster, self.scenario.map)
        assert raster is not None, "checked when the benchmark file was read"
        build_map(raster, self.store, settings.map, bands=settings.bands, progress=progress)
        self.use_threads(settings.base_threads)
        train_base(self.store, settings.base, progress)
