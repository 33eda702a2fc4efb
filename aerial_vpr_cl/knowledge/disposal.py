"""Deleting the raw frames of a learnt mission: exactly those, completely, and nothing else.

A mission is marked disposable before learning starts, the mark is committed with the generation that learnt it, and
only a mission that still fits a committed mark is deleted. So neither a crash nor a name used twice nor a mission
restored from a backup can cost frames that somebody wants.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aerial_vpr_cl.errors import StoreError
from aerial_vpr_cl.files import fsync_directory
from aerial_vpr_cl.knowledge.failpoints import failpoint

DISPOSED_PREFIX = ".disposed-"
BAG_SUFFIXES = {".mcap", ".db3"}

_OUTSIDE_SUFFIXES = BAG_SUFFIXES | {".yaml", ".zstd", ".db3-wal", ".db3-shm", ".db3-journal"}
_SAMPLE_BYTES = 1 << 16


@dataclass(frozen=True)
class DisposableMission:
    """A bag directory that may be deleted once it is learnt, and a fingerprint of what it held before learning."""

    path: Path  # resolved
    fingerprint: str

    def is_unchanged(self) -> bool:
        """Whether the very frames that were marked are still there."""
        return is_bag(self.path) and not self.path.is_symlink() and _fingerprint(self.path) == self.fingerprint

    def to_dict(self, root: Path) -> dict[str, str]:
        """Plain values for a manifest; missions of the store are named relative to it, so that it can be moved."""
        inside = self.path.is_relative_to(root)
        return {
            "mission": str(self.path.relative_to(root) if inside else self.path),
            "fingerprint": self.fingerprint,
        }

    @classmethod
    def from_dict(cls, values: Any, root: Path) -> DisposableMission:
        """The mission that `to_dict` wrote; StoreError for anything else."""
        try:
            return cls(root / values["mission"], str(values["fingerprint"]))
        except (KeyError, TypeError):
            raise StoreError(f"{root}: {values!r} in a manifest is no mission to be deleted") from None


def is_bag(path: Path) -> bool:
    """Whether a path is a rosbag2 directory."""
    try:
        return any(child.name == "metadata.yaml" or child.suffix in BAG_SUFFIXES for child in path.iterdir())
    except OSError:  # no directory, or one that must not be read
        return False


def mark_disposable(mission: Path, root: Path, missions_dir: Path) -> DisposableMission:
    """Check that a mission may be deleted after learning; StoreError says why not."""
    path = mission.absolute()
    if path.is_symlink():
        raise StoreError(
            f"{mission}: is a link, and links are not followed to delete; give {path.resolve()} or keep raw"
        )
    path = path.resolve()
    root = root.resolve()
    if not is_bag(path):
        raise StoreError(
            f"{mission}: not a bag directory (no metadata.yaml, .mcap or .db3 in it); nothing may be deleted"
        )
    if path.parent == missions_dir.resolve():
        return DisposableMission(path, _fingerprint(path))
    if root.is_relative_to(path) or path.is_relative_to(root) or path == Path.home() or os.path.ismount(path):
        raise StoreError(f"{mission}: will not be deleted, it is no mission of its own; give the bag directory itself")
    # Elsewhere the folder may hold what is not ours, so it must look like a bag through and through.
    for child in sorted(path.iterdir()):
        if child.is_dir() or child.suffix not in _OUTSIDE_SUFFIXES:
            raise StoreError(f"{mission}: holds {child.name}, which is no part of a bag; move it away, or keep raw")
    return DisposableMission(path, _fingerprint(path))


def delete_mission(path: Path) -> None:
    """Delete a bag directory: first its name, which is atomic, then its content, which a crash may interrupt."""
    disposed = disposed_name(path)
    delete_leftover(disposed)
    path.rename(disposed)
    fsync_directory(path.parent)
    failpoint("dispose.renamed")
    delete_leftover(disposed)
    failpoint("dispose.done")


def disposed_name(path: Path) -> Path:
    """What a mission is called while it is being deleted."""
    return path.with_name(DISPOSED_PREFIX + path.name)


def delete_leftover(disposed: Path) -> bool:
    """Delete what an interrupted disposal left; links are removed, never followed. Whether there was something."""
    if disposed.is_symlink() or not disposed.is_dir():
        return False
    for child in sorted(disposed.iterdir()):
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child)
        else:
            child.unlink()
        failpoint("dispose.deleting")
    disposed.rmdir()
    fsync_directory(disposed.parent)
    return True


def _fingerprint(path: Path) -> str:
    """Hash of names, sizes, and the first and last 64 KiB of each file: a bag's ends hold its times and checksums.

    The folder's time of change is part of it: nobody can set that, so a copy put back from a backup is another folder.
    """
    digest = hashlib.sha256(f"{path.stat().st_ctime_ns}\0".encode())
    for file in sorted(path.rglob("*")):
        if file.is_symlink() or not file.is_file():
            continue
        size = file.stat().st_size
        digest.update(f"{file.relative_to(path).as_posix()}\0{size}\0".encode(errors="surrogateescape"))
        with file.open("rb") as stream:
            digest.update(stream.read(_SAMPLE_BYTES))
            stream.seek(max(0, size - _SAMPLE_BYTES))
            digest.update(stream.read(_SAMPLE_BYTES))
    return digest.hexdigest()
