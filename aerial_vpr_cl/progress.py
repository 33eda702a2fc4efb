"""Progress of long work: one callable type, shown as a bar on a terminal and as `~/progress` in ROS."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from tqdm import tqdm

Item = TypeVar("Item")


class Progress(Protocol):
    """Told after every step. It may raise `Cancelled` to stop the work at that point."""

    def __call__(self, phase: str, done: int, total: int, **figures: float) -> None: ...


def silent(phase: str, done: int, total: int, **figures: float) -> None:
    """Report nothing: the default of library calls."""


class ProgressBar:
    """One bar per phase on standard error, with time left and the latest figures (loss, recall, ...)."""

    def __init__(self) -> None:
        self._phase = ""
        self._bar: tqdm | None = None

    def __call__(self, phase: str, done: int, total: int, **figures: float) -> None:
        if phase != self._phase or self._bar is None:
            self.close()
            self._phase = phase
            # Without a terminal (logs, CI) a line every ten seconds is enough.
            interval_s = 0.1 if sys.stderr.isatty() else 10.0
            self._bar = tqdm(
                total=total,
                desc=phase,
                initial=max(done - 1, 0),
                dynamic_ncols=True,
                mininterval=interval_s,
                file=sys.stderr,
            )
        self._bar.total = total
        if figures:
            self._bar.set_postfix({name: f"{value:.3g}" for name, value in figures.items()}, refresh=False)
        self._bar.update(done - self._bar.n)
        if done >= total:
            self.close()

    def close(self) -> None:
        """Finish the bar that is showing, if any."""
        if self._bar is not None:
            self._bar.close()
        self._bar = None
        self._phase = ""


def track(items: Sequence[Item], progress: Progress, phase: str) -> Iterator[Item]:
    """Iterate over items and report each one that is done."""
    for done, item in enumerate(items, start=1):
        yield item
        progress(phase, done, len(items))
