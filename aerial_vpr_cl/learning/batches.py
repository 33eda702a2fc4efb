"""Mixed mini-batches: which views of which images every learning step sees, drawn before learning starts.

Drawing the whole plan first lets the frozen trunk pass over exactly the views that will be used, each once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CURRENT, EXEMPLAR, REPLAY = 0, 1, 2
"""Sources of a mixed batch, in the order in which they stand in it."""

Key = tuple[int, int, int]
"""(source, image, view)."""

Views = NDArray[np.int64]
"""(n, 2) rows of image index and view number."""


@dataclass(frozen=True)
class Sources:
    """Labels of what can be drawn from, and the group of every class. A source may be empty."""

    current: NDArray[np.int64]
    exemplar: NDArray[np.int64]
    replay: NDArray[np.int64]
    group_of_class: NDArray[np.int64]
    n_groups: int


@dataclass(frozen=True)
class BatchSizes:
    """Samples a step from each source: 20 + 10 + 10 in the paper (section 5.1.3)."""

    current: int = 20
    exemplar: int = 10
    replay: int = 10


@dataclass(frozen=True)
class PlannedBatch:
    """One learning step: the active group and the views it sees of each source."""

    epoch: int
    group: int
    views: tuple[Views, Views, Views]  # current, exemplar, replay


def plan_batches(
    sources: Sources, sizes: BatchSizes, *, epochs: int, n_views: int, rng: np.random.Generator
) -> list[PlannedBatch]:
    """Epoch e passes once over the current samples of group e mod N²; groups without any are skipped.

    All of a batch is of the active group. A short source is drawn with replacement, an empty one is left out,
    and exemplars are drawn class first, then image, so that every cell of the map counts the same.
    """
    rows_of = [_rows_by_group(labels, sources) for labels in (sources.current, sources.replay)]
    exemplars_of = [_rows_by_class(sources, group) for group in range(sources.n_groups)]
    plan = []
    for epoch in range(epochs):
        group = epoch % sources.n_groups
        current, replay = rows_of[0][group], rows_of[1][group]
        if not len(current):
            continue
        order = rng.permutation(current)
        for start in range(0, len(order), sizes.current):
            chosen = order[start : start + sizes.current]
            chosen = np.concatenate([chosen, rng.choice(current, sizes.current - len(chosen))])
            parts = (
                chosen,
                _draw_class_first(exemplars_of[group], sizes.exemplar, rng),
                _draw(replay, sizes.replay, rng),
            )
            views = tuple(np.stack([part, rng.integers(n_views, size=len(part))], axis=1) for part in parts)
            plan.append(PlannedBatch(epoch, group, (views[0], views[1], views[2])))
    return plan


def views_of(plan: Iterable[PlannedBatch]) -> Iterator[Key]:
    """Every (source, image, view) of a plan once, in the order of first use."""
    seen = set()
    for batch in plan:
        for source, views in enumerate(batch.views):
            for image, view in views.tolist():
                if (source, image, view) not in seen:
                    seen.add((source, image, view))
                    yield source, image, view


def _rows_by_group(labels: NDArray[np.int64], sources: Sources) -> list[NDArray[np.int64]]:
    groups = sources.group_of_class[labels] if len(labels) else np.empty(0, np.int64)
    return [np.flatnonzero(groups == group) for group in range(sources.n_groups)]


def _rows_by_class(sources: Sources, group: int) -> list[NDArray[np.int64]]:
    """Exemplar rows of each class of a group, classes without exemplars left out."""
    order = np.argsort(sources.exemplar, kind="stable")
    classes, starts = np.unique(sources.exemplar[order], return_index=True)
    rows = np.split(order, starts[1:]) if len(classes) else []
    return [part for label, part in zip(classes, rows) if sources.group_of_class[label] == group]


def _draw(rows: NDArray[np.int64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    if not len(rows):
        return np.empty(0, np.int64)
    return rng.choice(rows, count, replace=len(rows) < count)


def _draw_class_first(
    rows_of_class: list[NDArray[np.int64]], count: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    if not rows_of_class:
        return np.empty(0, np.int64)
    classes = _draw(np.arange(len(rows_of_class)), count, rng)
    return np.array([rng.choice(rows_of_class[label]) for label in classes], np.int64)
