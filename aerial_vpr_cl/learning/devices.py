"""Where learning computes."""

from __future__ import annotations

import torch

from aerial_vpr_cl.errors import SettingsError


def pick_device(name: str, rank: int = 0) -> torch.device:
    """The named device; `auto` takes a GPU if there is one, and the rank-th of several processes its own."""
    if name == "auto":
        name = f"cuda:{rank % torch.cuda.device_count()}" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise SettingsError(f"device '{name}' is unknown; choose auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SettingsError(f"device '{name}' was asked for, but PyTorch finds no GPU here; choose auto or cpu")
    return device
