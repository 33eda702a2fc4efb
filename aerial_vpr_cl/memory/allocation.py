"""How a budget is shared out among candidates: the operators Φ of the paper's section 4.4.2.

All return min(budget, n) distinct candidate indices, most valuable first; all ties go to the earlier candidate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.memory.scoring import Scores, settle

Indices = NDArray[np.int64]

SMALLEST_TRIMMED_CLASS = 3
"""Classes with fewer candidates are not trimmed (section 5.1.3)."""

BLOCK = 256
"""Candidates that k-center looks at together, in one matrix product: memory is BLOCK², however large the pool."""


def global_top(utility: Scores, budget: int) -> Indices:
    """Global: the highest utilities of the pool, whatever their classes."""
    return np.argsort(-utility, kind="stable")[:budget]


def round_robin(labels: Indices, utility: Scores, budget: int) -> Indices:
    """Round-Robin: every class in turn, by class id, gives its best candidate that is left."""
    return np.lexsort((labels, rank_in_class(labels, utility)))[:budget]


def min_guarantee(labels: Indices, utility: Scores, budget: int) -> Indices:
    """Min-Guar, Φ_MG (Eqs. 6 and 7): the best of every class, then the best of the rest, both by utility.

    Where classes outnumber the budget, the representatives of highest utility stay.
    """
    residual = rank_in_class(labels, utility) > 0
    return np.lexsort((-utility, residual))[:budget]


def hybrid(
    vectors: NDArray[np.float64],
    labels: Indices,
    similarity: Scores,
    trim_score: Scores,
    budget: int,
    trim_ratio: float = 0.05,
) -> Indices:
    """Hybrid, Φ_H (Eqs. 8 to 11): representatives, trimming, coverage, backfill; `vectors` (n, d) normalised.

    Representatives are nearest to their prototype and stand in the order of class ids, so a budget smaller than the
    number of classes keeps those of the first ids.
    """
    kept = representatives(labels, similarity)[:budget]
    residual = np.ones(len(labels), bool)
    residual[kept] = False
    if len(kept) == budget or not residual.any():
        return kept
    trimmed = residual & within_quantile(labels, trim_score, trim_ratio)
    covering = k_center(vectors, np.flatnonzero(trimmed), kept, budget - len(kept))
    excluded = np.flatnonzero(residual & ~trimmed)
    backfill = excluded[global_top(trim_score[excluded], budget - len(kept) - len(covering))]
    return np.concatenate([kept, covering, backfill])


def representatives(labels: Indices, score: Scores) -> Indices:
    """P_rep of Eqs. 6 and 8: the candidate of highest score of every class, by ascending class id."""
    best = np.flatnonzero(rank_in_class(labels, score) == 0)
    return best[np.argsort(labels[best])]


def within_quantile(labels: Indices, score: Scores, ratio: float) -> NDArray[np.bool_]:
    """Trimming of Eq. 10: whether each score reaches the linear ρ-quantile Q_ρ of its whole class.

    The linear quantile lies between two neighbours in the order; a score reaches it just when it reaches the upper
    one, the ⌈(m − 1)ρ⌉-th from below among m.
    """
    order = np.lexsort((score, labels))
    _, starts, class_of, sizes = np.unique(labels[order], return_index=True, return_inverse=True, return_counts=True)
    steps = np.ceil((sizes - 1) * ratio - 1e-9).astype(np.int64)  # 140 · 0.05 is 7, not a little more
    threshold = score[order[starts + steps]]
    threshold[sizes < SMALLEST_TRIMMED_CLASS] = -np.inf
    reaches = np.empty(len(labels), bool)
    reaches[order] = score[order] >= threshold[class_of]
    return reaches


def rank_in_class(labels: Indices, utility: Scores) -> Indices:
    """(n,) place of each candidate in its class by descending utility: 0 is the best."""
    order = np.lexsort((-utility, labels))
    ordered = labels[order]
    first = np.searchsorted(ordered, ordered)  # where each one's class begins
    ranks = np.empty(len(labels), np.int64)
    ranks[order] = np.arange(len(labels)) - first
    return ranks


def k_center(
    vectors: NDArray[np.float64], eligible: Indices, retained: Indices, count: int, block_size: int = BLOCK
) -> Indices:
    """Greedy cosine k-center (Eq. 11): the eligible candidate farthest from all retained ones joins them, repeatedly.

    `eligible` ascending and apart from `retained`, which must not be empty. A running minimum distance costs O(n·k·d)
    and no n×n matrix. It can only shrink, so an outdated one is an upper bound: as long as the best of a block of
    up-to-date candidates is not below the bounds of all others, it is the true maximum, and the others wait.
    """
    count = min(count, len(eligible))
    near = _distance(vectors, vectors[retained])[eligible] if count else np.empty(0)
    seen = np.zeros(len(eligible), np.int64)  # how many picks each distance in `near` knows of
    picks = np.empty(count, np.int64)
    done = 0
    while done < count:
        order = np.argsort(-near, kind="stable")
        block, others = np.sort(order[:block_size]), order[block_size:]
        bound, bound_at = (near[others[0]], others[0]) if len(others) else (-np.inf, len(order))
        rows = vectors[eligible[block]]
        distance = np.minimum(near[block], _distance(rows, vectors[picks[seen[block].min() : done]]))
        # A block of all candidates serves for every pick; of one among many only a few are picked.
        mutual = None if len(others) else settle(1 - rows @ rows.T)
        while done < count:
            best = distance.argmax()
            if distance[best] < bound or (distance[best] == bound and block[best] > bound_at):
                break
            picks[done] = eligible[block[best]]
            done += 1
            np.minimum(distance, settle(1 - rows @ rows[best]) if mutual is None else mutual[best], out=distance)
            distance[best] = -np.inf
        near[block], seen[block] = distance, done
    return picks


def _distance(rows: NDArray[np.float64], centres: NDArray[np.float64]) -> Scores:
    """(n,) cosine distance of each row to the nearest centre; 2, the largest there is, where there is no centre."""
    return settle(1 - (rows @ centres.T).max(axis=1, initial=-1))
