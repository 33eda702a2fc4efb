"""What a replay candidate is worth: loss, redundancy, prototype similarity, herding rank (paper, section 4.4.1).

Arrays in, one score a candidate out. Scores are settled to ten decimals, so that candidates whose scores are equal but
for rounding tie on every machine, and the tie goes to the earlier one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

NORM_FLOOR = 1e-12
"""ε of section 4.4.1: a zero vector stays zero, its cosine with anything is 0."""

DECIMALS = 10
"""Far above the rounding of sums over some thousand candidates, far below any difference that means something."""

Scores = NDArray[np.float64]


def settle(scores: ArrayLike) -> Scores:
    """Scores without their last digits, which depend on the order of summation."""
    return np.asarray(np.round(np.asarray(scores, np.float64), DECIMALS), np.float64)


def normalise(vectors: ArrayLike) -> NDArray[np.float64]:
    """(n, d) rows divided by max(‖row‖, ε), in double precision."""
    rows = np.array(vectors, np.float64, ndmin=2)
    rows /= np.maximum(np.sqrt(np.einsum("ij,ij->i", rows, rows)), NORM_FLOOR)[:, None]
    return rows


def cross_entropy(logits: ArrayLike, columns: ArrayLike) -> Scores:
    """σ_LBS (Eq. 3): the loss of each candidate from its margin-free logits (n, C) and the column of its class."""
    values = np.asarray(logits, np.float64)
    shifted = values - values.max(axis=1, keepdims=True)
    own = np.take_along_axis(shifted, np.asarray(columns, np.int64)[:, None], axis=1)[:, 0]
    return settle(np.log(np.exp(shifted).sum(axis=1)) - own)


def prototype_similarity(vectors: NDArray[np.float64], prototypes: ArrayLike) -> Scores:
    """q_H (Eq. 9): cosine between each normalised candidate (n, d) and the classifier row of its class, (n, d) too."""
    rows = np.asarray(prototypes)
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    return settle(np.einsum("ij,ij->i", vectors, rows, dtype=np.float64) / np.maximum(norms, NORM_FLOOR))


def redundancy(vectors: NDArray[np.float64], similarity: Scores, prototype_weight: float = 1.0) -> Scores:
    """R (Eq. 4): sum of cosines to all other candidates plus λ times the prototype similarity; σ_DBS = −R (Eq. 5).

    The sum over j ≠ i is z·Σz − z·z: linear in n where the paper's dense form is quadratic.
    """
    others = vectors @ vectors.sum(axis=0) - np.einsum("ij,ij->i", vectors, vectors)
    return settle(others + prototype_weight * similarity)


def herding_rank(vectors: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n,) place of each candidate in the greedy herding order of its class: 0 is chosen first (iCaRL).

    Each choice brings the mean of the chosen closest to the mean of all candidates of the class.
    """
    ranks = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        gram = vectors[members] @ vectors[members].T
        to_mean, norms, to_chosen = gram.mean(axis=1), np.diag(gram), np.zeros(len(members))
        left = np.ones(len(members), bool)
        for rank in range(len(members)):
            # ‖μ − (Σ + z)/k‖² with k = rank + 1, without the terms that all z share and times k²
            error = settle(norms + 2 * to_chosen - 2 * (rank + 1) * to_mean)
            best = int(np.argmin(np.where(left, error, np.inf)))
            ranks[members[best]] = rank
            left[best] = False
            to_chosen += gram[best]
    return ranks
