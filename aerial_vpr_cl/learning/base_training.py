"""Base training: what the drone knows before its first flight, from the satellite map alone (paper, section 4.2).

Under torchrun every process takes its share of each batch and DistributedDataParallel averages the gradients,
so that the training is the same as that of one process.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from aerial_vpr_cl.errors import SettingsError, StoreError
from aerial_vpr_cl.files import sha256_of
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.geo.view_kind import PAPER_VIEW, ViewKind
from aerial_vpr_cl.knowledge.draft import TAIL_FILE
from aerial_vpr_cl.knowledge.facts import GenerationFacts
from aerial_vpr_cl.knowledge.failpoints import failpoint
from aerial_vpr_cl.knowledge.generations import Generation, GenerationStore
from aerial_vpr_cl.knowledge.knowledge import add_to_map, commit_generation
from aerial_vpr_cl.knowledge.map_folder import MapFolder, open_map
from aerial_vpr_cl.learning.augmentation import AUGMENTATIONS
from aerial_vpr_cl.learning.base_training_settings import WHEN_TO_STOP, BaseTrainingSettings
from aerial_vpr_cl.learning.calibration import in_other_looks, scores_of
from aerial_vpr_cl.learning.imprinting import imprint
from aerial_vpr_cl.learning.optimisers import Optimisers
from aerial_vpr_cl.learning.processes import from_first_process, join_processes, local_rank, mean_over_processes
from aerial_vpr_cl.learning.recipes import Recipe, recipe_of
from aerial_vpr_cl.learning.satellite_batches import LabelledViews, SatelliteBatches, held_out_views, read_ahead
from aerial_vpr_cl.learning.training_state import TrainingState
from aerial_vpr_cl.learning.validation import recall_near
from aerial_vpr_cl.learning.weight_mean import WeightMean
from aerial_vpr_cl.memory.buffer import ReplayBuffer
from aerial_vpr_cl.model.batches import in_batches
from aerial_vpr_cl.model.checkpoint import load_looks
from aerial_vpr_cl.model.devices import pick_device
from aerial_vpr_cl.model.network import AUTO, Network, NetworkSettings
from aerial_vpr_cl.progress import Progress, silent
from aerial_vpr_cl.satellite.exemplars import ExemplarMemory
from aerial_vpr_cl.satellite.herding import herd

log = logging.getLogger(__name__)


class _MeanLoss(nn.Module):
    """Images and labels of one group to the mean loss: one forward call, as DistributedDataParallel wants it."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor, labels: Tensor, group: int) -> Tensor:
        # bfloat16 has the range of float32: float16 would lose most gradients behind GeM without a scaler.
        mixed = images.is_cuda and torch.cuda.is_bf16_supported()
        with torch.autocast(images.device.type, torch.bfloat16, enabled=mixed):
            features = self.network.features(images)
        return self.network.heads.cross_entropy(features, labels, group).mean()


def train_base(store_path: Path, settings: BaseTrainingSettings, progress: Progress = silent) -> Generation | None:
    """Train tail and heads on the map of a store and commit generation 0; only the first process returns it."""
    rank, world = join_processes(settings.device)
    folder = open_map(store_path)
    store = GenerationStore.create(store_path)
    if store.numbers():
        raise StoreError(
            f"{store_path}: has generations {store.numbers()} already; build the map into a new store to start over"
        )
    network, recipe = build_network(folder.grid, settings, local_rank(), folder.settings.view_kind)
    if (settings.batch or recipe.batch) % world:
        raise SettingsError(
            f"{settings.batch or recipe.batch} patches a step cannot be shared out evenly to {world} processes; "
            "choose another batch"
        )
    if rank > 0:
        _train(network, folder, recipe, settings, silent, rank, world)
        return None
    with store.learner_lock():
        network, held_out = _train(network, folder, recipe, settings, progress, rank, world)
        other_looks = scores_of(network, in_other_looks(held_out.images, settings.seed))
        temperature = network.fit_temperature(torch.from_numpy(other_looks), torch.from_numpy(held_out.labels))
        recall = recall_near(folder.grid, scores_of(network, held_out.images), held_out.positions)
        log.info("held-out recall %.3f, temperature %.3f", recall, temperature)
        _keep_trunk_and_exemplars(folder, network, settings, progress)
        buffer = ReplayBuffer.empty(folder.grid.n_groups)
        facts = GenerationFacts(held_out_recall=recall, settings=asdict(settings))
        generation = commit_generation(store, network, buffer, facts)
        TrainingState.file_in(store_path).unlink(missing_ok=True)
        return generation


def build_network(
    grid: Grid, settings: BaseTrainingSettings, local_rank: int = 0, view: ViewKind = PAPER_VIEW
) -> tuple[Network, Recipe]:
    """An untrained network over the cells of a grid, on its device, with the recipe of its backbone and its views."""
    pooling = settings.aggregation
    if pooling == AUTO:
        pooling = "quarters" if view.is_north_up else "gem"
    wanted = NetworkSettings(
        settings.backbone, pooling, settings.input_size, salad=settings.salad, view=view
    ).resolved()
    recipe = recipe_of(wanted.backbone)
    if settings.augmentation is not None:
        recipe = replace(recipe, augmentation=AUGMENTATIONS[settings.augmentation], north_up_augmentation=None)
    recipe = recipe.for_view(view)
    living = settings.living_blocks or recipe.living_blocks
    wanted = replace(wanted, margin=recipe.margin, scale=recipe.scale, living_blocks=living)
    device = pick_device(settings.device, local_rank)
    network = Network.build(wanted, grid, weights=settings.weights, seed=settings.seed, device=device)
    if settings.begin_with is not None:
        load_looks(_tail_of(settings.begin_with), network)
    return network, recipe


def _tail_of(store: str) -> Path:
    return GenerationStore(Path(store)).newest().path / TAIL_FILE


def _train(
    network: Network,
    folder: MapFolder,
    recipe: Recipe,
    settings: BaseTrainingSettings,
    progress: Progress,
    rank: int,
    world: int,
) -> tuple[Network, LabelledViews]:
    """Groups by epoch until neither recall nor loss improves; every cycle is saved, so a killed run goes on.

    Returned is the mean of the weights, on which recall is measured too, and the held-out views.
    """
    batch = settings.batch or recipe.batch
    batches = SatelliteBatches(folder, recipe, network.input_size, batch, settings.seed)
    held_out = held_out_views(folder, network.input_size, settings.held_out, settings.seed)
    judged = judged_views(held_out, recipe, settings.seed)
    rates = settings.tail_rate or recipe.tail_rate, settings.head_rate or recipe.head_rate
    optimisers = Optimisers(network, *rates, patience=settings.plateau_cycles)
    way = {name: value for name, value in asdict(settings).items() if name not in WHEN_TO_STOP}
    way["recipe"] = repr(recipe)
    if settings.begin_with is not None:  # what it holds, wherever it lies
        way["begin_with"] = sha256_of(_tail_of(settings.begin_with))
    way["map"] = [asdict(replace(folder.facts, datum=None)), asdict(folder.settings)]
    mean = WeightMean(network)  # takes over whatever the weights are after the first step
    state = TrainingState.resume(folder.path.parent, network, mean.network, optimisers, way)
    views_a_cell = recipe.imprint if settings.imprint is None else settings.imprint
    if state.step == 0 and views_a_cell:
        imprint(network, batches, views_a_cell, settings.readers, progress, rank, world)
    model: nn.Module = _MeanLoss(network)
    if world > 1:
        model = DistributedDataParallel(model, find_unused_parameters=True, broadcast_buffers=False)
    groups = [group for group in range(folder.grid.n_groups) if len(folder.grid.classes_of_group(group))]
    cycle_steps = settings.epoch_steps * len(groups)
    group_of = [group for group in groups for _ in range(settings.epoch_steps)]
    reader = _reader(batches, state.step, settings, group_of, rank, world)
    network.train()
    losses: dict[int, list[float]] = {}
    for step, views in enumerate(reader, start=state.step):
        if state.is_done(settings.good_recall, settings.patience):
            break
        torch.manual_seed((settings.seed << 32) + step * world + rank)  # SALAD's dropout draws from torch
        group = group_of[step % cycle_steps]
        images = network.normalise(views.images)
        loss = model(images, torch.from_numpy(views.labels).to(network.device), group)
        optimisers.step(loss, group)
        mean.add(step + 1)
        losses.setdefault(group, []).append(mean_over_processes(loss.detach()))
        figures = {"loss": losses[group][-1], "recall": state.best_recall}
        progress("train", step + 1, settings.max_steps, **figures)
        if (step + 1) % settings.epoch_steps == 0:
            optimisers.end_head_epoch(group, float(np.mean(losses[group])))
        if (step + 1) % cycle_steps == 0:
            cycle_loss = float(np.mean([value for values in losses.values() for value in values]))
            losses.clear()
            optimisers.end_cycle(cycle_loss)
            scores = scores_of(mean.network, judged) if rank == 0 else None
            measured = 0.0 if scores is None else recall_near(folder.grid, scores, held_out.positions)
            recall = from_first_process(measured, world)
            state.note(step + 1, recall, cycle_loss)
            if rank == 0:
                state.save(network, mean.network, optimisers)
                failpoint("train.saved")
    progress("train", settings.max_steps, settings.max_steps, recall=state.best_recall)
    return mean.network, held_out


def judged_views(held_out: LabelledViews, recipe: Recipe, seed: int) -> NDArray[np.uint8]:
    """Views by which training is ended: in other looks if it shows any, as its own date is known long before others."""
    return in_other_looks(held_out.images, seed) if recipe.augmentation.changes_look else held_out.images


def _reader(
    batches: SatelliteBatches, start: int, settings: BaseTrainingSettings, group_of: list[int], rank: int, world: int
) -> Iterator[LabelledViews]:
    tasks = (
        functools.partial(batches.read, step, group_of[step % len(group_of)], rank, world)
        for step in range(start, settings.max_steps)
    )
    return read_ahead(tasks, settings.readers)


def _keep_trunk_and_exemplars(
    folder: MapFolder, network: Network, settings: BaseTrainingSettings, progress: Progress
) -> None:
    """What belongs to the map and never changes again: the trunk, and the exemplars.

    Herding chooses them, for which all candidates pass the network. Where there are no more candidates than places it
    has nothing to choose: then all are taken as they were drawn, which on a large map saves hours.
    """
    patches = folder.patches
    rng = np.random.default_rng([settings.seed, 1])
    rows = _candidates(patches.labels, settings.exemplar_candidates, rng)
    if not 0 < settings.exemplar_candidates <= settings.exemplars:
        rows = _herded(np.sort(rows), folder, network, settings.exemplars, progress)
    memory = ExemplarMemory.choose(
        patches, rows, images_from=folder.satellite if settings.carry_pixels else None, size_px=network.input_size
    )
    add_to_map(folder, network, memory)


def _herded(
    rows: NDArray[np.int64], folder: MapFolder, network: Network, per_class: int, progress: Progress
) -> NDArray[np.int64]:
    """Rows of the patches, among these, that stand best for their cells, in herding order."""
    patches = folder.patches

    def features_of(part: NDArray[np.int64]) -> tuple[Tensor]:
        images, _ = folder.satellite.read_patches(
            patches.centres[part], patches.angles_deg[part], patches.footprint_m, network.input_size
        )
        return (network.features(network.preprocess(images)),)

    (features,) = in_batches(features_of, rows, progress=progress, phase="exemplars")
    return rows[herd(features, patches.labels[rows], per_class)]


def _candidates(labels: NDArray[np.int64], per_class: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows of at most `per_class` random patches of every class, class by class; 0: of all patches."""
    if not per_class:
        return np.arange(len(labels))
    shuffled = rng.permutation(len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    _, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
    place_in_class = np.arange(len(order)) - np.repeat(starts, counts)
    return order[place_in_class < per_class]
