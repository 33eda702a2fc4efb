"""A running mean of the weights: steadier, and better on unseen views, than the weights of any single step."""

from __future__ import annotations

import torch

from aerial_vpr_cl.model.network import Network

GROWTH = 4
"""A step counts by its number to this power: mostly the last third of the steps, however many there are."""


class WeightMean:
    """The mean of a network's weights over its steps, late ones counting more, as a network of its own.

    Trunk and BatchNorm statistics are frozen, so the mean of the weights is all there is to average. Nothing depends on
    how many steps are still to come: training may stop, or go on, after any of them.
    """

    def __init__(self, network: Network, growth: float = GROWTH) -> None:
        self.growth = growth
        self.network = network.copy_living_parts().eval()
        pairs = zip(self.network.parameters(), network.parameters())
        self.pairs = [(mean, now) for mean, now in pairs if now.requires_grad]
        self.network.requires_grad_(False)

    @torch.no_grad()
    def add(self, step: int) -> None:
        """Take in the weights after a step, which are numbered from 1."""
        share = (self.growth + 1) / (step + self.growth)  # polynomial decay averaging (Shamir and Zhang, ICML 2013)
        for mean, now in self.pairs:
            mean.lerp_(now, share)
