"""One learner at a time: an flock that dies with its process, so a killed learner never blocks the next."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aerial_vpr_cl.errors import StoreError

_descriptors: set[int] = set()


def _forget_in_child() -> None:
    # A forked worker shares the open file and with it the flock: it would keep the lock alive after its parent died.
    while _descriptors:
        os.close(_descriptors.pop())


os.register_at_fork(after_in_child=_forget_in_child)


class LearnerLock:
    """The lock file of a store. Taking it again in the thread that holds it is allowed; anyone else is turned away."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._holder: tuple[int, int] | None = None  # process and thread

    @property
    def is_held(self) -> bool:
        """Whether this very thread holds it."""
        return self._holder == (os.getpid(), threading.get_ident())

    @contextmanager
    def hold(self) -> Iterator[bool]:
        """Hold the lock; yields whether this is the outermost hold. StoreError at once when another learner has it."""
        me = (os.getpid(), threading.get_ident())
        if self._holder == me:
            yield False
            return
        descriptor = self._acquire()
        self._holder = me
        try:
            yield True
        finally:
            self._holder = None
            if descriptor in _descriptors:
                _descriptors.discard(descriptor)
                os.ftruncate(descriptor, 0)
                os.close(descriptor)

    def _acquire(self) -> int:
        # The file is emptied below: it must not lead to another one, by a link of either kind.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path, flags, 0o666)
        except OSError as error:
            words = "it is a link" if error.errno == errno.ELOOP else error.strerror
            raise StoreError(f"{self.path}: cannot be locked for learning: {words}") from error
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            os.close(descriptor)
            raise StoreError(f"{self.path}: cannot be locked for learning: it is no file of its own; remove it")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The text is for the message below only; what counts is the flock.
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            pid = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            os.close(descriptor)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise StoreError(f"{self.path}: cannot be locked for learning: {error.strerror}") from error
            who = f"another learner (pid {pid})" if pid else "another learner"
            raise StoreError(f"{self.path.parent}: {who} is at work on this store; wait until it is done") from None
        _descriptors.add(descriptor)
        return descriptor
