"""The generation in use, and the newer ones that a learner commits beside it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from aerial_vpr_cl.errors import AerialVprError, StoreError
from aerial_vpr_cl.files import MANIFEST
from aerial_vpr_cl.knowledge.draft import folder_name
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.readiness import what_is_missing

log = logging.getLogger(__name__)

Known = TypeVar("Known")


class _Look(NamedTuple):
    """What tells, without reading a file, that something in a store has changed."""

    generations: list[int]
    newest_files: list[tuple[str, int, int]]  # name, bytes and time of each file of the last one: copying takes long
    map_file: tuple[int, int] | None  # inode and time of the map's manifest


class GenerationWatch(Generic[Known]):
    """Holds what a node knows of a store and replaces it in one step; readers take `known` once per frame.

    `load` makes it of the store's folder and of what was known before, and says which generation it is.
    """

    def __init__(self, store: str, load: Callable[[Path, Known | None], tuple[int, Known]]) -> None:
        self.known: Known | None = None
        self.number: int | None = None
        self.problem = ""  # why the newest generation is not in use
        self._store = store
        self._load = load
        self._tried: _Look | None = None
        self._loading = threading.Lock()

    @property
    def path(self) -> Path:
        """The store."""
        return Path(self._store).expanduser()

    def load(self) -> None:
        """Take the newest generation into use; the one before serves meanwhile, and for ever if this one is unfit."""
        with self._loading:
            self._tried = None  # if it fails for want of the store, whatever is found there next is new
            try:
                if missing := what_is_missing(self._store):
                    raise StoreError(missing)
                self._tried = self._look()
                number, known = self._load(self.path, self.known)
            except Exception as error:
                self.problem = str(error) or repr(error)
                if not isinstance(error, AerialVprError):
                    self._tried = None  # not the generation's fault, such as a GPU that the learner still fills
                raise
            before, self.known, self.number, self.problem = self.number, known, number, ""
            if before != number:
                log.info("generation %s of %s is in use", number, self.path)

    def has_changed(self) -> bool:
        """Whether it is worth to load: a generation or the map came or went. Looks at names and times only."""
        look = self._look() if self._store else None
        if look is None or not look.generations or look == self._tried:
            return False
        same_map = self._tried is not None and look.map_file == self._tried.map_file
        if same_map and look.generations[-1] == self.number:  # what was unfit is withdrawn, or an old one pruned
            self._tried, self.problem = look, ""
            return False
        return True

    def forget(self) -> None:
        """Use none."""
        self.known = self.number = None

    def _look(self) -> _Look | None:
        """None where there is no store."""
        try:
            store = GenerationStore(self.path)
        except StoreError:
            return None
        look = _Look(store.numbers(), [], None)
        with suppress(OSError):
            found = (store.map_dir / MANIFEST).stat()
            look = look._replace(map_file=(found.st_ino, found.st_mtime_ns))
            if look.generations:
                newest = store.generations_dir / folder_name(look.generations[-1])
                look = look._replace(newest_files=_files_in(newest))
        return look


def _files_in(folder: Path) -> list[tuple[str, int, int]]:
    """Name, bytes and time of its files; OSError if one goes while we look."""
    found = ((path.name, path.stat()) for path in sorted(folder.iterdir()))
    return [(name, status.st_size, status.st_mtime_ns) for name, status in found]
