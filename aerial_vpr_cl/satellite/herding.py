"""Herding: the few samples of each class whose mean stays nearest to the class mean (iCaRL; paper, section 4.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

CHUNK_BYTES = 64 * 2**20
"""Features and Gram matrices of the classes handled at a time."""

TIE = 1e-9
"""Squared distances closer than this are equal, and the earlier sample wins: rounding must not choose."""


def herd(features: ArrayLike, labels: ArrayLike, per_class: int = 12) -> NDArray[np.int64]:
    """Rows chosen from L2-normalised features (n, d): by ascending class, within a class in herding order.

    At step k the sample is taken that brings the mean of the k chosen nearest to the mean of its class.
    """
    features = np.asarray(features)
    labels = np.asarray(labels)
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise ValueError(f"features (n, d) and labels (n,) expected, not {features.shape} and {labels.shape}")
    order = np.argsort(labels, kind="stable")
    _, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
    chosen = np.full((len(counts), per_class), -1, np.int64)
    # Classes of like size share a chunk, so that little padding is carried along.
    by_size = np.argsort(counts, kind="stable")
    first = 0
    while first < len(by_size):
        chunk = by_size[first : first + _chunk_length(counts[by_size[first:]], features.shape[1])]
        places = np.arange(counts[chunk].max())
        real = places < counts[chunk, None]
        rows = order[np.where(real, starts[chunk, None] + places, 0)]  # (classes, samples)
        picks = _herd_padded(features[rows].astype(np.float64), real, per_class)
        chosen[chunk, : picks.shape[1]] = np.where(picks >= 0, np.take_along_axis(rows, picks.clip(0), axis=1), -1)
        first += len(chunk)
    return chosen[chosen >= 0]


def _herd_padded(x: NDArray[np.float64], real: NDArray[np.bool_], per_class: int) -> NDArray[np.int64]:
    """Herding of many classes at once: x (c, n, d) and which samples are real; picks (c, k), −1 where there are none.

    ‖μ − (s + x_j)/k‖² depends on j through −2 μ·x_j/k + (2 s·x_j + x_j·x_j)/k², with s the sum of the chosen: all
    of it entries of the Gram matrix, so features are touched once.
    """
    gram = x @ x.transpose(0, 2, 1)
    classes = np.arange(len(x))
    towards_mean = (gram * real[:, None]).sum(axis=2) / real.sum(axis=1, keepdims=True)
    own = np.einsum("cnn->cn", gram)
    towards_sum = np.zeros_like(own)
    free = real.copy()
    picks = np.full((len(x), min(per_class, x.shape[1])), -1, np.int64)
    for k in range(1, picks.shape[1] + 1):
        distance = (2.0 * towards_sum + own) / k**2 - 2.0 * towards_mean / k
        distance[~free] = np.inf
        pick = (distance <= distance.min(axis=1, keepdims=True) + TIE).argmax(axis=1)
        left = free.any(axis=1)
        picks[left, k - 1] = pick[left]
        towards_sum += gram[classes, pick]
        free[classes, pick] = False
    return picks


def _chunk_length(counts: NDArray[np.int64], dim: int) -> int:
    """How many of the next classes, ascending in size, fit in a chunk; at least one."""
    padded_bytes = np.arange(1, len(counts) + 1) * counts * (counts + dim) * 8
    return max(1, int(np.searchsorted(padded_bytes, CHUNK_BYTES, side="right")))
