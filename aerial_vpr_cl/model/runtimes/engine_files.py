"""Engines on disk: a folder each, named and checked by what it was built from; found whole, or not at all."""

from __future__ import annotations

import hashlib
import json
import shutil
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aerial_vpr_cl.errors import ModelError, StoreError
from aerial_vpr_cl.files import MANIFEST, TEMPORARY_PREFIX, fsync_directory, full_disk_explained, verify_manifest
from aerial_vpr_cl.files import write_manifest as write_facts

GRAPH_FILE = "graph.onnx"
TRUNK, TAIL = "trunk", "tail"
MOST_TAILS = 3
"""Tails of one precision that are kept: the newest generation's, and those one can roll back to."""


@dataclass(frozen=True)
class EngineIdentity:
    """What an engine was built from, and for: another of any of these is another engine."""

    part: str  # trunk or tail
    precision: str
    fingerprint: str  # of the weights
    input_size: int
    runtime: str  # version that it was built for

    @property
    def folder_name(self) -> str:
        """Of the engine, among those of a store."""
        key = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]
        return f"{self.part}-{self.precision}-{key}"


def find_engine(folder: Path, identity: EngineIdentity) -> Path:
    """The graph of an engine, every byte as it was written; ModelError if it is not there or damaged."""
    place = folder / identity.folder_name
    if not place.is_dir():
        raise ModelError(f"{folder}: no {identity.precision} engine for this {identity.part}; run `aerial-vpr export`")
    try:
        manifest = verify_manifest(place)
    except StoreError as error:
        raise ModelError(f"{error}; run `aerial-vpr export` again") from None
    if any(manifest.get(name) != value for name, value in asdict(identity).items()):
        raise ModelError(f"{place}: built from something else than its name says; run `aerial-vpr export` again")
    return place / GRAPH_FILE


def keep_engine(folder: Path, identity: EngineIdentity, make: Callable[[Path], None], **facts: Any) -> Path:
    """The graph of an engine, made now if it is not there: in a folder of its own that is renamed when it is whole."""
    try:
        return find_engine(folder, identity)
    except ModelError:
        pass
    place = folder / identity.folder_name
    draft = folder / f"{TEMPORARY_PREFIX}{uuid.uuid4().hex[:12]}"
    with full_disk_explained(place):
        try:
            draft.mkdir(parents=True)
            make(draft / GRAPH_FILE)
            write_facts(draft, [GRAPH_FILE], **asdict(identity), **facts)
            shutil.rmtree(place, ignore_errors=True)  # damaged
            draft.rename(place)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    fsync_directory(folder)
    return place / GRAPH_FILE


def prune_engines(folder: Path, trunk_fingerprint: str) -> None:
    """Remove what a killed export left, trunks of another map, and all but the newest tails."""
    found: dict[str, list[tuple[int, Path]]] = {}
    for place in folder.iterdir() if folder.is_dir() else ():
        try:
            facts = json.loads((place / MANIFEST).read_bytes())
            written_ns = (place / MANIFEST).stat().st_mtime_ns
        except (OSError, ValueError):
            shutil.rmtree(place, ignore_errors=True)
            continue
        if facts.get("part") == TAIL:
            found.setdefault(str(facts.get("precision")), []).append((written_ns, place))
        elif facts.get("fingerprint") != trunk_fingerprint:
            shutil.rmtree(place, ignore_errors=True)
    for tails in found.values():
        for _, place in sorted(tails)[:-MOST_TAILS]:
            shutil.rmtree(place, ignore_errors=True)
