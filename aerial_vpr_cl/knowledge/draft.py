"""A generation, and the draft that becomes one by a single rename."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aerial_vpr_cl.errors import StoreError
from aerial_vpr_cl.files import MANIFEST, fsync_directory, write_manifest
from aerial_vpr_cl.knowledge.disposal import DisposableMission
from aerial_vpr_cl.knowledge.facts import GenerationFacts
from aerial_vpr_cl.knowledge.failpoints import failpoint

DRAFT_PREFIX = ".draft-"


TAIL_FILE, REPLAY_FILE = "tail.safetensors", "replay.h5"
"""What a generation consists of: all that learns of the network, and the replay buffer."""

METHOD_FILE = "method.safetensors"
"""What its method has learnt beside the network; most methods learn nothing else and have no such file."""


@dataclass(frozen=True)
class Generation:
    """One committed generation, intact when it was opened: the folder of its files, and what its manifest says."""

    number: int
    path: Path
    facts: GenerationFacts
    noted: tuple[Any, ...] = ()  # missions to be deleted after the commit, as the manifest has them

    @classmethod
    def of_manifest(cls, path: Path, manifest: dict[str, Any]) -> Generation:
        """The generation that a manifest in `path` describes."""
        try:
            facts = GenerationFacts.from_dict(manifest)
        except StoreError as error:
            raise StoreError(f"{path / MANIFEST}: {error}") from None
        return cls(manifest["generation"], path, facts, tuple(manifest.get("dispose", ())))

    @property
    def disposable(self) -> list[DisposableMission]:
        """The missions it was committed with, to be deleted; StoreError if the manifest names something else."""
        root = self.path.parents[1].resolve()
        return [DisposableMission.from_dict(values, root) for values in self.noted]


class Draft:
    """A folder in which the next generation is built. It may hold scratch files too: only listed ones are committed."""

    def __init__(self, path: Path, number: int, root: Path) -> None:
        self.path = path
        self.number = number
        self._root = root

    def commit(
        self,
        files: Iterable[str] = (TAIL_FILE, REPLAY_FILE),
        facts: GenerationFacts | None = None,
        *,
        dispose: Iterable[DisposableMission] = (),
    ) -> Generation:
        """Make the named files of the folder the next generation; when this returns, it is durable.

        `dispose` are the missions it learnt whose raw frames may be deleted from now on.
        """
        files = set(files)
        for child in self.path.iterdir():
            if child.name not in files:
                shutil.rmtree(child) if child.is_dir() and not child.is_symlink() else child.unlink()
        failpoint("commit.files_written")
        marks = [mission.to_dict(self._root) for mission in dispose]
        said = (facts or GenerationFacts()).to_dict()
        manifest = write_manifest(self.path, files, generation=self.number, dispose=marks, **said)
        failpoint("commit.manifest_written")
        self.path = self.path.rename(self.path.with_name(folder_name(self.number)))
        failpoint("commit.renamed")
        fsync_directory(self.path.parent)
        failpoint("commit.durable")
        return Generation.of_manifest(self.path, manifest)


def folder_name(number: int) -> str:
    """Name of a generation's folder."""
    return f"{number:06d}"
