"""DIL-DER++: replay that also holds on to what the network once answered (paper, section 5.3)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from aerial_vpr_cl.learning.batches import REPLAY
from aerial_vpr_cl.learning.methods.base import Batch, Method, stored
from aerial_vpr_cl.model.network import Network


class DarkExperienceReplay(Method):
    """Mean cross-entropy of the mixed batch, plus the squared distance of replayed logits to the stored ones.

    The logits are the own head's s·cos, without margin, of the whole image when it entered the buffer.
    """

    name = "derpp"
    strategy = "reservoir"
    stores_logits = True

    def __init__(self, *, logit_weight: float = 0.5) -> None:
        super().__init__()
        self.logit_weight = logit_weight  # β_DER

    def loss(self, network: Network, batch: Batch) -> Tensor:
        features = network.features_of_trunk(batch.trunk)
        loss = network.heads.cross_entropy(features, batch.labels, batch.group).mean()
        rows, old_logits = stored(batch.replayed, "logits", features.device)
        if not len(rows):
            return loss
        logits = network.heads.logits(features[batch.of(REPLAY)][rows], batch.group)
        return loss + self.logit_weight * F.mse_loss(logits, old_logits)
