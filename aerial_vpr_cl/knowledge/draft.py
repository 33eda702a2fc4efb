"""A generation, and the draft that becomes one by a single rename."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aerial_vpr_cl.files import fsync_directory, write_manifest
from aerial_vpr_cl.knowledge.disposal import DisposableMission
from aerial_vpr_cl.knowledge.failpoints import failpoint

DRAFT_PREFIX = ".draft-"


@dataclass(frozen=True)
class Generation:
    """One committed generation, intact when it was opened: the folder of its files, and the facts of its manifest."""

    number: int
    path: Path
    facts: dict[str, Any]

    @classmethod
    def of_manifest(cls, path: Path, manifest: dict[str, Any]) -> Generation:
        """The generation that a manifest in `path` describes."""
        facts = {name: value for name, value in manifest.items() if name not in ("files", "sha256")}
        return cls(manifest["generation"], path, facts)


class Draft:
    """A folder in which the next generation is built. It may hold scratch files too: only listed ones are committed."""

    def __init__(self, path: Path, number: int, root: Path) -> None:
        self.path = path
        self.number = number
        self._root = root

    def commit(self, files: Iterable[str], *, dispose: Iterable[DisposableMission] = (), **facts: Any) -> Generation:
        """Make the named files of the folder the next generation; when this returns, it is durable.

        `dispose` are the missions it learnt whose raw frames may be deleted from now on.
        """
        files = set(files)
        for child in self.path.iterdir():
            if child.name not in files:
                shutil.rmtree(child) if child.is_dir() and not child.is_symlink() else child.unlink()
        failpoint("commit.files_written")
        marks = [mission.to_dict(self._root) for mission in dispose]
        manifest = write_manifest(self.path, files, generation=self.number, dispose=marks, **facts)
        failpoint("commit.manifest_written")
        self.path = self.path.rename(self.path.with_name(folder_name(self.number)))
        failpoint("commit.renamed")
        fsync_directory(self.path.parent)
        failpoint("commit.durable")
        return Generation.of_manifest(self.path, manifest)


def folder_name(number: int) -> str:
    """Name of a generation's folder."""
    return f"{number:06d}"
