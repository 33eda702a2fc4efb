"""The process that an update runs in: Learn-and-Dispose on all waiting missions, told as JSON lines.

    python -m aerial_vpr_cl.learning.update_process

First line of standard input: {"store", "settings", "limits"}. Standard output: one JSON object a line with its
"event": mission, progress, report, cancelled, error, done. SIGINT, SIGTERM or the end of standard input
(whoever wanted the update is gone) cancel at the next step of learning: nothing of the mission at hand is changed.
A commit that has begun is finished.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aerial_vpr_cl.errors import AerialVprError, Cancelled
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.settings import load_settings, setting

log = logging.getLogger(__name__)

PROGRESS_PERIOD_S = 0.1
ORPHAN_PATIENCE_S = 10.0
SHORT_OF_MEMORY = (
    "allocate memory",
    "out of memory",
    "bad_alloc",
    "failed to map segment",
    "could not create a primitive",
)
"""How PyTorch and the libraries below it say that there is no memory left."""

Tell = Callable[..., None]


@dataclass(frozen=True)
class UpdateLimits:
    """What an update may take from the computer that also flies."""

    memory_mb: int = setting(0, "most memory of the update process in MB, its libraries take about 1000; 0: any", low=0)
    nice: int = setting(10, "how much the update gives way to other processes, 19: most", low=0, high=19)

    def apply(self) -> None:
        """Hold this process, and the threads it will start, to the limits."""
        os.nice(self.nice)
        if self.memory_mb:
            # Not RLIMIT_AS: CUDA reserves far more addresses than it uses, and the cache file is mapped.
            resource.setrlimit(resource.RLIMIT_DATA, (self.memory_mb << 20, self.memory_mb << 20))


class Update:
    """One update: progress goes out by `tell`, a request to cancel comes in by `cancel`."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._cancelled = threading.Event()
        self._last = ("", 0.0)

    def cancel(self, *_: object) -> None:
        """Stop at the next step of learning. For signal handlers and any thread."""
        self._cancelled.set()

    def progress(self, phase: str, done: int, total: int, **figures: float) -> None:
        """A `Progress`, thinned out to what a reader can follow."""
        if self._cancelled.is_set():
            raise Cancelled("cancelled by the operator")
        now = time.monotonic()
        if phase != self._last[0] or now - self._last[1] >= PROGRESS_PERIOD_S or done >= total:
            self._last = (phase, now)
            self._tell("progress", phase=phase, done=done, total=total, figures=figures)

    def run(self, store_path: Path, settings: Mapping[str, Any]) -> None:
        """Learn every waiting mission, oldest first; one that cannot be read does not hold up the others."""
        store = GenerationStore(store_path)
        with store.learner_lock():
            if not settings.get("keep_raw"):
                store.finish_disposal()
            missions = store.waiting_missions()
            if not missions:
                return
            # PyTorch takes seconds to load: only now, when there is something to learn.
            from aerial_vpr_cl.learning.adapt import AdaptSettings, learn_missions

            learn_missions(
                store,
                missions,
                load_settings(AdaptSettings, settings),
                self.progress,
                begin=lambda mission, index, count: self._tell("mission", mission=mission, index=index, count=count),
                end=lambda report: self._tell("report", **report.to_dict()),
            )


def main() -> int:
    """Do the update that standard input asks for; what libraries print goes to standard error."""
    tell = _teller(os.dup(sys.stdout.fileno()))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    logging.basicConfig(level=logging.INFO, format="update: %(message)s", stream=sys.stderr)
    update = Update(tell)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, update.cancel)
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as source:
        request = json.loads(source.readline())
    threading.Thread(target=_end_with_parent, args=(sys.stdin.fileno(), update.cancel), daemon=True).start()
    limits = load_settings(UpdateLimits, request["limits"])
    try:
        limits.apply()
        update.run(Path(request["store"]), request["settings"])
    except Cancelled:
        tell("cancelled")
    except AerialVprError as error:
        tell("error", reason=str(error))
    except Exception as error:
        log.exception("the update failed")
        tell("error", reason=_reason_of(error, limits))
    else:
        tell("done")
    return 0


def _teller(descriptor: int) -> Tell:
    def tell(event: str, **values: object) -> None:
        line = json.dumps({"event": event, **values}, ensure_ascii=False) + "\n"
        with suppress(BrokenPipeError):  # nobody listens any more: `_end_with_parent` sees to it
            os.write(descriptor, line.encode(errors="replace"))  # a file name may hold what is no text

    return tell


def _end_with_parent(descriptor: int, cancel: Callable[[], None]) -> None:
    """Cancel when standard input ends: its other end was closed, by will or by death."""
    while os.read(descriptor, 64):
        pass
    log.warning("nobody waits for this update any more: cancelled")
    cancel()
    # A new node must not find the store locked for long; the store survives an end at any moment.
    time.sleep(ORPHAN_PATIENCE_S)
    os._exit(1)


def _reason_of(error: Exception, limits: UpdateLimits) -> str:
    if isinstance(error, MemoryError) or any(words in str(error) for words in SHORT_OF_MEMORY):
        allowed = f"the allowed {limits.memory_mb} MB (limits.memory_mb)" if limits.memory_mb else "there is"
        return f"learning needs more memory than {allowed}: {error}"
    return f"unexpected {type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.exit(main())
