"""Arrays of one shape by name, in a file of equal slots that grows while processes use it."""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import shutil
import tempfile
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.files import TEMPORARY_PREFIX, full_disk_explained

LEFT_FREE_BYTES = 256 << 20
"""What is kept leaves this much of the disk to others, such as the generation that is committed after learning."""

NAME_BYTES = 16


class SlotFile:
    """Rows in fp16 in one file; a second file holds the hashes of their names in the same order.

    Names are written after their rows, so a process that is killed leaves at most rows without names, which the next
    one overwrites. Shared files lie in the folder under their names. Private ones have none (they are unlinked at
    once), so that not even a kill leaves them behind.
    """

    def __init__(self, folder: Path, *, capacity_bytes: int, shared: bool) -> None:
        self._folder = folder
        self._capacity_bytes = capacity_bytes
        self._shared = shared
        folder.mkdir(parents=True, exist_ok=True)
        self._rows_file = _open(folder / "outputs" if shared else None, folder)
        self._names_file = _open(folder / "names" if shared else None, folder)
        self._slot_of: dict[bytes, int] = {}
        self._rows: NDArray[np.float16] | None = None
        self.refresh()

    def __len__(self) -> int:
        return len(self._slot_of)

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._slot_of

    def read(self, digests: Sequence[bytes], shape: tuple[int, ...]) -> NDArray[np.float16]:
        """(n, *shape) rows that are there."""
        if self._rows is None or len(self._rows) < len(self):
            whole = (len(self), *shape)
            self._rows = np.memmap(self._rows_file, np.float16, mode="r", shape=whole)  # type: ignore[call-overload]
        return self._rows[[self._slot_of[digest] for digest in digests]]

    def add(self, rows: Mapping[bytes, NDArray[np.float16]]) -> None:
        """Keep what is new, as far as the capacity and the disk reach."""
        slot_bytes = next(iter(rows.values())).nbytes
        with full_disk_explained(self._folder), self._locked():
            self.refresh()
            new = [digest for digest in rows if digest not in self][: self._free_slots(slot_bytes)]
            if not new:
                return
            _write(self._rows_file.fileno(), b"".join(rows[digest].tobytes() for digest in new), len(self) * slot_bytes)
            if self._shared:
                os.fsync(self._rows_file.fileno())
            _write(self._names_file.fileno(), b"".join(new), len(self) * NAME_BYTES)
            self.refresh()

    def refresh(self) -> None:
        """Learn what other processes have added."""
        known = len(self)
        count = os.fstat(self._names_file.fileno()).st_size // NAME_BYTES
        data = os.pread(self._names_file.fileno(), (count - known) * NAME_BYTES, known * NAME_BYTES)
        for place in range(len(data) // NAME_BYTES):
            self._slot_of[data[place * NAME_BYTES : (place + 1) * NAME_BYTES]] = known + place

    def close(self) -> None:
        """Give the files back; private ones are gone then."""
        self._rows = None
        self._slot_of.clear()
        self._rows_file.close()
        self._names_file.close()

    def __enter__(self) -> SlotFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _free_slots(self, slot_bytes: int) -> int:
        left_of_disk = shutil.disk_usage(self._folder).free - LEFT_FREE_BYTES
        return max(0, min(self._capacity_bytes // slot_bytes - len(self), left_of_disk // slot_bytes))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._names_file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._names_file, fcntl.LOCK_UN)


def _open(path: Path | None, folder: Path) -> io.FileIO:
    """A file to read and write in; without a path one that nobody else can find."""
    if path is not None:
        return io.FileIO(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+")
    descriptor, name = tempfile.mkstemp(prefix=TEMPORARY_PREFIX, dir=folder)
    Path(name).unlink()
    return io.FileIO(descriptor, "r+")


def digest_of(name: Hashable) -> bytes:
    """What stands for a name in the file."""
    return hashlib.blake2b(repr(name).encode(), digest_size=NAME_BYTES).digest()


def _write(descriptor: int, data: bytes, offset: int) -> None:
    """All of it: a single call may write less, and at most 2 GB."""
    left = memoryview(data)
    while left:
        written = os.pwrite(descriptor, left, offset)
        left, offset = left[written:], offset + written
