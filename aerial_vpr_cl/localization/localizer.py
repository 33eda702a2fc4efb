"""An image to a position: the network of the newest generation, and what its scores mean on the ground."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.knowledge.draft import Generation
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.localization.estimate import BLANK_IMAGE, LOW_CONFIDENCE, Estimate, Estimator, Rejection
from aerial_vpr_cl.model.checkpoint import load_network, load_tail, read_identity
from aerial_vpr_cl.model.network import Network
from aerial_vpr_cl.settings import setting

BLANK_CONTRAST = 1.0
"""Standard deviation in grey levels below which an image shows nothing: a lens cap, a dead sensor, thick cloud."""


@dataclass(frozen=True)
class LocalizerSettings:
    """What is asked of an answer."""

    min_confidence: float = setting(
        0.5,
        "least probability of the best cell and its neighbours for a position to be published; 0.5: more likely right "
        "than wrong",
        low=0.0,
        high=1.0,
    )
    top_k: int = setting(5, "most probable cells that are reported", low=1, high=100)


class Localizer:
    """One generation, ready to answer. Not changed once made: to learn of a newer one, make another with `open`."""

    def __init__(self, network: Network, generation: Generation | None = None) -> None:
        self.network = network.eval()
        self.generation = generation
        self.estimator = Estimator(network.grid)

    @classmethod
    def open(cls, store: Path, *, device: torch.device | str = "cpu", previous: Localizer | None = None) -> Localizer:
        """Load the newest intact generation of a store; StoreError, MapError or ModelError say what is missing.

        `previous` is the localizer in use: its grid must be the same, and its frozen trunk is shared instead of read.
        """
        folder = open_map(store)
        generation = GenerationStore(store).newest(grid_hash=(previous.grid if previous else folder.grid).hash)
        tail = generation.path / "tail.safetensors"
        if previous is not None and _same_trunk(tail, previous.network):
            network = previous.network.copy_living_parts()
            load_tail(tail, network)
        else:
            network = load_network(folder.path / "trunk.safetensors", tail, folder.grid, device=device)
        return cls(network, generation)

    @property
    def grid(self) -> Grid:
        """The ground the answers are about."""
        return self.network.grid

    def warm_up(self) -> None:
        """Answer once for nobody, so that the first frame does not wait for memory and kernels."""
        side = self.network.input_size
        self.probabilities(np.zeros((side, side, 3), np.uint8))

    @torch.inference_mode()
    def probabilities(self, image: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(C,) calibrated probabilities of the cells for (H, W, 3) uint8 RGB of any size."""
        scores = self.network.scores(self.network.preprocess([image]))
        return self.network.probabilities(scores)[0].cpu().numpy()

    def localize(self, image: NDArray[np.uint8], settings: LocalizerSettings | None = None) -> Estimate | Rejection:
        """Where (H, W, 3) uint8 RGB was taken, or why that cannot be said."""
        settings = settings or LocalizerSettings()
        if is_blank(image):
            return Rejection(BLANK_IMAGE)
        estimate = self.estimator.estimate(self.probabilities(image), settings.top_k)
        if isinstance(estimate, Estimate) and estimate.confidence < settings.min_confidence:
            return Rejection(LOW_CONFIDENCE, estimate.confidence)
        return estimate


def is_blank(image: NDArray[np.uint8]) -> bool:
    """Whether an image is one shade all over, judged on a lattice of at most some 64 × 64 pixels."""
    rows, columns = (max(1, side // 64) for side in image.shape[:2])
    _, deviations = cv2.meanStdDev(np.ascontiguousarray(image[::rows, ::columns]))
    return bool(deviations.max() < BLANK_CONTRAST)


def _same_trunk(tail: Path, network: Network) -> bool:
    return read_identity(tail, "tail").get("trunk_fingerprint") == network.backbone.trunk.fingerprint
