"""Progress of long work: one callable type, shown as a bar on a terminal and as `~/progress` in ROS."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from tqdm import tqdm

Item = TypeVar("Item")

LINE_EVERY_S = 10.0
"""How often a log is told how far the work is."""


class Progress(Protocol):
    """Told after every step. It may raise `Cancelled` to stop the work at that point."""

    def __call__(self, phase: str, done: int, total: int, **figures: float) -> None: ...


def silent(phase: str, done: int, total: int, **figures: float) -> None:
    """Report nothing: the default of library calls."""


class ProgressBar:
    """One bar per phase on standard error, with time left and the latest figures (loss, recall, ...).

    Where that is no terminal (logs, CI) a bar would be drawn over itself in one endless line: there it says a line of
    text when a phase begins, every ten seconds, and at its end.
    """

    def __init__(self) -> None:
        self._phase = ""
        self._bar: tqdm | None = None
        self._said_s = 0.0

    def __call__(self, phase: str, done: int, total: int, **figures: float) -> None:
        begins = phase != self._phase
        if begins:
            self.close()
            self._phase = phase
        if sys.stderr.isatty():
            self._draw(done, total, figures)
        elif begins or done >= total or time.monotonic() - self._said_s >= LINE_EVERY_S:
            self._said_s = time.monotonic()
            words = "".join(f", {name} {value:.3g}" for name, value in figures.items())
            print(f"{phase}: {done} of {total}{words}", file=sys.stderr, flush=True)
        if done >= total:
            self.close()

    def close(self) -> None:
        """Finish the bar that is showing, if any."""
        if self._bar is not None:
            self._bar.close()
        self._bar = None
        self._phase = ""

    def _draw(self, done: int, total: int, figures: dict[str, float]) -> None:
        if self._bar is None:
            first = max(done - 1, 0)
            self._bar = tqdm(total=total, desc=self._phase, initial=first, dynamic_ncols=True, file=sys.stderr)
        self._bar.total = total
        if figures:
            self._bar.set_postfix({name: f"{value:.3g}" for name, value in figures.items()}, refresh=False)
        self._bar.update(done - self._bar.n)


def track(items: Sequence[Item], progress: Progress, phase: str) -> Iterator[Item]:
    """Iterate over items and report each one that is done."""
    for done, item in enumerate(items, start=1):
        yield item
        progress(phase, done, len(items))
