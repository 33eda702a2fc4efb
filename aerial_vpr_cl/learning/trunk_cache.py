"""Trunk outputs computed once: the frozen trunk never changes, so its output for a view is a constant."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import torch
from numpy.typing import NDArray

from aerial_vpr_cl.files import full_disk_explained
from aerial_vpr_cl.model.network import Network
from aerial_vpr_cl.progress import Progress, silent

log = logging.getLogger(__name__)

Key = tuple[int, int, int]
"""(source, image, view)."""

TRUNK_BATCH = 32
LEFT_FREE_BYTES = 256 << 20
"""The cache leaves this much of the disk to the generation that is committed after it."""


class TrunkCache:
    """Trunk outputs by key, in fp16 in a memory-mapped file of bounded size that vanishes with the process.

    The file has no name (it is unlinked at once), so that not even a kill leaves it behind. Views beyond the
    capacity are computed each time they are asked for; capacity 0 is the plain loop without a cache.
    """

    def __init__(
        self,
        network: Network,
        render: Callable[[Key], NDArray[np.uint8]],
        *,
        capacity_bytes: int,
        folder: Path | None = None,
    ) -> None:
        self._network = network
        self._render = render
        self._capacity_bytes = capacity_bytes
        self._folder = folder
        self._slot_of: dict[Key, int] = {}
        self._memory: NDArray[np.float16] | None = None

    def prepare(self, keys: Iterable[Key], progress: Progress = silent, phase: str = "prepare") -> None:
        """Pass the trunk over the given views, each once, as far as the capacity reaches."""
        keys = [key for key in keys if key not in self._slot_of]
        if not keys or self._capacity_bytes == 0:
            return
        done = 0
        while done < len(keys):
            batch = keys[done : done + TRUNK_BATCH]
            outputs = self._compute(batch)
            if self._memory is None:
                self._memory = self._allocate(outputs, len(keys))
            kept = batch[: len(self._memory) - len(self._slot_of)]
            for key, output in zip(kept, outputs.cpu().numpy()):
                slot = len(self._slot_of)
                self._memory[slot] = output
                self._slot_of[key] = slot
            done += len(batch)
            progress(phase, done, len(keys))
            if len(kept) < len(batch):
                left = len(keys) - len(self._slot_of)
                log.warning("trunk cache is full: %d of %d views are computed anew each time", left, len(keys))
                progress(phase, len(keys), len(keys))
                return

    def __call__(self, keys: Sequence[Key]) -> torch.Tensor:
        """Trunk outputs of the keys in their order, on the network's device, in fp32."""
        missing = [key for key in keys if key not in self._slot_of]
        fresh = dict(zip(missing, self._compute(missing))) if missing else {}
        if not missing and self._memory is not None:
            rows = self._memory[[self._slot_of[key] for key in keys]]
            return torch.from_numpy(rows).to(self._network.device, torch.float32)
        return torch.stack([fresh[key] if key in fresh else self._cached(key) for key in keys])

    def close(self) -> None:
        """Give the file back."""
        self._memory = None
        self._slot_of.clear()

    def __enter__(self) -> TrunkCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _cached(self, key: Key) -> torch.Tensor:
        assert self._memory is not None
        return torch.from_numpy(np.array(self._memory[self._slot_of[key]])).to(self._network.device, torch.float32)

    def _compute(self, keys: Sequence[Key]) -> torch.Tensor:
        images = self._network.preprocess([self._render(key) for key in keys])
        outputs = self._network.trunk_features(images)
        # Rounded as what is read back, so that what is learnt does not depend on how much fits into the cache.
        return outputs.half().float() if self._capacity_bytes else outputs

    def _allocate(self, outputs: torch.Tensor, n_keys: int) -> NDArray[np.float16]:
        shape = tuple(outputs.shape[1:])
        slot_bytes = 2 * int(np.prod(shape))
        folder = self._folder or Path(tempfile.gettempdir())
        free = max(0, shutil.disk_usage(folder).free - LEFT_FREE_BYTES)
        slots = min(n_keys, min(self._capacity_bytes, free) // slot_bytes)
        if not slots:
            return np.empty((0, *shape), np.float16)
        with full_disk_explained(folder), tempfile.TemporaryFile(prefix=".trunk-", dir=folder) as file:
            # Claimed at once: a page without a block on the disk would end the process with SIGBUS later.
            os.posix_fallocate(file.fileno(), 0, slots * slot_bytes)
            return np.memmap(file, np.float16, mode="r+", shape=(slots, *shape))  # the mapping outlives the handle
