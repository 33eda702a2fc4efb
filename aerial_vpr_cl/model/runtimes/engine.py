"""The seam: images in, cosines with every cell out, whoever computes them; and PyTorch, which is always there."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from aerial_vpr_cl.model.network import Network
from aerial_vpr_cl.model.runtimes.names import COMPILED, EAGER


class Engine(Protocol):
    """A network of one generation, ready to answer."""

    name: str  # as diagnostics and tables call it

    def scores(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(B, S, S, 3) RGB of the network's input size to (B, C) cosines with every class."""


class TorchEngine:
    """PyTorch as it is, or compiled."""

    def __init__(self, network: Network, *, compiled: bool = False) -> None:
        self.name = COMPILED if compiled else EAGER
        self._network = network
        self._features = torch.compile(network.features) if compiled else network.features
        self._rows = network.heads.unit_rows()  # once for a generation, not for every frame

    @torch.inference_mode()
    def scores(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Cosines, in fp32 whatever the network computes in."""
        descriptors = self._features(self._network.normalise(images)).float()
        return F.linear(descriptors, self._rows).cpu().numpy()
