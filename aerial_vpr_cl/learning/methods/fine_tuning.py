"""Fine-tuning without airborne memory: FT, and FT+EX with the static satellite exemplars (section 5.3)."""

from __future__ import annotations

from torch import Tensor

from aerial_vpr_cl.learning.methods.base import Batch, Method
from aerial_vpr_cl.model.network import Network


class FineTuning(Method):
    """FT: trained on the current mission alone; the reference for forgetting."""

    name = "ft"
    uses_exemplars = False

    def loss(self, network: Network, batch: Batch) -> Tensor:
        return self.classification_loss(network, batch, network.features_of_trunk(batch.trunk))


class FineTuningWithExemplars(FineTuning):
    """FT+EX: current mission and M_EX, no replay buffer."""

    name = "ft_ex"
    uses_exemplars = True
