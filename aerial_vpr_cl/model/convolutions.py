"""Convolutions made quick on a CPU: BatchNorm folded into the frozen ones, a better gradient for those that learn."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SMALL_MAP, LARGE_KERNEL = 16, 5
"""Most positions of a map, and least side of a kernel, for which the product is the faster way."""


class SmallMapConv(nn.Conv2d):
    """A depthwise convolution that keeps the size of the map, with the quick gradient for small maps on a CPU.

    On maps of 4 × 4 positions PyTorch's gradient for the weights of a depthwise convolution takes longer than all the
    rest of the tail. The same sums are one small matrix product a channel: every position of the input with every
    position of the output, of which each tap of the kernel takes its pairs.
    """

    @classmethod
    def of(cls, conv: nn.Conv2d) -> SmallMapConv:
        """The same convolution with the same weights."""
        channels, kernel = conv.in_channels, conv.kernel_size
        padding = (kernel[0] // 2, kernel[1] // 2)
        quick = cls(channels, channels, kernel, padding=padding, groups=channels, bias=False, device="meta")  # type: ignore[arg-type]
        quick.weight = conv.weight
        return quick.train(conv.training)

    def forward(self, maps: Tensor) -> Tensor:
        if maps.is_cuda or maps.shape[-2] * maps.shape[-1] > SMALL_MAP:
            return super().forward(maps)
        return _SmallMapConv.apply(maps, self.weight)


class _SmallMapConv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, maps: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(maps, weight)
        return F.conv2d(maps, weight, padding="same", groups=len(weight))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        maps, weight = ctx.saved_tensors
        inputs = maps.flatten(2).permute(1, 2, 0).contiguous()
        outputs = gradient.flatten(2).permute(1, 0, 2).contiguous()
        pairs = torch.bmm(inputs, outputs).flatten(1)  # (channels, input positions × output positions)
        kernel = weight.shape[-2:]
        of_weight = (pairs @ _pairs_of_taps(*kernel, *maps.shape[-2:]).to(pairs.dtype)).view_as(weight)
        of_maps = F.conv2d(gradient, weight.flip(2, 3), padding="same", groups=len(weight))
        return of_maps, of_weight


@lru_cache(maxsize=16)
def _pairs_of_taps(kernel_height: int, kernel_width: int, height: int, width: int) -> Tensor:
    """(input positions × output positions, taps): 1 where a tap leads from the one to the other."""
    inputs = torch.eye(height * width).unflatten(1, (1, height, width))
    taps = torch.eye(kernel_height * kernel_width).unflatten(1, (1, kernel_height, kernel_width))
    led = F.conv2d(inputs, taps, padding="same")  # (input, tap, output position)
    return led.flatten(2).transpose(1, 2).flatten(0, 1).contiguous()


def learn_quickly_on_small_maps(model: nn.Module) -> None:
    """Give the quick gradient to the depthwise convolutions of a model that keep the size of the map."""
    for parent in model.modules():
        for name, child in parent.named_children():
            if type(child) is nn.Conv2d and _is_depthwise(child) and _keeps_size(child) and _is_large(child):
                setattr(parent, name, SmallMapConv.of(child))


def _is_depthwise(conv: nn.Conv2d) -> bool:
    return conv.groups == conv.in_channels == conv.out_channels


def _is_large(conv: nn.Conv2d) -> bool:
    return conv.bias is None and min(conv.kernel_size) >= LARGE_KERNEL


def _keeps_size(conv: nn.Conv2d) -> bool:
    centred = conv.padding == tuple(side // 2 for side in conv.kernel_size) and all(
        side % 2 for side in conv.kernel_size
    )
    return centred and conv.stride == conv.dilation == (1, 1)


@torch.no_grad()
def fold_batch_norms(module: nn.Module) -> None:
    """Fold every BatchNorm that follows a convolution among the children of a module; its activation stays.

    Exact for a frozen network, and a third less work on a CPU.
    """
    previous: nn.Module | None = None
    for name, child in module.named_children():
        if isinstance(previous, nn.Conv2d) and isinstance(child, nn.BatchNorm2d):
            _fold(previous, child)
            setattr(module, name, getattr(child, "act", nn.Identity()))  # timm keeps the activation inside
        else:
            fold_batch_norms(child)
        previous = child


def _fold(conv: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
    """y = γ (conv(x) − μ) / √(σ² + ε) + β, written as one convolution."""
    assert norm.running_mean is not None and norm.running_var is not None
    # In double precision, so that folding adds no rounding of its own.
    factor = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
    bias = conv.bias.double() if conv.bias is not None else torch.zeros_like(factor)
    conv.weight = nn.Parameter((conv.weight.double() * factor[:, None, None, None]).float())
    conv.bias = nn.Parameter(((bias - norm.running_mean.double()) * factor + norm.bias.double()).float())
