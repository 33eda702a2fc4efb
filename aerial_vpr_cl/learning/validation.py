"""The gate before a commit: a network that broke, or forgot, is not let through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.learning.adapt_settings import GateSettings
from aerial_vpr_cl.learning.loop import Memories
from aerial_vpr_cl.learning.selection import FEATURE_BATCH, embed
from aerial_vpr_cl.memory.buffer import Observation
from aerial_vpr_cl.model.network import Network

NEAR_CELLS = 1.5
"""A prediction counts when its cell centre lies within this many cell sides: 300 m for cells of 200 m."""


@dataclass(frozen=True)
class Recalls:
    """Share of frames placed near the truth; NaN where there is nothing to look at."""

    mission: float
    replay: float
    exemplars: float


def recall_near(grid: Grid, scores: NDArray[np.float32], positions: NDArray[np.float64]) -> float:
    """Share of rows whose best cell's centre lies within NEAR_CELLS cell sides of the position."""
    if not len(scores):
        return float("nan")
    predicted = grid.centres[scores.argmax(axis=1)]
    return float((np.linalg.norm(predicted - positions, axis=1) <= NEAR_CELLS * grid.cell_side_m).mean())


def measure(
    network: Network, grid: Grid, current: Sequence[Observation], memories: Memories, n_exemplars: int
) -> Recalls:
    """Recall on the flown frames, the replay buffer and a fixed, spread sample of the exemplars."""
    return Recalls(
        mission=_recall_of(network, grid, current),
        replay=_recall_of(network, grid, memories.replay),
        exemplars=_recall_of_exemplars(network, grid, memories, n_exemplars),
    )


def refusal(network: Network, before: Recalls, after: Recalls, settings: GateSettings) -> str:
    """Why the adapted network must not be committed; empty when it may."""
    for name, tensor in network.living_tensors().items():
        if not bool(torch.isfinite(tensor).all()):
            return f"learning broke the network: {name} is not finite"
    for what, old, new in [
        ("the replay buffer", before.replay, after.replay),
        ("the satellite exemplars", before.exemplars, after.exemplars),
    ]:
        if old - new > settings.gate_margin:
            return (
                f"recall on {what} fell from {old:.0%} to {new:.0%}, more than the allowed {settings.gate_margin:.0%} "
                "(gate_margin)"
            )
    return ""


def _recall_of(network: Network, grid: Grid, observations: Sequence[Observation]) -> float:
    positions = np.array([observation.position for observation in observations]).reshape(-1, 2)
    return recall_near(grid, embed(network, observations).scores, positions)


def _recall_of_exemplars(network: Network, grid: Grid, memories: Memories, n_exemplars: int) -> float:
    memory = memories.exemplars
    if memory is None or not n_exemplars or not len(memory.labels):
        return float("nan")
    rows = np.unique(np.linspace(0, len(memory.labels) - 1, n_exemplars).astype(int))
    scores = []
    with torch.inference_mode():
        for start in range(0, len(rows), FEATURE_BATCH):
            images = memory.read(rows[start : start + FEATURE_BATCH], network.input_size, memories.satellite)
            scores.append(network.scores(network.preprocess(images)).cpu().numpy())
    return recall_near(grid, np.concatenate(scores), memory.centres[rows])
