"""The gate before a commit: a network that broke, or forgot, is not let through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.knowledge.report import Recalls
from aerial_vpr_cl.learning.adapt_settings import GateSettings
from aerial_vpr_cl.learning.loop import Memories
from aerial_vpr_cl.learning.trunk_outputs import Picture, TrunkOutputs, scores_of, whole_exemplar, whole_image
from aerial_vpr_cl.memory.buffer import Observation
from aerial_vpr_cl.model.network import Network

NEAR_CELLS = 1.5
"""A prediction counts when its cell centre lies within this many cell sides: 300 m for cells of 200 m."""

CHANCE = 2
"""So many answers may become wrong whatever share they are: a buffer begins with a handful of frames."""

Asked = tuple[list[Picture], NDArray[np.float64]]
"""Pictures and their (n, 2) positions."""


def recall_near(grid: Grid, scores: NDArray[np.float32], positions: NDArray[np.float64]) -> float:
    """Share of rows whose best cell's centre lies within NEAR_CELLS cell sides of the position."""
    if not len(scores):
        return float("nan")
    predicted = grid.centres[scores.argmax(axis=1)]
    return float((np.linalg.norm(predicted - positions, axis=1) <= NEAR_CELLS * grid.cell_side_m).mean())


@dataclass(frozen=True, eq=False)
class Questions:
    """What the gate asks before and after learning: pictures, and where they were taken."""

    mission: Asked
    replay: Asked
    exemplars: Asked

    @classmethod
    def about(cls, network: Network, current: Sequence[Observation], memories: Memories, n_exemplars: int) -> Questions:
        """The flown frames, the replay buffer and a fixed, spread sample of the exemplars."""
        return cls(_flown(current), _flown(memories.replay), _exemplars(memories, n_exemplars, network.input_size))

    @property
    def pictures(self) -> list[Picture]:
        """All of them."""
        return [*self.mission[0], *self.replay[0], *self.exemplars[0]]

    def put_to(self, network: Network, trunk: TrunkOutputs) -> Recalls:
        """How well a network answers."""
        return Recalls(*(_recall(network, asked, trunk) for asked in (self.mission, self.replay, self.exemplars)))


def refusal(
    network: Network, before: Recalls, after: Recalls, settings: GateSettings, n_replay: int, n_exemplars: int
) -> str:
    """Why the adapted network must not be committed; empty when it may. So many pictures were asked about of each."""
    for name, tensor in network.living_tensors().items():
        if not bool(torch.isfinite(tensor).all()):
            return f"learning broke the network: {name} is not finite"
    for what, old, new, asked in [
        ("the replay buffer", before.replay, after.replay, n_replay),
        ("the satellite exemplars", before.exemplars, after.exemplars, n_exemplars),
    ]:
        if old - new > settings.gate_margin and round((old - new) * asked) > CHANCE:
            return (
                f"recall on {what} fell from {old:.0%} to {new:.0%}, more than the allowed {settings.gate_margin:.0%} "
                "(gate_margin)"
            )
    return ""


def _recall(network: Network, asked: Asked, trunk: TrunkOutputs) -> float:
    pictures, positions = asked
    return recall_near(network.grid, scores_of(network, pictures, trunk), positions) if pictures else float("nan")


def _flown(observations: Sequence[Observation]) -> Asked:
    positions = np.array([observation.position for observation in observations]).reshape(-1, 2)
    return [whole_image(observation) for observation in observations], positions


def _exemplars(memories: Memories, count: int, size_px: int) -> Asked:
    memory = memories.exemplars
    if memory is None or not count or not len(memory):
        return [], np.empty((0, 2))
    rows = np.unique(np.linspace(0, len(memory) - 1, count).astype(int))
    return [whole_exemplar(memory, int(row), size_px, memories.satellite) for row in rows], memory.centres[rows]
