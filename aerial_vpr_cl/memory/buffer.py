"""The replay buffer M_ER: a bounded handful of flown frames per group (paper, section 4.2), and its file.

At most B observations a group, N²·B in all, and, where a limit is set, at most so many bytes. A group is in the order
of its selection, most valuable first; what must go for the sake of bytes goes from the end.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import ArrayLike, NDArray

from aerial_vpr_cl.errors import SettingsError, StoreError
from aerial_vpr_cl.files import new_file

FORMAT = 1
DEFAULT_BUDGET = 200
"""B of the paper (section 5.1.3)."""

CHUNK_BYTES = 1 << 16
"""Part of a dataset that has its own checksum."""

SEAL_BYTES = 512
"""Smallest user block of HDF5."""


@dataclass(frozen=True, eq=False)
class Observation:
    """A frame and what is known of it: where, when, on which mission; maybe what the network said at its storing."""

    image: bytes  # encoded as recorded, JPEG or PNG
    label: int  # class id
    position: NDArray[np.float64]  # (2,) easting and northing
    stamp_ns: int
    mission: str
    modality: str  # VIS, IR or unknown
    logits: NDArray[np.float32] | None = None  # (C_g,) s·cos of the own head, for DER++ and UDIL
    feature: NDArray[np.float32] | None = None  # (d,) for UDIL

    def __post_init__(self) -> None:
        object.__setattr__(self, "position", np.asarray(self.position, np.float64).reshape(2))

    @property
    def n_bytes(self) -> int:
        """Bytes of the image and of what the network said; the rest is small."""
        return len(self.image) + sum(array.nbytes for array in (self.logits, self.feature) if array is not None)


@dataclass(frozen=True, eq=False)
class ReplayBuffer:
    """Observations of every group within the budget. Immutable: a change makes another buffer."""

    groups: tuple[tuple[Observation, ...], ...]
    budget: int = DEFAULT_BUDGET  # B, observations a group
    max_bytes: int | None = None  # for all groups together
    seen: tuple[int, ...] = ()  # observations ever offered to each group: the counter of reservoir sampling

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(tuple(group) for group in self.groups))
        object.__setattr__(self, "seen", tuple(self.seen) or (0,) * len(self.groups))
        if self.budget < 0 or (self.max_bytes is not None and self.max_bytes < 0):
            raise SettingsError(f"a replay buffer cannot have {self.budget} places or {self.max_bytes} bytes")
        if len(self.seen) != len(self.groups):
            raise ValueError(f"{len(self.seen)} counters for {len(self.groups)} groups")
        for number, group in enumerate(self.groups):
            if len(group) > self.budget:
                raise StoreError(
                    f"group {number} of the replay buffer would hold {len(group)} observations; its budget is "
                    f"{self.budget}; select fewer"
                )
        if self.max_bytes is not None and self.n_bytes > self.max_bytes:
            raise StoreError(f"the replay buffer would hold {self.n_bytes} bytes; its limit is {self.max_bytes}")

    @classmethod
    def empty(cls, n_groups: int, budget: int = DEFAULT_BUDGET, max_bytes: int | None = None) -> ReplayBuffer:
        """A buffer before the first mission."""
        return cls(((),) * n_groups, budget, max_bytes)

    def __len__(self) -> int:
        return sum(map(len, self.groups))

    def __iter__(self) -> Iterator[Observation]:
        """All observations, group by group, each group in its order."""
        return (observation for group in self.groups for observation in group)

    @property
    def n_bytes(self) -> int:
        """Bytes of all images, logits and features."""
        return sum(observation.n_bytes for observation in self)

    def replace_group(self, group: int, observations: Iterable[Observation], seen: int) -> ReplayBuffer:
        """The buffer with another content of one group, in selection order; the limit in bytes is kept by dropping."""
        groups, counters = list(self.groups), list(self.seen)
        groups[group], counters[group] = tuple(observations), seen
        return replace(self, groups=_within_bytes(groups, self.max_bytes), seen=tuple(counters))

    def bounded(self, budget: int, max_bytes: int | None = None) -> ReplayBuffer:
        """The buffer under other limits; what does not fit is dropped from the end of its group."""
        groups = _within_bytes([group[:budget] for group in self.groups], max_bytes)
        return ReplayBuffer(groups, budget, max_bytes, self.seen)

    def save(self, path: Path, grid_hash: str) -> None:
        """Write the buffer as HDF5: there whole or not at all, the same bytes for the same content."""
        with new_file(Path(path)) as temporary:
            with h5py.File(temporary, "w", userblock_size=SEAL_BYTES) as file:
                file.attrs["format"] = FORMAT
                file.attrs["grid_hash"] = grid_hash
                file.attrs["budget"] = self.budget
                file.attrs["max_bytes"] = -1 if self.max_bytes is None else self.max_bytes
                for name, values in _to_columns(self).items():
                    rows = max(1, CHUNK_BYTES // max(1, values[:1].nbytes))
                    layout = {"chunks": (min(rows, len(values)), *values.shape[1:]), "fletcher32": True}
                    # An empty dataset can have no chunks, hence no checksum of its own.
                    file.create_dataset(name, data=values, track_times=False, **(layout if values.size else {}))
            with temporary.open("r+b") as stream:
                stream.seek(SEAL_BYTES)
                seal = _seal(stream.read())
                stream.seek(0)
                stream.write(seal)

    @classmethod
    def load(cls, path: Path, grid_hash: str) -> ReplayBuffer:
        """Read a buffer of this grid; StoreError when it is damaged or of another grid."""
        path = Path(path)
        if not path.is_file():
            raise StoreError(f"{path}: no replay buffer; every generation of a store has one")
        data = path.read_bytes()
        # Before HDF5 sees it: a damaged header can make the library crash or fill the memory.
        if data[:SEAL_BYTES] != _seal(data[SEAL_BYTES:]):
            raise StoreError(
                f"{path}: the replay buffer is damaged or cut off, its SHA-256 is not the one it was written with; "
                "go back to the previous generation: aerial-vpr rollback"
            )
        with h5py.File(io.BytesIO(data), "r") as file:
            version, found = int(file.attrs["format"]), str(file.attrs["grid_hash"])
            if version != FORMAT:
                raise StoreError(f"{path}: has format {version}, this software reads {FORMAT}; update the software")
            if found != grid_hash:
                raise StoreError(
                    f"{path}: belongs to the grid {found[:12]}…, not to {grid_hash[:12]}…; use the store it was made in"
                )
            columns = {name: np.asarray(file[name][()]) for name in file}
            budget, limit = int(file.attrs["budget"]), int(file.attrs["max_bytes"])
        return cls(_to_groups(columns), budget, None if limit < 0 else limit, tuple(columns["seen"].tolist()))


Columns = dict[str, NDArray]


def _within_bytes(groups: list[tuple[Observation, ...]], max_bytes: int | None) -> tuple[tuple[Observation, ...], ...]:
    """Groups without as many last observations as the limit demands, taken from the longest group each time."""
    if max_bytes is None:
        return tuple(groups)
    kept = [list(group) for group in groups]
    excess = sum(observation.n_bytes for group in kept for observation in group) - max_bytes
    while excess > 0 and any(kept):
        excess -= max(reversed(kept), key=len).pop().n_bytes
    return tuple(tuple(group) for group in kept)


def _to_columns(buffer: ReplayBuffer) -> Columns:
    """The buffer as arrays, one row an observation; bytes and vectors end to end with a column of sizes.

    Variable-length entries of HDF5 would lie outside its checksums.
    """
    observations = list(buffer)
    logits = [_flat(observation.logits) for observation in observations]
    features = [_flat(observation.feature) for observation in observations]
    return {
        "group_sizes": np.array([len(group) for group in buffer.groups], np.int64),
        "seen": np.array(buffer.seen, np.int64),
        "labels": np.array([observation.label for observation in observations], np.int64),
        "positions": np.array([observation.position for observation in observations], np.float64).reshape(-1, 2),
        "stamps_ns": np.array([observation.stamp_ns for observation in observations], np.int64),
        "missions": np.array([observation.mission.encode() for observation in observations], np.bytes_),
        "modalities": np.array([observation.modality.encode() for observation in observations], np.bytes_),
        "image_sizes": np.array([len(observation.image) for observation in observations], np.int64),
        "images": np.frombuffer(b"".join(observation.image for observation in observations), np.uint8),
        "logit_sizes": np.array(list(map(len, logits)), np.int64),
        "logits": np.concatenate([_flat(None), *logits]),
        "feature_sizes": np.array(list(map(len, features)), np.int64),
        "features": np.concatenate([_flat(None), *features]),
    }


def _to_groups(columns: Columns) -> tuple[tuple[Observation, ...], ...]:
    images = _split(columns["images"], columns["image_sizes"])
    logits = _split(columns["logits"], columns["logit_sizes"])
    features = _split(columns["features"], columns["feature_sizes"])
    observations = [
        Observation(
            image=images[row].tobytes(),
            label=int(columns["labels"][row]),
            position=columns["positions"][row],
            stamp_ns=int(columns["stamps_ns"][row]),
            mission=columns["missions"][row].decode(),
            modality=columns["modalities"][row].decode(),
            logits=logits[row] if len(logits[row]) else None,
            feature=features[row] if len(features[row]) else None,
        )
        for row in range(len(columns["labels"]))
    ]
    ends = np.cumsum(columns["group_sizes"]).tolist()
    return tuple(tuple(observations[start:end]) for start, end in zip([0, *ends], ends))


def _flat(vector: ArrayLike | None) -> NDArray[np.float32]:
    return np.asarray([] if vector is None else vector, np.float32).reshape(-1)


def _split(values: NDArray, sizes: NDArray[np.int64]) -> list[NDArray]:
    """Pieces of an array that lie end to end."""
    ends = np.cumsum(sizes).tolist()
    return [values[start:end] for start, end in zip([0, *ends], ends)]


def _seal(content: bytes) -> bytes:
    """What stands before the HDF5 content, in its user block: what the file is, and the SHA-256 of the rest."""
    text = f"aerial_vpr_cl replay buffer\nsha256 {hashlib.sha256(content).hexdigest()}\n"
    return text.encode().ljust(SEAL_BYTES, b"\0")
