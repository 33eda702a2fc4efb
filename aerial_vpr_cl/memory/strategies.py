"""Selection strategies by name: a scoring and an allocation each, from a pool of candidates to ordered indices.

A strategy chooses what one group's replay buffer holds after a mission (Eq. 1 of the paper). It knows nothing of
images, files or training.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aerial_vpr_cl.errors import ModelError, SettingsError
from aerial_vpr_cl.memory import allocation, scoring
from aerial_vpr_cl.memory.allocation import Indices
from aerial_vpr_cl.memory.scoring import Scores
from aerial_vpr_cl.settings import setting


@dataclass(frozen=True)
class SelectionSettings:
    """The two numbers of the selection (paper, section 5.1.3)."""

    prototype_weight: float = setting(1.0, "λ of Eq. 4: weight of prototype similarity in the redundancy", low=0.0)
    trim_ratio: float = setting(0.05, "ρ of Eq. 10: share of each class that Hybrid trims", low=0.0, high=1.0)


@dataclass(frozen=True, eq=False)
class Pool:
    """The candidates of one group: its previous buffer in stored order, then the new mission in time order."""

    features: ArrayLike  # (n, d) of the adapted model, unaugmented
    labels: ArrayLike  # (n,) class ids
    prototypes: ArrayLike  # (n, d) classifier row of each candidate's class
    losses: ArrayLike  # (n,) cross-entropy with margin-free logits (Eq. 3)
    missions: ArrayLike  # (n,) mission of each candidate, numbers or names
    n_stored: int = 0  # the first so many are the previous buffer
    seen: int = 0  # samples of this group ever offered before this mission: the reservoir's counter

    def __post_init__(self) -> None:
        n = len(self)
        lengths = {
            name: len(np.asarray(getattr(self, name))) for name in ("features", "prototypes", "losses", "missions")
        }
        if wrong := [f"{name} has {length}" for name, length in lengths.items() if length != n]:
            raise ValueError(f"a pool of {n} labels needs as many of everything; {', '.join(wrong)}")
        if not 0 <= self.n_stored <= n:
            raise ValueError(f"{self.n_stored} stored candidates in a pool of {n}")
        for name in ("features", "prototypes", "losses"):
            if not np.isfinite(np.asarray(getattr(self, name))).all():
                raise ModelError(f"{name} of the replay candidates hold NaN or infinity: the adapted model is broken")

    def __len__(self) -> int:
        return len(np.asarray(self.labels))

    @cached_property
    def classes(self) -> Indices:
        """(n,) labels as integers."""
        return np.asarray(self.labels, np.int64)

    @cached_property
    def vectors(self) -> NDArray[np.float64]:
        """(n, d) normalised features."""
        return scoring.normalise(self.features)

    @cached_property
    def similarity(self) -> Scores:
        """(n,) cosine between each candidate and its prototype: q_H (Eq. 9)."""
        return scoring.prototype_similarity(self.vectors, self.prototypes)


Selector = Callable[[Pool, int, np.random.Generator, SelectionSettings], Indices]


class Strategy(NamedTuple):
    """How to select, and the line that help texts show."""

    select: Selector
    description: str


def select(
    name: str, pool: Pool, budget: int, rng: np.random.Generator, settings: SelectionSettings | None = None
) -> Indices:
    """The min(budget, n) candidates to keep, most valuable first."""
    strategy = find_strategy(name)
    if budget < 0:
        raise SettingsError(f"a replay budget cannot be {budget}; give 0 or more")
    if not len(pool) or not budget:
        return np.empty(0, np.int64)
    return strategy.select(pool, budget, rng, settings or SelectionSettings())


def find_strategy(name: str) -> Strategy:
    """The strategy of that name; SettingsError lists the valid ones."""
    if name not in STRATEGIES:
        raise SettingsError(f"unknown selection strategy '{name}'; choose one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name]


def _loss(pool: Pool, settings: SelectionSettings) -> Scores:
    return scoring.settle(pool.losses)


def _diversity(pool: Pool, settings: SelectionSettings) -> Scores:
    return -scoring.redundancy(pool.vectors, pool.similarity, settings.prototype_weight)


def _shared_out(
    utility: Callable[[Pool, SelectionSettings], Scores], operator: Callable[[Indices, Scores, int], Indices]
) -> Selector:
    """A scalar utility (Eq. 3 or 5) with a class-wise operator."""
    return lambda pool, budget, rng, settings: operator(pool.classes, utility(pool, settings), budget)


def _globally(utility: Callable[[Pool, SelectionSettings], Scores]) -> Selector:
    return lambda pool, budget, rng, settings: allocation.global_top(utility(pool, settings), budget)


def _dbs_hybrid(pool: Pool, budget: int, rng: np.random.Generator, settings: SelectionSettings) -> Indices:
    q = pool.similarity
    return allocation.hybrid(pool.vectors, pool.classes, q, q, budget, settings.trim_ratio)


def _lbs_hybrid(pool: Pool, budget: int, rng: np.random.Generator, settings: SelectionSettings) -> Indices:
    # Section 5.6: σ_LBS only replaces the trimming score; representatives stay nearest to their prototypes.
    loss = _loss(pool, settings)
    return allocation.hybrid(pool.vectors, pool.classes, pool.similarity, loss, budget, settings.trim_ratio)


def _representative_only(pool: Pool, budget: int, rng: np.random.Generator, settings: SelectionSettings) -> Indices:
    # Table 'component analysis': Hybrid without trimming and coverage, so that backfill takes all the rest.
    kept = allocation.representatives(pool.classes, pool.similarity)[:budget]
    residual = np.setdiff1d(np.arange(len(pool)), kept)
    return np.concatenate([kept, residual[allocation.global_top(pool.similarity[residual], budget - len(kept))]])


def _k_center_only(pool: Pool, budget: int, rng: np.random.Generator, settings: SelectionSettings) -> Indices:
    # The same table: Eq. 11 over the whole pool. The paper names no first centre; the one nearest to its prototype is.
    first = np.argmax(pool.similarity, keepdims=True)
    others = np.delete(np.arange(len(pool)), first)
    return np.concatenate([first, allocation.k_center(pool.vectors, others, first, budget - 1)])


def _random(pool: Pool, budget: int, rng: np.random.Generator, settings: SelectionSettings) -> Indices:
    return rng.permutation(len(pool))[:budget]


def _reservoir(pool: Pool, budget: int, rng: np.random.Generator, settings: SelectionSettings) -> Indices:
    """Algorithm R over the new samples; a stored one keeps its slot until it is replaced.

    Free slots are filled first. They are free while the stream is short, or when the buffer lost entries to its limit
    in bytes. A buffer larger than the budget is first thinned at random, which leaves it a uniform sample.
    """
    slots = np.arange(pool.n_stored)
    if len(slots) > budget:
        slots = np.sort(rng.choice(slots, budget, replace=False))
    kept = slots.tolist()
    seen = max(pool.seen, pool.n_stored)
    for candidate in range(pool.n_stored, len(pool)):
        seen += 1
        if len(kept) < budget:
            kept.append(candidate)
        elif (slot := int(rng.integers(seen))) < budget:
            kept[slot] = candidate
    return np.asarray(kept, np.int64)


def _herding(pool: Pool, budget: int, rng: np.random.Generator, settings: SelectionSettings) -> Indices:
    ranks = scoring.herding_rank(pool.vectors, pool.classes)
    return allocation.round_robin(pool.classes, -ranks.astype(np.float64), budget)


def _balanced(pool: Pool, budget: int, rng: np.random.Generator, settings: SelectionSettings) -> Indices:
    """Missions take turns, oldest first, and within a mission its classes do, by id; chance decides within a class.

    A mission or class that has run out is passed over: this is the backfill when a quota cannot be filled.
    """
    _, first, mission = np.unique(np.asarray(pool.missions), return_index=True, return_inverse=True)
    age = np.argsort(np.argsort(first))[mission]  # 0 for the mission that comes first in the pool
    cell = age * (pool.classes.max() + 1) + pool.classes
    turn_of_class = allocation.rank_in_class(cell, rng.permutation(len(pool)).astype(np.float64))
    place = np.empty(len(pool), np.float64)
    place[np.lexsort((pool.classes, turn_of_class))] = np.arange(len(pool))
    return allocation.round_robin(age, -place, budget)


STRATEGIES: dict[str, Strategy] = {
    "random": Strategy(_random, "uniform sample of stored and new frames"),
    "lbs": Strategy(_shared_out(_loss, allocation.min_guarantee), "highest loss, one of every cell guaranteed"),
    "dbs": Strategy(_shared_out(_diversity, allocation.min_guarantee), "least redundant, one of every cell guaranteed"),
    "dbs_hybrid": Strategy(_dbs_hybrid, "one representative a cell, then coverage of feature space"),
    "global_lbs": Strategy(_globally(_loss), "ablation: highest loss, whatever the cell"),
    "round_robin_lbs": Strategy(_shared_out(_loss, allocation.round_robin), "ablation: highest loss, cells in turn"),
    "global_dbs": Strategy(_globally(_diversity), "ablation: least redundant, whatever the cell"),
    "round_robin_dbs": Strategy(
        _shared_out(_diversity, allocation.round_robin), "ablation: least redundant, cells in turn"
    ),
    "lbs_hybrid": Strategy(_lbs_hybrid, "ablation: as dbs_hybrid, but trims the lowest losses of a cell"),
    "representative_only": Strategy(_representative_only, "ablation: nearest to the prototypes, no coverage"),
    "k_center_only": Strategy(_k_center_only, "ablation: coverage of feature space alone"),
    "reservoir": Strategy(_reservoir, "uniform sample of all frames ever seen (ER, DER++)"),
    "herding": Strategy(_herding, "cells in turn, mean of the kept near the cell's mean (iCaRL)"),
    "balanced": Strategy(_balanced, "missions in turn, and the cells of each (UDIL)"),
}
