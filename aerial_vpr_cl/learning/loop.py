"""The learning loop that every method shares: mixed batches over cached trunk outputs, groups by epoch."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from aerial_vpr_cl import unseen
from aerial_vpr_cl.files import sha256_of
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.images import decode_compressed
from aerial_vpr_cl.learning import augmentation
from aerial_vpr_cl.learning.adapt_settings import LearnSettings
from aerial_vpr_cl.learning.batches import (
    CURRENT,
    EXEMPLAR,
    REPLAY,
    BatchSizes,
    Key,
    PlannedBatch,
    Sources,
    plan_batches,
    views_of,
)
from aerial_vpr_cl.learning.methods.base import Batch, Method
from aerial_vpr_cl.learning.optimisers import Optimisers
from aerial_vpr_cl.learning.recipes import Recipe
from aerial_vpr_cl.learning.slot_file import digest_of
from aerial_vpr_cl.learning.trunk_outputs import Picture, TrunkOutputs, content_of
from aerial_vpr_cl.memory.buffer import Observation
from aerial_vpr_cl.model.network import Network
from aerial_vpr_cl.progress import Progress, silent
from aerial_vpr_cl.satellite.exemplars import ExemplarMemory
from aerial_vpr_cl.satellite.raster import SatelliteMap


@dataclass(frozen=True)
class Memories:
    """What is learnt from beside the current mission. Exemplars read from the raster, or carry their own pixels."""

    exemplars: ExemplarMemory | None
    satellite: SatelliteMap | None
    replay: Sequence[Observation] = ()


@dataclass(frozen=True)
class LearnReport:
    """What happened during learning."""

    steps: int
    epoch_losses: tuple[float, ...]


def learn(
    network: Network,
    current: Sequence[Observation],
    memories: Memories,
    method: Method,
    recipe: Recipe,
    settings: LearnSettings,
    trunk: TrunkOutputs,
    progress: Progress = silent,
) -> LearnReport:
    """Adapt tail and heads in place to the current observations, with the method's losses (paper, section 4.3)."""
    grid = network.grid
    exemplars = memories.exemplars if method.uses_exemplars else None
    replay = memories.replay if method.strategy is not None else ()
    plan = _plan(grid, current, exemplars, replay, settings)
    draw = ViewMaker(
        network.input_size,
        current,
        exemplars,
        memories.satellite,
        replay,
        recipe,
        settings.seed,
        turn_frames=method.turns_frames,
        matched_share=getattr(method.options, "matched", 0.0),
    )
    rates = settings.tail_rate or recipe.mission_tail_rate, settings.head_rate or recipe.mission_head_rate
    method.begin_learning(network, current, replay, rates[0])
    optimisers = Optimisers(network, *rates, patience=settings.plateau_cycles)
    epochs: list[list[float]] = []
    trunk.prepare((draw.picture(key) for key in views_of(plan)), progress)
    network.train()
    # SALAD's dropout draws from torch; the seed and the mission fix that too.
    torch.manual_seed(zlib.crc32(f"{settings.seed} {current[0].mission if current else ''}".encode()))
    done = 0
    for cycle in _cycles(plan, grid.n_groups):
        cycle_start = len(epochs)
        for epoch in cycle:
            method.begin_epoch(network, epoch[0].group)
            epochs.append([])
            for planned in epoch:
                batch = _load(planned, trunk, draw, network)
                method.before_step(network, batch)
                loss = method.loss(network, batch)
                optimisers.step(loss, planned.group)
                second = method.tail_loss(network, batch)
                if second is not None:
                    optimisers.step_tail(second)
                epochs[-1].append(float(loss.detach()))
                done += 1
                method.after_step(network, done)
                progress("learn", done, len(plan), loss=epochs[-1][-1])
            optimisers.end_head_epoch(epoch[0].group, float(np.mean(epochs[-1])))
        optimisers.end_cycle(float(np.mean([loss for losses in epochs[cycle_start:] for loss in losses])))
    method.end_learning(network)
    network.eval()
    return LearnReport(len(plan), tuple(float(np.mean(losses)) for losses in epochs))


def _cycles(plan: list[PlannedBatch], n_groups: int) -> list[list[list[PlannedBatch]]]:
    """The plan as cycles over the groups, each of epochs, each of batches."""
    cycles = itertools.groupby(plan, key=lambda planned: planned.epoch // n_groups)
    return [
        [list(epoch) for _, epoch in itertools.groupby(cycle, key=lambda planned: planned.epoch)] for _, cycle in cycles
    ]


def _plan(
    grid: Grid,
    current: Sequence[Observation],
    exemplars: ExemplarMemory | None,
    replay: Sequence[Observation],
    settings: LearnSettings,
) -> list[PlannedBatch]:
    none = np.empty(0, np.int64)
    sources = Sources(
        current=np.array([observation.label for observation in current], np.int64),
        exemplar=none if exemplars is None or not settings.batch_exemplar else exemplars.labels,
        replay=np.array([observation.label for observation in replay if settings.batch_replay], np.int64),
        group_of_class=grid.groups,
        n_groups=grid.n_groups,
    )
    sizes = BatchSizes(settings.batch_current, settings.batch_exemplar, settings.batch_replay)
    rng = np.random.default_rng([settings.seed, 0])
    return plan_batches(sources, sizes, epochs=settings.cycles * grid.n_groups, n_views=settings.views, rng=rng)


class ViewMaker:
    """Renders the view of a key.

    The pixels depend on the seed, the view and the image itself, not on its place in the buffer: runs of other methods
    draw the same views. While another mission is learnt, a replayed image is seen in new ones.
    """

    def __init__(
        self,
        size_px: int,
        current: Sequence[Observation],
        exemplars: ExemplarMemory | None,
        satellite: SatelliteMap | None,
        replay: Sequence[Observation],
        recipe: Recipe,
        seed: int,
        *,
        turn_frames: bool = False,
        matched_share: float = 0.0,
    ) -> None:
        self.size_px = size_px
        self.current = current
        self.exemplars = exemplars
        self.satellite = satellite
        self.replay = replay
        self.recipe = recipe
        self.seed = seed
        self.matched_share = matched_share
        self._turned = () if recipe.view.is_north_up else (EXEMPLAR, *((CURRENT, REPLAY) if turn_frames else ()))
        # Other settings and another way of drawing give other pixels, which must not be taken for these.
        code = [sha256_of(Path(str(module.__file__))) for module in (augmentation, unseen)]
        self._how_drawn = digest_of((size_px, recipe.mission_augmentation, recipe.view, code)).hex()
        flown, replayed = ([content_of(image) for image in images] for images in (current, replay))
        self._contents = (flown, range(len(exemplars or ())), replayed)

    def identity(self, key: Key) -> tuple[int, ...]:
        """What the view of a key follows from, beside the image: numbers that name it among all views of all runs."""
        source, index, view = key
        if source == EXEMPLAR:
            return self.seed, 1, EXEMPLAR, index, view
        image = (self.current if source == CURRENT else self.replay)[index]
        learnt, flown = (zlib.crc32(mission.encode()) for mission in (self.current[0].mission, image.mission))
        return self.seed, 1, CURRENT, learnt, flown, image.stamp_ns % 2**64, view

    def picture(self, key: Key) -> Picture:
        """The view of a key for the trunk; its name holds all that its pixels follow from."""
        source, index, _ = key
        turned = ("turned",) if source in self._turned and source != EXEMPLAR else ()
        model = self.model_of(key)
        matched = () if model is None else ("matched", self._contents[model[0]][model[1]])
        name = ("view", self._how_drawn, self._contents[source][index], self.identity(key), *turned, *matched)
        return Picture(name, lambda: self.render(key))

    def model_of(self, key: Key) -> tuple[int, int] | None:
        """Source and index of the flown frame whose colours an exemplar takes on; None: it keeps its own."""
        source, _, _ = key
        if source != EXEMPLAR or not self.matched_share:
            return None
        learnt = zlib.crc32(self.current[0].mission.encode())
        rng = np.random.default_rng([*self.identity(key), learnt])
        if rng.random() >= self.matched_share:
            return None
        number = int(rng.integers(len(self.current) + len(self.replay)))
        return (CURRENT, number) if number < len(self.current) else (REPLAY, number - len(self.current))

    def render(self, key: Key) -> NDArray[np.uint8]:
        """The pixels of a view."""
        source, index, _ = key
        rng = np.random.default_rng(self.identity(key))
        if source == EXEMPLAR:
            assert self.exemplars is not None
            # Read larger than the input so that the random crop does not enlarge.
            image = self.exemplars.read(np.array([index]), round(1.25 * self.size_px), self.satellite)[0]
            if model := self.model_of(key):
                image = augmentation.in_colours_of(image, self._frame(*model))
        else:
            image = self._frame(source, index)
        turn = source in self._turned
        how = self.recipe.mission_augmentation
        if source != EXEMPLAR:
            how = replace(how, unseen=0.0)  # frames lack what their own camera did not see
        return augmentation.augment(image, self.size_px, rng, how, turn=turn)

    def _frame(self, source: int, index: int) -> NDArray[np.uint8]:
        return decode_compressed((self.current if source == CURRENT else self.replay)[index].image)

    def label(self, source: int, index: int) -> int:
        """Class of an image of a source."""
        if source == EXEMPLAR:
            assert self.exemplars is not None
            return int(self.exemplars.labels[index])
        return (self.current if source == CURRENT else self.replay)[index].label


def _load(planned: PlannedBatch, trunk: TrunkOutputs, draw: ViewMaker, network: Network) -> Batch:
    keys = [(source, image, view) for source, views in enumerate(planned.views) for image, view in views.tolist()]
    return Batch(
        group=planned.group,
        trunk=trunk.of([draw.picture(key) for key in keys]),
        labels=torch.tensor([draw.label(source, image) for source, image, _ in keys], device=network.device),
        source=torch.tensor([source for source, _, _ in keys], device=network.device),
        replayed=[draw.replay[image] for image, _ in planned.views[2].tolist()],
    )
