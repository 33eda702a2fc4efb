"""Where the network computes."""

from __future__ import annotations

import torch

from aerial_vpr_cl.errors import SettingsError


def pick_device(name: str, rank: int = 0) -> torch.device:
    """The named device; `auto` takes a GPU if there is one, and the rank-th process here the rank-th of them."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and torch.cuda.is_available():
        name = f"cuda:{rank % torch.cuda.device_count()}"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise SettingsError(f"device '{name}' is unknown; choose auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SettingsError(f"device '{name}' was asked for, but PyTorch finds no GPU here; choose auto or cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise SettingsError(f"device '{name}' was asked for, but there are only {torch.cuda.device_count()} GPUs here")
    return device
