"""SUES-200 as a benchmark (paper, section 5.5.2): locations are the classes, altitudes the missions.

The data set has no map. Its training locations stand as cells of a made-up grid, so that all else works as it does over
a map: a right answer is the right cell. The base model learns their satellite images, which are also the exemplars.
"""

from __future__ import annotations

import functools
import math
import shutil
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.benchmark.protocol import Course, FlownMission
from aerial_vpr_cl.benchmark.sues200 import (
    ALTITUDES_M,
    AltitudeMission,
    Sues200,
    altitude_missions,
    open_sues200,
    retrieval_task,
    summarize_retrieval,
)
from aerial_vpr_cl.benchmark.work_folder import WorkFolder
from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.files import sha256_of
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.images import decode_compressed
from aerial_vpr_cl.knowledge.draft import TAIL_FILE
from aerial_vpr_cl.knowledge.map_folder import EXEMPLARS_FILE, TRUNK_FILE
from aerial_vpr_cl.learning.adapt_settings import LearnSettings
from aerial_vpr_cl.learning.base_training import build_network
from aerial_vpr_cl.learning.loop import Memories, learn
from aerial_vpr_cl.learning.methods import method_of
from aerial_vpr_cl.learning.trunk_outputs import Picture, TrunkOutputs, features_of
from aerial_vpr_cl.memory.buffer import Observation
from aerial_vpr_cl.model.checkpoint import load_network, save_tail, save_trunk
from aerial_vpr_cl.model.devices import pick_device
from aerial_vpr_cl.model.network import Network
from aerial_vpr_cl.progress import Progress
from aerial_vpr_cl.satellite.exemplars import ExemplarMemory

EPSG = 32650
"""Of the made-up grid; nothing is ever projected."""
CELL_SIDE_M = 200.0
BASE_VIEWS = 16
"""Views of each satellite image that the base model learns from: there is only one image a location."""


class Sues200Folder(WorkFolder):
    """A work folder whose missions are images of the data set; store/ holds the base model alone."""

    @cached_property
    def data(self) -> Sues200:
        """The images of the data set."""
        assert self.benchmark.settings.sues200 is not None
        return open_sues200(self.benchmark.settings.sues200)

    @cached_property
    def grid(self) -> Grid:
        """One cell a training location, in their order, as nearly square as possible."""
        columns = math.ceil(math.sqrt(len(self.data.training_locations)))
        cells = [divmod(place, columns) for place in range(len(self.data.training_locations))]
        return Grid(EPSG, CELL_SIDE_M, self.benchmark.settings.map.modulus, np.array(cells))

    @property
    def roles(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Altitudes from low to high; no mission is held out, as unseen locations are."""
        return self.benchmark.settings.sequence or tuple(f"{altitude}m" for altitude in ALTITUDES_M), ()

    @property
    def rows_key(self) -> str:
        """Changes with what rows of exemplars show."""
        return sha256_of(self.store / EXEMPLARS_FILE)[:16]

    def open(self) -> tuple[Course, TrunkOutputs]:
        """What a run needs, loaded."""
        settings = self.benchmark.settings
        base = load_network(self.store / TRUNK_FILE, self.store / TAIL_FILE, self.grid)
        base = base.to(pick_device(settings.base.device))
        course = Course(
            grid=self.grid,
            base=base,
            memories=Memories(ExemplarMemory.load(self.store / EXEMPLARS_FILE, self.grid.hash), None),
            sequence=tuple(self.read(name, held_out=False) for name in self.roles[0]),
            held_out=(),
            learn=settings.learn,
        )
        return course, self.trunk_outputs(base)

    def read(self, name: str, *, held_out: bool) -> FlownMission:
        """One altitude, split."""
        if name not in self._altitudes:
            raise SettingsError(f"SUES-200 has no mission '{name}'; it has {', '.join(self._altitudes)}")
        mission = self._altitudes[name]
        train = self._observations(name, mission.train_images, mission.train_labels)
        test = self._observations(name, mission.test_images, mission.test_labels, first=len(train))
        return FlownMission(name, "VIS", train, test)

    def further_facts(self, network: Network, trunk: TrunkOutputs) -> dict[str, Any]:
        """Drone-to-satellite retrieval of the locations that were never learnt."""
        task = retrieval_task(self.data)
        queries, gallery = (_features(network, trunk, paths) for paths in (task.queries, task.gallery))
        found = summarize_retrieval(queries, gallery, task.query_locations, task.gallery_locations)
        return {"unseen_locations": asdict(found)}

    def _fly(self, progress: Progress) -> None:
        """The flights are part of the data set."""

    def _make_base(self, progress: Progress) -> None:
        if (self.store / TAIL_FILE).exists():  # written last
            return
        shutil.rmtree(self.store, ignore_errors=True)
        self.store.mkdir(parents=True)
        settings = self.benchmark.settings
        self.use_threads(settings.base_threads)
        network, recipe = build_network(self.grid, settings.base)
        images = [self.data.satellite[name] for name in self.data.training_locations]
        labels = np.repeat(np.arange(len(images)), [len(paths) for paths in images])
        satellite = self._observations("satellite", tuple(path for paths in images for path in paths), labels)
        pixels = [observation.image for observation in satellite]
        exemplars = ExemplarMemory(self.grid.centres[labels], np.zeros(len(labels)), labels, CELL_SIDE_M, pixels)
        batch = LearnSettings().batch_current
        cycle_steps = sum(math.ceil(n / batch) for n in np.bincount(self.grid.groups[labels]))
        how = LearnSettings(
            cycles=math.ceil(settings.base.max_steps / cycle_steps),
            views=BASE_VIEWS,
            tail_rate=settings.base.tail_rate or recipe.tail_rate,
            head_rate=settings.base.head_rate or recipe.head_rate,
            seed=settings.base.seed,
        )
        memories = Memories(exemplars, None)
        with TrunkOutputs.private(network, capacity_bytes=how.cache_mb << 20, folder=self.path) as trunk:
            learn(network, satellite, memories, method_of("ft_ex"), recipe, how, trunk, progress)
        exemplars.save(self.store / EXEMPLARS_FILE, self.grid.hash)
        save_trunk(self.store / TRUNK_FILE, network)
        save_tail(self.store / TAIL_FILE, network)

    @cached_property
    def _altitudes(self) -> dict[str, AltitudeMission]:
        return {f"{mission.altitude_m}m": mission for mission in altitude_missions(self.data)}

    def _observations(
        self, mission: str, paths: tuple[Path, ...], labels: NDArray[np.int64], *, first: int = 0
    ) -> tuple[Observation, ...]:
        return tuple(
            Observation(path.read_bytes(), int(label), self.grid.centres[label], number, mission, "VIS")
            for number, (path, label) in enumerate(zip(paths, labels), start=first)
        )


def _features(network: Network, trunk: TrunkOutputs, paths: tuple[Path, ...]) -> NDArray[np.float32]:
    pictures = [Picture(("sues200", *path.parts[-4:]), functools.partial(_read, path)) for path in paths]
    return features_of(network, pictures, trunk)


def _read(path: Path) -> NDArray[np.uint8]:
    return decode_compressed(path.read_bytes())
