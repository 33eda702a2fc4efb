"""The whole network: images to scores over every cell of the map."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from aerial_vpr_cl.errors import ModelError
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.geo.view_kind import PAPER_VIEW, ViewKind
from aerial_vpr_cl.images import squeeze
from aerial_vpr_cl.model.aggregation import AGGREGATIONS, SaladSettings, build_aggregation
from aerial_vpr_cl.model.backbone import LIVING_BLOCKS, Backbone, build_backbone
from aerial_vpr_cl.model.heads import GroupedHeads
from aerial_vpr_cl.settings import setting

AUTO = "auto"
GPU_BACKBONE = "vit_base_patch14_dinov2"
CPU_BACKBONE = "tf_efficientnet_lite0"


@dataclass(frozen=True)
class NetworkSettings:
    """What the network is made of (paper, section 5.1.3)."""

    backbone: str = setting(AUTO, f"timm model; {AUTO}: {GPU_BACKBONE} with a GPU, {CPU_BACKBONE} without")
    aggregation: str = setting("gem", "how patch features become one descriptor", choices=tuple(AGGREGATIONS))
    input_size: int | None = setting(None, "side of the square input in pixels; none: the backbone's default", low=14)
    living_blocks: int = setting(LIVING_BLOCKS, "last blocks of the backbone that learn; the others are frozen", low=1)
    margin: float = setting(0.2, "additive angular margin, radians", low=0, high=1.5)
    scale: float = setting(100.0, "factor from cosines to logits", low=1)
    salad: SaladSettings = field(default_factory=SaladSettings)
    view: ViewKind = field(default_factory=lambda: PAPER_VIEW)  # what it is trained on, and must be shown

    def resolved(self) -> NetworkSettings:
        """The same with the backbone named, if it was left to the machine."""
        if self.backbone != AUTO:
            return self
        return replace(self, backbone=GPU_BACKBONE if torch.cuda.is_available() else CPU_BACKBONE)


class Network(nn.Module):
    """Trunk, tail, aggregation and heads over the classes of one grid, with a temperature that makes scores honest."""

    temperature: Tensor

    def __init__(
        self, settings: NetworkSettings, grid: Grid, backbone: Backbone, aggregation: nn.Module, heads: GroupedHeads
    ) -> None:
        super().__init__()
        self.settings = settings  # backbone and input size as they are, nothing left open
        self.grid = grid
        self.backbone = backbone
        self.aggregation = aggregation
        self.heads = heads
        self.register_buffer("temperature", torch.tensor(1.0))

    @classmethod
    def build(
        cls,
        settings: NetworkSettings,
        grid: Grid,
        *,
        weights: Path | str | None = None,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> Network:
        """A network with a pretrained backbone (`weights` as in `build_backbone`) and all else from the seed."""
        settings = settings.resolved()
        backbone = build_backbone(
            settings.backbone,
            weights=weights,
            input_size=settings.input_size,
            living_blocks=settings.living_blocks,
            seed=seed,
        )
        if settings.aggregation == "salad" and settings.salad.clusters >= backbone.n_patches:
            raise ModelError(
                f"SALAD with {settings.salad.clusters} clusters needs more patches than clusters; {backbone.name} has "
                f"{backbone.n_patches} at {backbone.input_size} pixels: use fewer clusters or a larger input"
            )
        settings = replace(settings, input_size=backbone.input_size)
        aggregation = build_aggregation(settings.aggregation, backbone.feature_dim, settings.salad, seed=seed)
        dim = int(aggregation.output_dim)  # type: ignore[arg-type]
        heads = GroupedHeads(grid, dim, margin=settings.margin, scale=settings.scale, seed=seed)
        return cls(settings, grid, backbone, aggregation, heads).to(device).eval()

    @property
    def device(self) -> torch.device:
        """Where the network computes."""
        return self.temperature.device

    @property
    def input_size(self) -> int:
        """Side of the square input, pixels."""
        return self.backbone.input_size

    @property
    def feature_dim(self) -> int:
        """Dimensions of a descriptor."""
        return self.heads.dim

    def resize(self, images: Sequence[NDArray[np.uint8]] | NDArray[np.uint8]) -> NDArray[np.uint8]:
        """RGB frames of any size to (B, S, S, 3).

        The whole frame is squeezed to the square, as in the paper: nothing is cut away, the aspect ratio is lost.
        """
        return np.stack([_squeeze(image, self.input_size) for image in images])

    def normalise(self, images: NDArray[np.uint8] | Tensor) -> Tensor:
        """(B, S, S, 3) uint8 to (B, 3, S, S) float on the network's device, normalised as the backbone expects."""
        pixels = torch.as_tensor(images).to(self.device).permute(0, 3, 1, 2).float()
        mean = pixels.new_tensor(self.backbone.mean)[:, None, None]
        std = pixels.new_tensor(self.backbone.std)[:, None, None]
        return (pixels / 255 - mean) / std

    def preprocess(self, images: Sequence[NDArray[np.uint8]] | NDArray[np.uint8]) -> Tensor:
        """RGB frames of any size, as a list or (B, H, W, 3), to what `features` and `scores` take."""
        return self.normalise(self.resize(images))

    def trunk_features(self, images: Tensor) -> Tensor:
        """Outputs of the frozen trunk for (B, 3, S, S) preprocessed images: the same for ever, so worth caching."""
        return self.backbone.trunk(images)

    def features_of_trunk(self, trunk_output: Tensor) -> Tensor:
        """(B, dim) L2-normalised descriptors from the trunk's outputs."""
        return self.aggregation(self.backbone.tail(trunk_output))

    def features(self, images: Tensor) -> Tensor:
        """(B, dim) L2-normalised descriptors φ(x) of (B, 3, S, S) preprocessed images."""
        return self.features_of_trunk(self.trunk_features(images))

    def scores(self, images: Tensor) -> Tensor:
        """(B, C) cosines with every class; the prediction is the argmax over all of them."""
        return self.heads.cosines(self.features(images))

    def forward(self, images: Tensor) -> Tensor:
        return self.scores(images)

    @property
    def sharpness(self) -> Tensor:
        """Factor s / T from cosines to the logits of calibrated probabilities."""
        return self.heads.scale / self.temperature

    def probabilities(self, scores: Tensor) -> Tensor:
        """(B, C) cosines to calibrated probabilities, softmax(s · cos / T)."""
        return torch.softmax(scores.float() * self.sharpness, dim=-1)

    def fit_temperature(self, scores: Tensor, labels: Tensor) -> float:
        """Set T from cosines and classes of held-out images, and return it."""
        temperature = fit_temperature(scores * self.heads.scale, labels)
        self.temperature.fill_(temperature)
        return temperature

    def tail_parameters(self) -> list[nn.Parameter]:
        """What learns besides the heads: tail and aggregation."""
        return [*self.backbone.tail.parameters(), *self.aggregation.parameters()]

    def head_parameters(self, group: int) -> list[nn.Parameter]:
        """What learns of one group's head; nothing for a group without classes."""
        return [weight for weight in (self.heads.weights[group],) if weight.numel()]

    def living_tensors(self) -> dict[str, Tensor]:
        """All that changes with learning, by name: tail, aggregation, heads and temperature; no copies."""
        state = self.state_dict()
        return {name: value for name, value in state.items() if not name.startswith("backbone.trunk.")}

    def copy_living_parts(self) -> Network:
        """A second network that shares the frozen trunk and owns copies of everything that learns."""
        return copy.deepcopy(self, {id(self.backbone.trunk): self.backbone.trunk, id(self.grid): self.grid})


@torch.no_grad()
def fit_temperature(logits: Tensor, labels: Tensor, *, low: float = 0.01, high: float = 100.0) -> float:
    """The T that minimises the cross-entropy of softmax(logits / T), by bisection: it is convex in 1/T.

    One more sample of unknown class is thought to the data (labels smoothed by 1/(n+1)), so that a flawless but finite
    sample does not promise certainty. Rows whose label is negative (outside the grid) or not finite are left out.
    """
    labels = labels.to(logits.device)
    usable = (labels >= 0) & torch.isfinite(logits).all(dim=1)
    logits, labels = logits[usable].double(), labels[usable]
    if not len(labels):
        raise ModelError("no labelled sample to fit the temperature on; give held-out images inside the grid")
    smoothing = 1 / (len(labels) + 1)
    target = (1 - smoothing) * logits.gather(1, labels[:, None]).mean() + smoothing * logits.mean()
    sharpest, flattest = 1 / low, 1 / high
    for _ in range(40):
        beta = (sharpest * flattest) ** 0.5
        expected = (torch.softmax(beta * logits, dim=1) * logits).sum(dim=1).mean()
        if expected > target:  # too sure
            sharpest = beta
        else:
            flattest = beta
    return float(1 / beta)


def _squeeze(image: NDArray[Any], side: int) -> NDArray[np.uint8]:
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
        raise ModelError(f"an image must be RGB, uint8 (height, width, 3), not {image.dtype} {image.shape}")
    return squeeze(image, side)
