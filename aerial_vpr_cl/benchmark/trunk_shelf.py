"""Trunk outputs shared by all runs of a benchmark: the trunk is frozen, so every view passes it once for all methods.

The shelf grows while processes use it. To the bit it makes no difference who computed what: the trunk sees batches of
one size only, and what is computed is rounded as what is read.
"""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from aerial_vpr_cl.files import fsync_file
from aerial_vpr_cl.images import decode_compressed
from aerial_vpr_cl.learning.loop import ViewMaker
from aerial_vpr_cl.learning.trunk_cache import Key
from aerial_vpr_cl.memory.buffer import Observation
from aerial_vpr_cl.model.network import Network
from aerial_vpr_cl.progress import Progress, silent

BATCH = 16
"""The trunk's results differ in their last bits with the size of the batch, so short batches are filled up."""

APPENDED = 8 * BATCH
"""Outputs that are written at once."""

NAME_BYTES = 16
Render = Callable[[int], NDArray[np.uint8]]
"""Image of the n-th name that was asked for."""


class TrunkShelf:
    """Outputs in fp16 by name, in one file of equal slots; a second file holds the names' hashes in the same order.

    Names are written after their outputs, so a process that is killed leaves at most outputs without names, which the
    next one overwrites.
    """

    def __init__(self, folder: Path, network: Network, *, capacity_bytes: int = 8 << 30) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._outputs_path, self._names_path, self._lock_path = folder / "outputs", folder / "names", folder / "lock"
        self._names_path.touch()
        self._outputs_path.touch()
        self._network = network
        probe = network.preprocess(np.zeros((BATCH, 8, 8, 3), np.uint8))
        self._shape = tuple(network.trunk_features(probe).shape[1:])
        self._slot_bytes = 2 * int(np.prod(self._shape))
        self._capacity = capacity_bytes // self._slot_bytes
        self._slot_of: dict[bytes, int] = {}
        self._outputs: NDArray[np.float16] = np.empty((0, *self._shape), np.float16)

    def __len__(self) -> int:
        return len(self._slot_of)

    def fetch(
        self, names: Sequence[Hashable], render: Render, progress: Progress = silent, phase: str = "prepare"
    ) -> torch.Tensor:
        """Outputs of the names in fp32 on the network's device; what is missing is rendered, passed and kept."""
        kept = self._fill(names, render, progress, phase)
        hashes = [_hash(name) for name in names]
        rows = np.empty((len(names), *self._shape), np.float16)
        for row, digest in enumerate(hashes):
            slot = self._slot_of.get(digest)
            rows[row] = kept[digest] if slot is None else self._outputs[slot]
        return torch.from_numpy(rows).to(self._network.device, torch.float32)

    def fill(self, names: Sequence[Hashable], render: Render, progress: Progress = silent) -> None:
        """Have the outputs of the names at hand, as far as the capacity reaches."""
        self._fill(names, render, progress, "prepare", keep_rest=False)

    def _fill(
        self, names: Sequence[Hashable], render: Render, progress: Progress, phase: str, keep_rest: bool = True
    ) -> dict[bytes, NDArray[np.float16]]:
        """Compute what is missing; returns what found no place on the shelf."""
        wanted = {_hash(name): row for row, name in enumerate(names)}
        if not wanted.keys() <= self._slot_of.keys():
            self._refresh()
        missing = [(digest, row) for digest, row in wanted.items() if digest not in self._slot_of]
        rest: dict[bytes, NDArray[np.float16]] = {}
        for start in range(0, len(missing), APPENDED):
            if not keep_rest and len(self._slot_of) >= self._capacity:
                break
            part = missing[start : start + APPENDED]
            outputs = dict(zip((digest for digest, _ in part), self._pass([render(row) for _, row in part])))
            self._append(outputs)
            rest |= {digest: output for digest, output in outputs.items() if digest not in self._slot_of}
            progress(phase, start + len(part), len(missing))
        return rest

    def _pass(self, images: list[NDArray[np.uint8]]) -> NDArray[np.float16]:
        filled = images + [images[0]] * (-len(images) % BATCH)
        with torch.inference_mode():
            parts = [self._network.preprocess(filled[start : start + BATCH]) for start in range(0, len(filled), BATCH)]
            outputs = np.concatenate([self._network.trunk_features(part).cpu().numpy() for part in parts])
        return outputs[: len(images)].astype(np.float16)

    def _append(self, outputs: dict[bytes, NDArray[np.float16]]) -> None:
        with self._locked():
            self._refresh()
            new = [digest for digest in outputs if digest not in self._slot_of]
            new = new[: max(0, self._capacity - len(self._slot_of))]
            if not new:
                return
            with self._outputs_path.open("r+b") as file:
                file.seek(len(self._slot_of) * self._slot_bytes)
                file.write(b"".join(outputs[digest].tobytes() for digest in new))
            fsync_file(self._outputs_path)
            with self._names_path.open("r+b") as file:
                file.seek(len(self._slot_of) * NAME_BYTES)
                file.write(b"".join(new))
            self._refresh()

    def _refresh(self) -> None:
        """Learn what other processes have added."""
        count = self._names_path.stat().st_size // NAME_BYTES
        known = len(self._slot_of)
        if count <= known:
            return
        with self._names_path.open("rb") as file:
            file.seek(known * NAME_BYTES)
            data = file.read((count - known) * NAME_BYTES)
        for place in range(count - known):
            self._slot_of[data[place * NAME_BYTES : (place + 1) * NAME_BYTES]] = known + place
        self._outputs = np.memmap(self._outputs_path, np.float16, mode="r", shape=(count, *self._shape))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock_path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


class ShelfViews:
    """The views of one mission's learning, kept on the shelf: what `learn` takes as its cache."""

    def __init__(self, shelf: TrunkShelf, draw: ViewMaker) -> None:
        self._shelf = shelf
        self._draw = draw

    def prepare(self, keys: Iterable[Key], progress: Progress = silent) -> None:
        """Pass the trunk over the views that no run has seen yet."""
        keys = list(keys)
        self._shelf.fill([self._draw.identity(key) for key in keys], lambda row: self._draw(keys[row]), progress)

    def __call__(self, keys: Sequence[Key]) -> torch.Tensor:
        """Trunk outputs of the keys in their order."""
        return self._shelf.fetch([self._draw.identity(key) for key in keys], lambda row: self._draw(keys[row]))


def whole_images(shelf: TrunkShelf, observations: Sequence[Observation]) -> torch.Tensor:
    """Trunk outputs of unaugmented images."""
    names = [("whole", observation.mission, observation.stamp_ns) for observation in observations]
    return shelf.fetch(names, lambda row: decode_compressed(observations[row].image))


def _hash(name: Hashable) -> bytes:
    return hashlib.blake2b(repr(name).encode(), digest_size=NAME_BYTES).digest()
