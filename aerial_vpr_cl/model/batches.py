"""A network over many items: a batch at a time, without gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aerial_vpr_cl.progress import Progress, silent

BATCH = 32


def in_batches(
    compute: Callable[[Any], tuple[Tensor, ...]],
    items: Sequence[Any] | NDArray[Any],
    *,
    size: int = BATCH,
    progress: Progress = silent,
    phase: str = "network",
) -> tuple[NDArray[np.float32], ...]:
    """What `compute` makes of the items, `size` of them at a time, as arrays with a row for each item."""
    parts = []
    with torch.inference_mode():
        for start in range(0, len(items), size):
            parts.append([rows.cpu().numpy() for rows in compute(items[start : start + size])])
            progress(phase, min(start + size, len(items)), len(items))
    return tuple(np.concatenate(rows) for rows in zip(*parts))
