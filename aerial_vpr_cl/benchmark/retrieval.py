"""Localization by nearest-neighbour retrieval over satellite patches: what a user would try instead of classification.

The query's feature is compared with that of every patch, and the best patch's centre is the answer. Same features, same
map: only memory, time and accuracy differ from the classifier, which is the point of having it.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aerial_vpr_cl.errors import SettingsError

BACKENDS = ("numpy", "faiss")
CHUNK_SCORES = 1 << 22
"""Query-patch similarities held at once: 16 MiB of float32."""


class NearestPatchIndex:
    """Patches to be found by cosine similarity: features (n, d) and their centres (n, 2), easting and northing."""

    def __init__(self, features: ArrayLike, positions: ArrayLike, backend: str = "numpy") -> None:
        self.features = unit_rows(features)
        self.positions = np.asarray(positions, np.float64)
        if not len(self.features) or self.positions.shape != (len(self.features), 2):
            raise ValueError(
                f"{len(self.features)} features with positions {self.positions.shape}; expected (n, 2), n > 0"
            )
        self._faiss = _faiss_index(self.features) if _checked(backend) == "faiss" else None

    @property
    def memory_bytes(self) -> int:
        """What the index keeps in memory for the flight: every feature and its position."""
        return self.features.nbytes + self.positions.nbytes

    def locate(self, queries: ArrayLike) -> NDArray[np.float64]:
        """The centre (m, 2) of the most similar patch for each query feature (m, d)."""
        return self.positions[self.nearest(queries)]

    def nearest(self, queries: ArrayLike) -> NDArray[np.int64]:
        """The row (m,) of the most similar patch for each query feature (m, d); the earlier of equals."""
        queries = unit_rows(queries)
        if self._faiss is not None:
            return self._faiss.search(queries, 1)[1][:, 0]
        found = np.zeros(len(queries), np.int64)
        best = np.full(len(queries), -np.inf, np.float32)
        step = max(1, CHUNK_SCORES // max(1, len(queries)))
        for start in range(0, len(self.features), step):
            scores = queries @ self.features[start : start + step].T
            winners = scores.argmax(axis=1)
            score = scores[np.arange(len(queries)), winners]
            better = score > best
            found[better], best[better] = start + winners[better], score[better]
        return found


def unit_rows(features: ArrayLike) -> NDArray[np.float32]:
    """Features as float32 rows of length one; a zero row stays zero and resembles nothing."""
    rows = np.ascontiguousarray(features, np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True).astype(np.float32)
    return rows / np.where(lengths > 0, lengths, np.float32(1))


def _checked(backend: str) -> str:
    if backend not in BACKENDS:
        raise SettingsError(f"unknown retrieval backend '{backend}'; valid names: {', '.join(BACKENDS)}")
    return backend


def _faiss_index(features: NDArray[np.float32]) -> Any:
    try:
        faiss = importlib.import_module("faiss")
    except ImportError:
        raise SettingsError(
            "retrieval backend 'faiss' is not installed; pip install faiss-cpu, or use 'numpy'"
        ) from None
    index = faiss.IndexFlatIP(features.shape[1])
    index.add(features)
    return index
