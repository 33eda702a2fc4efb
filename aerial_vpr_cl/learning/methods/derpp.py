"""DIL-DER++: replay that also holds on to what the network once answered (paper, section 5.3)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from aerial_vpr_cl.learning.batches import REPLAY
from aerial_vpr_cl.learning.method_options import DerppOptions
from aerial_vpr_cl.learning.methods.base import Batch, Method, stored
from aerial_vpr_cl.learning.recipes import PAPER_RECIPE
from aerial_vpr_cl.model.network import Network


class DarkExperienceReplay(Method):
    """Mean cross-entropy of the mixed batch, plus the squared distance of replayed logits to the stored ones.

    The logits are the own head's s·cos, without margin, of the whole image when it entered the buffer. They are
    compared at the paper's s = 100, where β_DER has its meaning: their squares at s = 30 would weigh 11 times less.
    """

    name = "derpp"
    strategy = "reservoir"
    stores_logits = True
    options: DerppOptions

    def loss(self, network: Network, batch: Batch) -> Tensor:
        features = network.features_of_trunk(batch.trunk)
        loss = network.heads.cross_entropy(features, batch.labels, batch.group).mean()
        return loss + self.options.logit_weight * logit_distance(network, batch, features)


def logit_distance(network: Network, batch: Batch, features: Tensor) -> Tensor:
    """Mean squared distance of replayed logits to the stored ones, at the paper's s; 0 where none are stored."""
    rows, old_logits = stored(batch.replayed, "logits", features.device)
    if not len(rows):
        return features.new_zeros(())
    logits = network.heads.logits(features[batch.of(REPLAY)][rows], batch.group)
    to_paper = PAPER_RECIPE.scale / network.heads.scale
    return to_paper**2 * F.mse_loss(logits, old_logits)
