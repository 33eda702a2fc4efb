"""Files that are there whole or not at all, and folders whose manifest says what belongs in them.

A file is written under a temporary name beside its place, made durable, and renamed. The manifest of a folder is
written last: a folder without one was never finished.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import uuid
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from aerial_vpr_cl.errors import StoreError

MANIFEST = "manifest.json"
FORMAT = 1
TEMPORARY_PREFIX = ".tmp-"
"""First letters of every unfinished file: whoever finds one without its writer may delete it."""

_RESERVED = {"format", "files", "sha256"}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` to write to; on success it becomes `path`, durably; on any error it is removed.

    The temporary name ends as `path` does, so writers that go by the extension are content.
    """
    path = Path(path)
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{uuid.uuid4().hex[:12]}-{path.name}")
    with full_disk_explained(path):
        try:
            yield temporary
            fsync_file(temporary)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        fsync_directory(path.parent)


def replace_file(path: Path, data: bytes) -> None:
    """Write a whole file so that readers, and a crash, find either the old content or the new."""
    with new_file(path) as temporary:
        temporary.write_bytes(data)


def prepare_output(path: Path) -> None:
    """Make the folder of a file that will be written after long work; StoreError if the file could not be there."""
    path = Path(path)
    if path.is_dir():
        raise StoreError(f"{path}: is a directory; give the name of a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{path.parent}: cannot be made: {error.strerror}") from None


@contextmanager
def full_disk_explained(path: Path) -> Iterator[None]:
    """Turn the various ways in which libraries report a full disk into one StoreError that names `path`."""
    try:
        yield
    except Exception as error:
        code = None if isinstance(error, StoreError) else _full_disk_code(error)
        if code is None:
            raise
        raise StoreError(
            f"{path}: cannot be written, the disk is full ({os.strerror(code)}); free some space"
        ) from error


def _full_disk_code(error: Exception) -> int | None:
    # safetensors puts the number into its text only, and so does HDF5 in places.
    codes = [int(code) for code in re.findall(r"(?:errno = |os error )(\d+)", str(error))]
    if isinstance(error, OSError) and error.errno is not None:
        codes.insert(0, error.errno)
    return next((code for code in codes if code in _FULL), None)


def fsync_file(path: Path) -> None:
    """Return when the file's content is on the disk."""
    _fsync(path, os.O_RDONLY)


def fsync_directory(path: Path) -> None:
    """Return when the names in a directory are on the disk: without it a rename may not survive a power cut."""
    _fsync(path, os.O_RDONLY | os.O_DIRECTORY)


def _fsync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def write_manifest(folder: Path, files: Iterable[str], **facts: Any) -> dict[str, Any]:
    """Make the named files of a folder durable and write manifest.json about them: sizes, hashes and facts.

    The facts are plain JSON values. The manifest carries a hash of itself, so a flipped bit in a fact is noticed too.
    """
    folder = Path(folder)
    if clash := _RESERVED & facts.keys():
        raise ValueError(f"facts of a manifest cannot be called {', '.join(sorted(clash))}")
    entries = {}
    for name in sorted(set(files)):
        path = folder / _inside(folder, name)
        fsync_file(path)
        entries[name] = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
    text = json.dumps({"format": FORMAT, **facts, "files": entries}, allow_nan=False)
    manifest: dict[str, Any] = json.loads(text)  # as a reader will see it
    manifest["sha256"] = _hash_of(manifest)
    replace_file(folder / MANIFEST, json.dumps(manifest, indent=1).encode())
    return manifest


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder, itself intact; the files it lists are not looked at."""
    path = Path(folder) / MANIFEST
    try:
        manifest = json.loads(path.read_bytes().decode())
    except FileNotFoundError:
        raise StoreError(f"{path}: missing; the folder was never finished or a file was deleted") from None
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise StoreError(f"{path}: damaged, not a manifest: {error}") from None
    if not isinstance(manifest, dict) or manifest.get("sha256") != _hash_of(manifest):
        raise StoreError(f"{path}: damaged, its content does not match its own SHA-256")
    if manifest.get("format") != FORMAT:
        raise StoreError(
            f"{path}: has format {manifest.get('format')}, this software reads format {FORMAT}; update the software"
        )
    return manifest


def verify_manifest(folder: Path, *, size_only: Collection[str] = ()) -> dict[str, Any]:
    """The manifest of a folder whose every file has the size and SHA-256 it was written with.

    Files named in `size_only` are compared by size alone: for rasters that take minutes to hash.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    for name, expected in manifest["files"].items():
        path = folder / _inside(folder, name)
        try:
            size = path.stat().st_size
            if size != expected["bytes"]:
                raise StoreError(f"{path}: damaged, it has {size} bytes where {expected['bytes']} were written")
            if name not in size_only and sha256_of(path) != expected["sha256"]:
                raise StoreError(f"{path}: damaged, its SHA-256 is not the one it was written with")
        except FileNotFoundError:
            raise StoreError(f"{path}: missing, though {MANIFEST} lists it") from None
        except OSError as error:
            raise StoreError(f"{path}: cannot be read: {error.strerror}") from error
    return manifest


def _hash_of(manifest: Any) -> str:
    content = {key: value for key, value in manifest.items() if key != "sha256"} if isinstance(manifest, dict) else None
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _inside(folder: Path, name: str) -> str:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or name == MANIFEST:
        raise StoreError(f"{folder / MANIFEST}: {name!r} is not the name of a file inside the folder")
    return name
