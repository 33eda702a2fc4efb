"""DIL-iCaRL: herded replay and distillation of every head from the network before the mission (paper, section 5.3)."""

from __future__ import annotations

from torch import Tensor

from aerial_vpr_cl.learning.method_options import IcarlOptions
from aerial_vpr_cl.learning.methods.base import Batch, Method, MissionStep, frozen_copy
from aerial_vpr_cl.learning.methods.distillation import distil_heads
from aerial_vpr_cl.model.network import Network


class IncrementalClassifier(Method):
    """L_total plus distillation over all heads on the whole mixed batch; answers come from the heads as everywhere.

    The paper gives neither weight nor temperature of this distillation. iCaRL itself adds both losses unweighted, so
    one head's worth of distillation, the mean over the heads, stands beside one classification; T is that of LwF.
    """

    name = "icarl"
    strategy = "herding"
    options: IcarlOptions
    _teacher: Network | None = None

    def begin_mission(self, network: Network, step: MissionStep) -> None:
        self._teacher = frozen_copy(network)

    def loss(self, network: Network, batch: Batch) -> Tensor:
        assert self._teacher is not None, "begin_mission comes first"
        features = network.features_of_trunk(batch.trunk)
        every = [group for group, weights in enumerate(network.heads.weights) if len(weights)]
        distilled = distil_heads(network, self._teacher, features, batch.trunk, every, self.options.temperature)
        per_head = distilled.mean() / len(every)
        return self.classification_loss(network, batch, features) + self.options.distillation_weight * per_head
