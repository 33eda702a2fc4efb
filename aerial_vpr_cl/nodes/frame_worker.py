"""One frame at a time in a thread of its own; of the frames that come meanwhile only the newest is kept."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class FrameWorker(Generic[Item]):
    """Calls `process`, which must not raise, with the newest frame whenever it is free."""

    def __init__(self, process: Callable[[Item], None]) -> None:
        self._process = process
        self._newest: Item | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="localization", daemon=True)
        self._thread.start()

    def put(self, item: Item) -> bool:
        """Hand over a frame without waiting; True if it took the place of one that was never looked at."""
        with self._changed:
            replaced, self._newest = self._newest is not None, item
            self._changed.notify()
        return replaced

    def clear(self) -> None:
        """Forget the frame that waits."""
        with self._changed:
            self._newest = None

    def close(self, limit_s: float = 10.0) -> None:
        """End the thread after the frame it works on."""
        with self._changed:
            self._closed, self._newest = True, None
            self._changed.notify()
        self._thread.join(limit_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._newest is None and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                item, self._newest = self._newest, None
            self._process(item)  # type: ignore[arg-type]
