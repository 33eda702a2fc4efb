"""Anchored replay: DBS-Hybrid's memory with steadier weights. Not in the paper."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from aerial_vpr_cl.learning.method_options import AnchoredOptions
from aerial_vpr_cl.learning.methods.base import Batch, Method
from aerial_vpr_cl.learning.methods.derpp import logit_distance
from aerial_vpr_cl.learning.weight_mean import WeightMean
from aerial_vpr_cl.memory.buffer import Observation
from aerial_vpr_cl.model.network import Network


class AnchoredReplay(Method):
    """DBS-Hybrid whose weights are the mean over a mission's steps, drawn back towards those before the mission.

    A mission flies over a few cells in one look. What it changes for the rest of the map is mostly noise of the steps,
    which the mean takes out, and drift, which the anchor holds back.
    """

    name = "anchored"
    strategy = "dbs_hybrid"
    options: AnchoredOptions

    def __init__(self, options: AnchoredOptions) -> None:
        super().__init__(options)
        self.stores_logits = options.logit_weight > 0.0

    def begin_learning(
        self, network: Network, current: Sequence[Observation], replay: Sequence[Observation], tail_rate: float
    ) -> None:
        self._mean = WeightMean(network)
        self._before = [mean.clone() for mean, _ in self._mean.pairs]

    def loss(self, network: Network, batch: Batch) -> Tensor:
        features = network.features_of_trunk(batch.trunk)
        loss = self.classification_loss(network, batch, features)
        if not self.stores_logits:
            return loss
        return loss + self.options.logit_weight * logit_distance(network, batch, features)

    def after_step(self, network: Network, step: int) -> None:
        self._mean.add(step)

    @torch.no_grad()
    def end_learning(self, network: Network) -> None:
        for (mean, now), before in zip(self._mean.pairs, self._before):
            now.copy_(mean.lerp(before, self.options.anchor))


class TurnedReplay(AnchoredReplay):
    """Anchored replay of frames as seen that shows every frame at all four quarter turns: headings are chance.

    What was flown northwards is then known southwards, too. Frames are turned before they are squeezed to a square,
    which is exact for square ones. Half of the exemplars take on the colours of flown frames, so that the look of a
    mission is also shown over cells that it did not fly over.
    """

    name = "turned"
    turns_frames = True
