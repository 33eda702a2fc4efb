"""The store: what the drone knows, as immutable numbered generations of which the newest intact one counts.

    <store>/map/  <store>/generations/000007/  <store>/missions/  <store>/lock

Readers only read and take no lock. Everything that changes the store holds the learner lock.
"""

from __future__ import annotations

import logging
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aerial_vpr_cl.errors import StoreError
from aerial_vpr_cl.files import (
    TEMPORARY_PREFIX,
    fsync_directory,
    full_disk_explained,
    read_manifest,
    verify_manifest,
)
from aerial_vpr_cl.knowledge.disposal import (
    DISPOSED_PREFIX,
    DisposableMission,
    delete_leftover,
    delete_mission,
    disposed_name,
    is_bag,
    mark_disposable,
)
from aerial_vpr_cl.knowledge.draft import DRAFT_PREFIX, Draft, Generation, folder_name
from aerial_vpr_cl.knowledge.lock import LearnerLock

logger = logging.getLogger(__name__)

LEAST_KEPT = 2
"""Generations that prune never goes below: the one in use and the one to fall back on."""

_WITHDRAWN = ".withdrawn"
_FOLDER = re.compile(r"(\d{6,})(\.withdrawn)?")


class GenerationStore:
    """The generations, map and missions of one piece of ground. Opening one writes nothing."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        if not self.root.is_dir():
            raise StoreError(f"{self.root}: no store here; make one with `aerial-vpr build-map`")
        self.map_dir = self.root / "map"
        self.generations_dir = self.root / "generations"
        self.missions_dir = self.root / "missions"
        self._lock = LearnerLock(self.root / "lock")
        self._verified: dict[int, Generation] = {}  # while the lock is held: nobody else may change them then

    @classmethod
    def create(cls, root: Path) -> GenerationStore:
        """Make the folders of a store where they are missing, and open it."""
        root = Path(root)
        for name in ("map", "generations", "missions"):
            (root / name).mkdir(parents=True, exist_ok=True)
        fsync_directory(root)
        return cls(root)

    # Reading

    def numbers(self) -> list[int]:
        """Numbers of the generations that are committed and not withdrawn, ascending; damaged ones included."""
        return sorted(number for number, withdrawn in self._folders() if not withdrawn)

    def open(self, number: int) -> Generation:
        """One generation, with every file compared with its SHA-256; StoreError names the damaged one."""
        path = self._path(number)
        if not path.is_dir():
            raise StoreError(f"{path}: no such generation; there are {self.numbers()}")
        if number not in self._verified:
            manifest = verify_manifest(path)
            if manifest.get("generation") != number:
                raise StoreError(f"{path}: damaged, it was committed as generation {manifest.get('generation')}")
            generation = Generation.of_manifest(path, manifest)
            if not self._lock.is_held:
                return generation
            self._verified[number] = generation
        return self._verified[number]

    def newest(self, *, grid_hash: str | None = None) -> Generation:
        """The newest intact generation; damaged ones are passed over loudly.

        With `grid_hash` it must be of that grid: another grid is no damage, so there is no falling back from it.
        """
        generation = self._intact()[0]
        found = generation.facts.grid_hash
        if grid_hash is not None and found != grid_hash:
            raise StoreError(
                f"{generation.path}: learnt on grid {found}, but the map has grid {grid_hash}; "
                "use the map it was learnt on, or train anew on this one"
            )
        return generation

    def waiting_missions(self) -> list[Path]:
        """Bag directories in missions/, oldest name first. Hidden names are being written or deleted: not waiting."""
        if not self.missions_dir.is_dir():
            return []
        return sorted(path for path in self.missions_dir.iterdir() if not path.name.startswith(".") and is_bag(path))

    # Learning

    @contextmanager
    def learner_lock(self) -> Iterator[None]:
        """Be the only learner; what a killed one left unfinished is cleaned first. May be nested in one thread."""
        with self._lock.hold() as outermost:
            if not outermost:
                yield
                return
            self._verified.clear()
            self._refuse_links()
            self._remove_unfinished()
            try:
                yield
            finally:
                self._verified.clear()

    @contextmanager
    def draft(self, bytes_needed: int | None = None) -> Iterator[Draft]:
        """A folder to build the next generation in, removed unless it is committed.

        `bytes_needed` must be free on the disk; by default as much as the largest generation takes.
        """
        with self.learner_lock():
            self.generations_dir.mkdir(exist_ok=True)
            self.require_space(self._largest() if bytes_needed is None else bytes_needed)
            path = self.generations_dir / f"{DRAFT_PREFIX}{uuid.uuid4().hex[:12]}"
            try:
                with full_disk_explained(path):
                    path.mkdir()
                    number = max((number for number, _ in self._folders()), default=-1) + 1
                    yield Draft(path, number, self.root.resolve())
            finally:
                shutil.rmtree(path, ignore_errors=True)

    def require_space(self, needed: int) -> None:
        """StoreError unless so many bytes are free for the next generation."""
        free = shutil.disk_usage(self.generations_dir if self.generations_dir.is_dir() else self.root).free
        if free < needed:
            raise StoreError(
                f"{self.root}: the next generation needs {needed / 1e6:.1f} MB and {free / 1e6:.1f} MB are free; "
                "free some space on this disk"
            )

    def rollback(self) -> Generation:
        """Withdraw the newest intact generation, and damaged ones above it; returns the one that counts now."""
        with self.learner_lock():
            intact = self._intact(2)
            if len(intact) < 2:
                raise StoreError(f"{intact[0].path}: the only intact generation; there is none to roll back to")
            withdrawn, now = intact
            for number in reversed(self.numbers()):
                if number >= withdrawn.number:
                    self._path(number).rename(self._path(number).with_suffix(_WITHDRAWN))
            fsync_directory(self.generations_dir)
            logger.warning("generation %d is withdrawn, generation %d counts now", withdrawn.number, now.number)
            return now

    def prune(self, keep: int = LEAST_KEPT) -> None:
        """Delete all but the newest `keep` intact generations, never leaving fewer than two.

        Of withdrawn ones as many are kept: they are what an operator who thinks better of it still has.
        """
        with self.learner_lock():
            keep = max(keep, LEAST_KEPT)
            oldest = self._intact(keep)[-1].number
            # The highest number stays on disk even when withdrawn: it is what keeps numbers from being used twice.
            kept = [number for number, withdrawn in self._folders() if withdrawn][-keep:]
            for number, withdrawn in self._folders():
                if number < oldest if not withdrawn else number not in kept:
                    self._remove(self._path(number).with_suffix(_WITHDRAWN if withdrawn else ""))

    # Disposal

    def disposable(self, mission: Path) -> DisposableMission:
        """Mark a mission for deletion after learning: called before it is read, given to `Draft.commit`.

        StoreError for what must not be deleted: links, folders that are no bag, folders that hold other things.
        """
        return mark_disposable(Path(mission), self.root, self.missions_dir)

    def dispose(self, mission: Path) -> None:
        """Delete the raw frames of a mission that was committed with the newest intact generation or one before it."""
        path = Path(mission).absolute().resolve()
        with self.learner_lock():
            marks = [mark for mark in self._committed_marks() if mark.path == path]
            if not marks:
                raise StoreError(f"{mission}: no generation was committed with it; its raw frames stay")
            if not any(mark.is_unchanged() for mark in marks):
                raise StoreError(f"{mission}: has changed since it was learnt; its raw frames stay")
            try:
                delete_mission(path)
            except OSError as error:
                raise StoreError(f"{mission}: is learnt, but cannot be deleted: {error}") from error

    def finish_disposal(self, named: Iterable[Path] = ()) -> list[str]:
        """Delete what a crash between commit and the end of disposal left; returns the names of those missions.

        Whatever manifests say, only missions of this store are deleted, and those that the caller has named.
        """
        if not self.numbers():
            return []
        finished = set()
        with self.learner_lock():
            allowed = {Path(path).absolute().resolve() for path in named}
            marks = [mark for mark in self._committed_marks() if self._owns(mark.path) or mark.path in allowed]
            leftovers = {disposed_name(mark.path) for mark in marks}
            if not self.missions_dir.is_symlink():
                leftovers.update(self.missions_dir.glob(f"{DISPOSED_PREFIX}*"))
            try:
                for leftover in leftovers:
                    if delete_leftover(leftover):
                        finished.add(leftover.name.removeprefix(DISPOSED_PREFIX))
                for mark in marks:
                    if mark.is_unchanged():
                        delete_mission(mark.path)
                        finished.add(mark.path.name)
            except OSError as error:  # it is learnt all the same, and the next learner will try again
                logger.error("a learnt mission cannot be deleted: %s", error)
        return sorted(finished)

    # Inside

    def _path(self, number: int) -> Path:
        return self.generations_dir / folder_name(number)

    def _owns(self, mission: Path) -> bool:
        """Whether a path is that of a mission of this store, and not one that leads out of it."""
        inside = self.root.resolve() / self.missions_dir.name
        return mission.parent == inside and mission.name != ".." and not self.missions_dir.is_symlink()

    def _folders(self) -> list[tuple[int, bool]]:
        """Number, and whether withdrawn, of every generation on the disk."""
        if not self.generations_dir.is_dir():
            return []
        matches = (_FOLDER.fullmatch(path.name) for path in self.generations_dir.iterdir())
        return sorted((int(match[1]), bool(match[2])) for match in matches if match)

    def _intact(self, wanted: int = 1) -> list[Generation]:
        """Up to `wanted` intact generations, newest first, at least one."""
        while True:
            numbers, intact, damages = self.numbers(), [], []
            for number in reversed(numbers):
                try:
                    intact.append(self.open(number))
                except StoreError as error:
                    damages.append(str(error))
                    if self._path(number).is_dir():  # else a learner pruned or withdrew it while we were reading
                        logger.error("generation %d cannot be used, trying the previous one: %s", number, error)
                if len(intact) == wanted:
                    break
            if intact:
                return intact
            if not numbers:
                raise StoreError(f"{self.generations_dir}: no generation yet; make one with `aerial-vpr train-base`")
            if numbers == self.numbers():
                raise StoreError(f"{self.generations_dir}: no generation is intact: " + "; ".join(damages))

    def _committed_marks(self) -> list[DisposableMission]:
        """Missions that the newest intact generation, and those it was learnt from, were committed with, to be deleted.

        One beside that line was damaged when the next was learnt: what it knew of its missions is nowhere else.
        """
        generation, marks = self.newest(), []
        try:
            marks += generation.disposable
            while (number := generation.facts.parent) is not None and number < generation.number:
                generation = Generation.of_manifest(self._path(number), read_manifest(self._path(number)))
                marks += generation.disposable
        except StoreError as error:  # pruned or unreadable: missions stay, better learnt twice than never
            logger.debug("%s", error)
        return marks

    def _refuse_links(self) -> None:
        # A learner deletes in these folders: behind a link it would do so in somebody else's.
        for folder in (self.map_dir, self.generations_dir):
            if folder.is_symlink():
                raise StoreError(f"{folder}: is a link, and a learner does not follow it; put the folder itself there")

    def _remove_unfinished(self) -> None:
        for folder in (self.root, self.map_dir, self.generations_dir):
            for prefix in (TEMPORARY_PREFIX, DRAFT_PREFIX):
                for path in folder.glob(f"{prefix}*"):
                    logger.warning("%s: removed, a learner that was stopped left it unfinished", path)
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def _remove(self, path: Path) -> None:
        # Renamed first, so that no reader takes a half deleted folder for a damaged generation.
        doomed = path.with_name(TEMPORARY_PREFIX + path.name)
        path.rename(doomed)
        fsync_directory(self.generations_dir)
        doomed.unlink() if doomed.is_symlink() else shutil.rmtree(doomed)

    def _largest(self) -> int:
        sizes = [
            sum(file.stat().st_size for file in self._path(number).rglob("*") if file.is_file())
            for number in self.numbers()
        ]
        return max(sizes, default=0)
