"""Select: which observations the replay buffer keeps after a mission (paper, sections 4.1 and 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aerial_vpr_cl.learning.method_options import selection_settings
from aerial_vpr_cl.learning.methods.base import Method
from aerial_vpr_cl.learning.trunk_outputs import TrunkOutputs, whole_image
from aerial_vpr_cl.memory.buffer import Observation, ReplayBuffer
from aerial_vpr_cl.memory.strategies import Pool, select
from aerial_vpr_cl.model.batches import in_batches
from aerial_vpr_cl.model.network import Network
from aerial_vpr_cl.progress import Progress, silent


@dataclass(frozen=True)
class Embedding:
    """What the adapted network says of observations, unaugmented."""

    features: NDArray[np.float32]  # (n, d), L2-normalised
    scores: NDArray[np.float32]  # (n, C) cosines of all heads
    losses: NDArray[np.float32]  # (n,) cross-entropy of the own head, without margin


def embed(
    network: Network,
    observations: Sequence[Observation],
    trunk: TrunkOutputs,
    progress: Progress = silent,
    phase: str = "embed",
) -> Embedding:
    """Features, scores and margin-free losses of whole images."""
    if not observations:
        empty = np.empty((0, network.feature_dim), np.float32)
        return Embedding(empty, np.empty((0, network.grid.n_classes), np.float32), np.empty(0, np.float32))

    def outputs(part: Sequence[Observation]) -> tuple[Tensor, Tensor, Tensor]:
        features = network.features_of_trunk(trunk.of([whole_image(observation) for observation in part]))
        labels = torch.tensor([observation.label for observation in part], device=network.device)
        groups = network.heads.group_of_class[labels]
        losses = features.new_zeros(len(part))
        for group in groups.unique().tolist():
            rows = groups == group
            losses[rows] = network.heads.cross_entropy(features[rows], labels[rows], group, margin=False)
        return features, network.heads.cosines(features), losses

    return Embedding(*in_batches(outputs, observations, progress=progress, phase=phase))


def select_replay(
    network: Network,
    current: Sequence[Observation],
    buffer: ReplayBuffer,
    method: Method,
    rng: np.random.Generator,
    trunk: TrunkOutputs,
    progress: Progress = silent,
    limits: ReplayBuffer | None = None,
) -> ReplayBuffer:
    """The next replay buffer: per group, Φ(P_k, q, B) over the stored and the new observations (equation 1).

    `limits` is the buffer within other bounds, where they have changed: all that is stored is still a candidate.
    """
    if method.strategy is None:
        return buffer if limits is None else limits
    options = selection_settings(method.options)
    candidates = [*buffer, *current]
    buffer = buffer if limits is None else limits
    embedding = embed(network, candidates, trunk, progress, "select")
    n_stored = len(candidates) - len(current)
    labels = np.array([candidate.label for candidate in candidates], np.int64)
    grid = network.grid
    groups = grid.groups[labels]
    for group in range(grid.n_groups):
        rows = np.flatnonzero(groups == group)  # stored ones first, then the mission in time order
        pool = Pool(
            features=embedding.features[rows],
            labels=labels[rows],
            prototypes=network.heads.prototypes(torch.from_numpy(labels[rows]).to(network.device)).cpu().numpy(),
            losses=embedding.losses[rows],
            missions=np.array([candidates[row].mission for row in rows]),
            n_stored=int((rows < n_stored).sum()),
            seen=buffer.seen[group],
        )
        chosen = rows[select(method.strategy, pool, buffer.budget, rng, options)]
        kept = [
            candidates[row]
            if row < n_stored and not method.refreshes_stored
            else _with_outputs(candidates[row], row, embedding, network, method, group)
            for row in chosen
        ]
        buffer = buffer.replace_group(group, kept, seen=buffer.seen[group] + int((rows >= n_stored).sum()))
    return buffer


def _with_outputs(
    observation: Observation, row: int, embedding: Embedding, network: Network, method: Method, group: int
) -> Observation:
    """An observation with what its method wants remembered of this moment's network."""
    logits = feature = None
    if method.stores_logits:
        own = network.grid.classes_of_group(group)
        logits = (network.heads.scale * embedding.scores[row, own]).astype(np.float32)
    if method.stores_features:
        feature = embedding.features[row].astype(np.float32)
    return replace(observation, logits=logits, feature=feature)
