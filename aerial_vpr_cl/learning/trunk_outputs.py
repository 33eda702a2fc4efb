"""Outputs of the frozen trunk, each computed once: the trunk never changes, so what it says of a picture is a constant.

An adaptation keeps them for itself, the runs of a benchmark share them. To the bit it makes no difference who computed
what, or how much is kept: the trunk sees batches of one size only, and what is computed is rounded as what is read.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import tempfile
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from aerial_vpr_cl import images as image_files
from aerial_vpr_cl.files import sha256_of
from aerial_vpr_cl.images import decode_compressed
from aerial_vpr_cl.learning.slot_file import SlotFile, digest_of
from aerial_vpr_cl.memory.buffer import Observation
from aerial_vpr_cl.model.batches import in_batches
from aerial_vpr_cl.model.network import Network
from aerial_vpr_cl.progress import Progress, silent
from aerial_vpr_cl.satellite import exemplars as exemplar_files
from aerial_vpr_cl.satellite import pyramid, raster, raster_source
from aerial_vpr_cl.satellite.exemplars import ExemplarMemory
from aerial_vpr_cl.satellite.raster import SatelliteMap

log = logging.getLogger(__name__)

BATCH = 16
"""The trunk's results differ in their last bits with the size of the batch, so short batches are filled up."""

APPENDED = 8 * BATCH
"""Outputs that are written at once."""


class Picture(NamedTuple):
    """What the trunk may have to see: a name from which every pixel follows, and how to make it."""

    name: Hashable
    render: Callable[[], NDArray[np.uint8]]  # (H, W, 3) RGB


def whole_image(observation: Observation) -> Picture:
    """A flown frame as it is, unaugmented."""
    return Picture(("whole", content_of(observation)), lambda: decode_compressed(observation.image))


def content_of(observation: Observation) -> str:
    """What stands for the pixels of a frame: a hash of its image, whatever mission it says it is of."""
    return hashlib.blake2b(observation.image, digest_size=16).hexdigest()


def whole_exemplar(exemplars: ExemplarMemory, row: int, size_px: int, satellite: SatelliteMap | None) -> Picture:
    """A satellite exemplar as it is, unaugmented."""
    return Picture(("exemplar", row, size_px), lambda: exemplars.read([row], size_px, satellite)[0])


class Tally(NamedTuple):
    """What was asked of the trunk for a while: different pictures, and seconds for those that had to be computed."""

    pictures: int
    seconds: float


class TrunkOutputs:
    """Trunk outputs of pictures, kept in fp16 within a capacity; beyond it they are computed each time."""

    def __init__(self, network: Network, kept: SlotFile) -> None:
        self._network = network
        self._kept = kept
        self._known_shape: tuple[int, ...] | None = None
        self._asked: set[bytes] = set()
        self._seconds = 0.0
        self.total_s = 0.0  # for pictures that had to be computed, ever

    @classmethod
    def private(cls, network: Network, *, capacity_bytes: int, folder: Path | None = None) -> TrunkOutputs:
        """For this process alone, in a file without a name on the disk of `folder`."""
        folder = folder or Path(tempfile.gettempdir())
        return cls(network, SlotFile(folder, capacity_bytes=capacity_bytes, shared=False))

    @classmethod
    def shared(cls, network: Network, folder: Path, *, capacity_bytes: int = 8 << 30) -> TrunkOutputs:
        """For all processes that name this folder; those of another trunk, or of pictures made otherwise, lie apart."""
        own = folder / f"{network.backbone.trunk.fingerprint[:16]}-{network.input_size}-{_how_made()}"
        return cls(network, SlotFile(own, capacity_bytes=capacity_bytes, shared=True))

    def __len__(self) -> int:
        return len(self._kept)

    def prepare(self, pictures: Iterable[Picture], progress: Progress = silent, phase: str = "prepare") -> None:
        """Pass the trunk over the pictures it has not seen yet, each once, as far as the capacity reaches."""
        missing = self._missing(pictures)
        done = kept = 0
        for fresh in self._compute(missing):
            done += len(fresh)
            kept += sum(digest in self._kept for digest in fresh)
            progress(phase, done, len(missing))
            if kept < done:
                left = len(missing) - kept
                log.warning("no room for more trunk outputs: %d of %d are computed anew each time", left, len(missing))
                progress(phase, len(missing), len(missing))
                return

    def of(self, pictures: Sequence[Picture]) -> torch.Tensor:
        """Outputs of the pictures in their order, in fp32 on the network's device; what is missing is kept, too."""
        fresh: dict[bytes, NDArray[np.float16]] = {}
        for part in self._compute(self._missing(pictures)):
            fresh |= part
        digests = [digest_of(picture.name) for picture in pictures]
        rows = np.empty((len(pictures), *self._shape), np.float16)
        there = [row for row, digest in enumerate(digests) if digest not in fresh]
        if there:
            rows[there] = self._kept.read([digests[row] for row in there], self._shape)
        for row, digest in enumerate(digests):
            if digest in fresh:
                rows[row] = fresh[digest]
        outputs = torch.from_numpy(rows).to(self._network.device, torch.float32)
        return outputs.contiguous(memory_format=torch.channels_last) if outputs.ndim == 4 else outputs  # as the tail is

    def tally(self) -> Tally:
        """What was asked since the last tally."""
        found = Tally(len(self._asked), self._seconds)
        self._asked, self._seconds = set(), 0.0
        return found

    def close(self) -> None:
        """Give the file back."""
        self._kept.close()

    def __enter__(self) -> TrunkOutputs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _missing(self, pictures: Iterable[Picture]) -> dict[bytes, Picture]:
        wanted = {digest_of(picture.name): picture for picture in pictures}
        self._asked |= wanted.keys()
        if any(digest not in self._kept for digest in wanted):
            self._kept.refresh()
        return {digest: picture for digest, picture in wanted.items() if digest not in self._kept}

    def _compute(self, missing: dict[bytes, Picture]) -> Iterator[dict[bytes, NDArray[np.float16]]]:
        """Outputs of new pictures, some at a time, kept where there is room."""
        digests = list(missing)
        for start in range(0, len(digests), APPENDED):
            part = digests[start : start + APPENDED]
            started = time.monotonic()
            fresh = dict(zip(part, self._pass([missing[digest].render() for digest in part])))
            self._kept.add(fresh)
            taken = time.monotonic() - started
            self._seconds += taken
            self.total_s += taken
            yield fresh

    def _pass(self, images: list[NDArray[np.uint8]]) -> NDArray[np.float16]:
        filled = images + [images[0]] * (-len(images) % BATCH)
        with torch.inference_mode():
            parts = [self._network.preprocess(filled[start : start + BATCH]) for start in range(0, len(filled), BATCH)]
            outputs = np.concatenate([self._network.trunk_features(part).cpu().numpy() for part in parts])
        self._known_shape = outputs.shape[1:]
        return outputs[: len(images)].astype(np.float16)

    @property
    def _shape(self) -> tuple[int, ...]:
        """Of the trunk's output for one picture."""
        if self._known_shape is None:
            probe = self._network.preprocess(np.zeros((1, 8, 8, 3), np.uint8))
            self._known_shape = tuple(self._network.trunk_features(probe).shape[1:])
        return self._known_shape


@functools.cache
def _how_made() -> str:
    """Stands for the code that reads pixels: another way of reading gives other pictures of the same name."""
    modules = (image_files, exemplar_files, pyramid, raster, raster_source)
    return digest_of(tuple(sha256_of(Path(str(module.__file__))) for module in modules)).hex()[:16]


def features_of(network: Network, pictures: Sequence[Picture], trunk: TrunkOutputs) -> NDArray[np.float32]:
    """(n, dim) descriptors of pictures, of which only tail and aggregation have to run."""
    return in_batches(lambda part: (network.features_of_trunk(trunk.of(part)),), pictures)[0]


def scores_of(network: Network, pictures: Sequence[Picture], trunk: TrunkOutputs) -> NDArray[np.float32]:
    """(n, C) cosines of pictures, of which only tail, aggregation and heads have to run."""
    return in_batches(lambda part: (network.heads.cosines(network.features_of_trunk(trunk.of(part))),), pictures)[0]
