"""Training and held-out views of the satellite map, read from the raster as they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.geo.grid import NO_CLASS
from aerial_vpr_cl.geo.view_kind import ViewKind
from aerial_vpr_cl.knowledge.map_folder import MapFolder
from aerial_vpr_cl.learning.augmentation import augment
from aerial_vpr_cl.learning.recipes import Recipe

Result = TypeVar("Result")

READ_MARGIN = 1.25
"""Patches are read this much finer than the network's input, so that random crops do not enlarge."""

OF_CELLS = (1, 1)
"""Told to the random draws of views that are of no step: those of steps are others."""


@dataclass(frozen=True)
class LabelledViews:
    """(n, S, S, 3) uint8 RGB views, their classes and where their centres lie."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    positions: NDArray[np.float64]


class SatelliteBatches:
    """Batches of one group, drawn class first so that every cell counts the same.

    The batch of a step depends on the seed and the step alone: any number of processes, and a run that was
    interrupted, sees the same ones.
    """

    def __init__(self, folder: MapFolder, recipe: Recipe, size_px: int, batch: int, seed: int) -> None:
        self.folder = folder
        self.recipe = recipe
        self.size_px = size_px
        self.batch = batch
        self.seed = seed
        order = np.argsort(folder.patches.labels, kind="stable")
        starts = np.searchsorted(folder.patches.labels[order], np.arange(folder.grid.n_classes))
        self._rows_of_class = np.split(order, starts[1:])

    def read(self, step: int, group: int, rank: int = 0, world: int = 1) -> LabelledViews:
        """The share of one process in the batch of a step: every world-th view, from its rank on."""
        key = [self.seed, step]
        rng = np.random.default_rng(key)
        classes = rng.choice(self.folder.grid.classes_of_group(group), self.batch)
        return self._views(classes, key, rng, rank, world)

    def of_cells(self, classes: NDArray[np.int64], number: int) -> LabelledViews:
        """A view of each of these cells as training shows them; another number gives other views."""
        key = [self.seed, number, *OF_CELLS]
        return self._views(classes, key, np.random.default_rng(key))

    def _views(
        self, classes: NDArray[np.int64], key: list[int], rng: np.random.Generator, rank: int = 0, world: int = 1
    ) -> LabelledViews:
        patches, grid = self.folder.patches, self.folder.grid
        rows = np.array([rng.choice(self._rows_of_class[label]) for label in classes])
        centres, angles = patches.centres[rows], patches.angles_deg[rows]
        recipe, settings = self.recipe, self.folder.settings
        if recipe.view.is_north_up:
            angles, footprints = north_up_draws(recipe.view, patches.footprint_m, len(rows), rng)
        else:
            footprints = patches.footprint_m * rng.uniform(*recipe.zoom, len(rows))
            if recipe.jitter:
                angles = angles + rng.uniform(-180, 180, len(rows)) / settings.rotations
        if recipe.jitter:
            moved = centres + rng.uniform(-0.5, 0.5, (len(rows), 2)) * settings.stride_m
            centres = np.where((grid.class_of(moved) == classes)[:, None], moved, centres)
        dates = (
            rng.integers(len(self.folder.dates), size=len(rows)) if len(self.folder.dates) > 1 else np.zeros_like(rows)
        )
        mine = slice(rank, None, world)
        read_px = self.size_px if recipe.view.is_north_up else round(READ_MARGIN * self.size_px)
        images = _read_dates(self.folder, dates[mine], centres[mine], angles[mine], footprints[mine], read_px)
        how = recipe.augmentation
        places = range(rank, len(rows), world)
        views = [
            augment(image, self.size_px, np.random.default_rng([*key, place]), how)
            for place, image in zip(places, images)
        ]
        return LabelledViews(np.stack(views), classes[mine], centres[mine])


def _read_dates(
    folder: MapFolder,
    dates: NDArray[np.int64],
    centres: NDArray[np.float64],
    angles_deg: NDArray[np.float64],
    footprints_m: NDArray[np.float64],
    size_px: int,
) -> NDArray[np.uint8]:
    """(n, S, S, 3) views, each from the date of the map with its number, or from the first where that has no data."""
    images = np.zeros((len(dates), size_px, size_px, 3), np.uint8)
    for number, raster in reversed(list(enumerate(folder.dates))):
        rows = np.flatnonzero(dates == number)
        if len(rows):
            images[rows], valid = raster.read_patches(centres[rows], angles_deg[rows], footprints_m[rows], size_px)
            if number:
                dates = dates.copy()
                dates[rows[valid < 1.0 - folder.settings.max_nodata]] = 0
    return images


def held_out_views(
    folder: MapFolder, size_px: int, count: int, seed: int, zoom: tuple[float, float] = (0.8, 1.25)
) -> LabelledViews:
    """Unseen views of the map: anywhere, another scale, and any heading unless north is up; never read in training."""
    rng = np.random.default_rng([seed, 0, 0, 0])
    patches = folder.patches
    rows = rng.integers(len(patches), size=4 * count)
    centres = patches.centres[rows] + rng.uniform(-0.5, 0.5, (len(rows), 2)) * folder.settings.stride_m
    view = folder.settings.view_kind
    if view.is_north_up:
        angles, footprints = north_up_draws(view, patches.footprint_m, len(rows), rng)
    else:
        angles = rng.uniform(0, 360, len(rows))
        footprints = patches.footprint_m * rng.uniform(*zoom, len(rows))
    labels = folder.grid.class_of(centres)
    chosen = np.flatnonzero(labels != NO_CLASS)[: 2 * count]
    images, valid = folder.satellite.read_patches(centres[chosen], angles[chosen], footprints[chosen], size_px)
    whole = np.flatnonzero(valid >= 1 - folder.settings.max_nodata)[:count]
    return LabelledViews(images[whole], labels[chosen[whole]], centres[chosen[whole]])


def north_up_draws(
    view: ViewKind, footprint_m: float, count: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Headings and footprints of views that the drone's instruments turned and scaled as well as they can."""
    return rng.normal(0, view.heading_sigma_deg, count), footprint_m * np.exp(rng.normal(0, view.zoom_sigma, count))


def read_ahead(tasks: Iterator[Callable[[], Result]], workers: int, depth: int = 4) -> Iterator[Result]:
    """Results of the tasks in order, computed by threads a few ahead of the one that is asked for."""
    with ThreadPoolExecutor(workers) as pool:
        waiting = []
        for task in tasks:
            waiting.append(pool.submit(task))
            if len(waiting) >= depth:
                yield waiting.pop(0).result()
        for future in waiting:
            yield future.result()
