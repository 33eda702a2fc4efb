"""DIL-LwF: learning without forgetting by distillation alone, without any memory (paper, section 5.3)."""

from __future__ import annotations

from torch import Tensor

from aerial_vpr_cl.learning.method_options import LwfOptions
from aerial_vpr_cl.learning.methods.base import Batch, Method, frozen_copy
from aerial_vpr_cl.learning.methods.distillation import distil_heads
from aerial_vpr_cl.model.network import Network


class LearningWithoutForgetting(Method):
    """Cross-entropy of the active group a, plus distillation of the groups g < a that the cycle has gone through.

    The teacher is the network at the beginning of the active group's epoch.
    """

    name = "lwf"
    uses_exemplars = False
    options: LwfOptions
    _teacher: Network | None = None

    def begin_epoch(self, network: Network, group: int) -> None:
        # The first group of a cycle has none before it, so it needs no teacher.
        self._teacher = frozen_copy(network) if group > 0 else None

    def loss(self, network: Network, batch: Batch) -> Tensor:
        features = network.features_of_trunk(batch.trunk)
        loss = self.classification_loss(network, batch, features)
        if self._teacher is None:
            return loss
        earlier = list(range(batch.group))
        distilled = distil_heads(network, self._teacher, features, batch.trunk, earlier, self.options.temperature)
        return loss + self.options.distillation_weight * distilled.mean()
