"""Replay: the paper's framework with any selection strategy, and DIL-ER, which it is compared with."""

from __future__ import annotations

from torch import Tensor

from aerial_vpr_cl.learning.method_options import MethodOptions
from aerial_vpr_cl.learning.methods.base import Batch, Method
from aerial_vpr_cl.model.network import Network


class Replay(Method):
    """Heterogeneous memory with the strategy that decides what the replay buffer keeps (sections 4.2 to 4.4)."""

    name = "replay"

    def __init__(self, options: MethodOptions, strategy: str) -> None:
        super().__init__(options)
        self.strategy = strategy

    def loss(self, network: Network, batch: Batch) -> Tensor:
        return self.classification_loss(network, batch, network.features_of_trunk(batch.trunk))


class ExperienceReplay(Replay):
    """DIL-ER: the current mission and a uniform sample of everything flown before, no exemplars (section 5.3)."""

    name = "er"
    uses_exemplars = False

    def __init__(self, options: MethodOptions) -> None:
        super().__init__(options, "reservoir")
