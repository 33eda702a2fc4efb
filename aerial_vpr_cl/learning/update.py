"""An update seen from outside: started, watched, cancelled, and its end told in words that agree with the store.

The update has a process of its own (update_process.py): it may crash, be killed or run out of memory, and whoever
started it goes on.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aerial_vpr_cl
from aerial_vpr_cl.errors import StoreError
from aerial_vpr_cl.knowledge.generations import Generation, GenerationStore
from aerial_vpr_cl.knowledge.report import MissionReport
from aerial_vpr_cl.learning.update_process import UpdateLimits

if TYPE_CHECKING:
    from aerial_vpr_cl.learning.adapt_settings import AdaptSettings

log = logging.getLogger(__name__)

CANCEL_PATIENCE_S = 10.0
"""How long an update that was cancelled may take to end; then it is killed, which the store survives at any moment."""

OUT_OF_MEMORY_SIGNALS = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)
"""How a process ends whose libraries (OpenBLAS, OpenCV) do not look whether they were given the memory."""


@dataclass(frozen=True)
class Stage:
    """How far an update has come: in the phase at hand, of the mission at hand."""

    mission: str = ""
    index: int = 0  # from 1 to `count` missions
    count: int = 0
    phase: str = "start"
    done: int = 0
    total: int = 0
    loss: float | None = None
    started_s: float = 0.0  # monotonic time and steps done when the phase was first heard of
    started_done: int = 0

    @property
    def percent(self) -> float:
        """Of the phase."""
        return 100.0 * self.done / self.total if self.total else 0.0

    @property
    def time_left_s(self) -> float | None:
        """Of the phase, at its pace so far; None when there is none yet."""
        advanced = self.done - self.started_done
        return (time.monotonic() - self.started_s) / advanced * (self.total - self.done) if advanced > 0 else None


@dataclass(frozen=True)
class Outcome:
    """The end of an update: whether everything was learnt, what to tell the operator, which generation serves."""

    success: bool
    message: str
    generation: int | None
    cancelled: bool = False  # by the operator, which is no failure


class RunningUpdate:
    """A process that learns all waiting missions of a store. It ends with the process that started it."""

    def __init__(self, store: GenerationStore, settings: AdaptSettings, limits: UpdateLimits) -> None:
        self._store = store
        self._limits = limits
        self._before = max(store.numbers(), default=-1)
        self._cancelled = False
        self._stage = Stage()
        self._reports: list[MissionReport] = []
        self._end: dict[str, Any] | None = None
        self._outcome: Outcome | None = None
        self._finished = threading.Event()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "aerial_vpr_cl.learning.update_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(settings.threads),
            start_new_session=True,  # Ctrl-C is for whoever started it, who then cancels
        )
        request = {"store": str(store.root), "settings": asdict(settings), "limits": asdict(limits)}
        with suppress(BrokenPipeError):  # it died at once; the reader will notice
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        threading.Thread(target=self._follow, name="update", daemon=True).start()

    @property
    def stage(self) -> Stage:
        """How far it is."""
        return self._stage

    @property
    def pid(self) -> int:
        """Of the process that learns."""
        return self._process.pid

    def cancel(self) -> None:
        """Ask the update to stop at its next step, and see that it does; returns at once."""
        if self._cancelled or self._finished.is_set():
            return
        self._cancelled = True
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
        killer = threading.Timer(CANCEL_PATIENCE_S, self._process.kill)
        killer.daemon = True
        killer.start()

    def wait(self, timeout_s: float | None = None) -> Outcome | None:
        """The outcome, when there is one within the time."""
        self._finished.wait(timeout_s)
        return self._outcome

    # In the thread that follows the process

    def _follow(self) -> None:
        try:
            assert self._process.stdout is not None
            for line in self._process.stdout:
                self._hear(line)
            code = self._process.wait()
            self._outcome = self._judge(code)
        except Exception as error:  # whoever waits must get an answer
            log.exception("following the update failed")
            self._process.kill()
            self._process.wait()
            self._outcome = Outcome(False, f"the update was lost sight of: {error!r}", None)
        finally:
            with suppress(BrokenPipeError):
                if self._process.stdin is not None:
                    self._process.stdin.close()
            self._finished.set()

    def _hear(self, line: bytes) -> None:
        try:
            values = json.loads(line)
            event = values.pop("event")
        except (ValueError, KeyError):
            return  # a line cut off by a kill
        if event == "mission":
            self._stage = Stage(values["mission"], values["index"], values["count"], started_s=time.monotonic())
        elif event == "progress":
            self._stage = _advance(self._stage, values)
        elif event == "report":
            self._reports.append(MissionReport.from_dict(values))
        else:
            self._end = {"event": event, **values}

    def _judge(self, code: int) -> Outcome:
        """What happened, by the store: it knows also what the process had no time to tell."""
        serving = self._store.newest()
        reports = list(self._reports)
        known = max((report.generation for report in reports), default=self._before)
        if serving.number > known and serving.facts.report:
            reports.append(self._untold_report(serving, serving.facts.report))
        told = [report.summary() for report in sorted(reports, key=lambda report: not report.committed)]
        event = self._end["event"] if self._end else ""
        if event == "done" and not told:
            told.append("no mission is waiting")
        elif self._end and event == "error":
            told.append(f"the update failed: {self._end['reason']}; what is not learnt is kept")
        elif event == "cancelled" or (self._cancelled and not event):
            told.append("cancelled; what is not learnt is kept")
        elif not event:
            told.append(f"the update process {_how_it_ended(code, self._limits)}; what is not learnt is kept")
        success = event == "done" and all(report.committed for report in reports)
        words = f"{'. '.join(told)}. Generation {serving.number} serves."
        return Outcome(success, words, serving.number, cancelled=self._cancelled and not success)

    def _untold_report(self, generation: Generation, report: MissionReport) -> MissionReport:
        """The report that a generation was committed with, when its learner ended before it could tell."""
        marks = generation.disposable
        if marks:
            with suppress(StoreError):
                self._store.finish_disposal()
        is_kept = not marks or any(mark.path.exists() for mark in marks)
        return replace(report, generation=generation.number, keep_raw=is_kept)


def _advance(stage: Stage, values: Mapping[str, Any]) -> Stage:
    if values["phase"] != stage.phase:
        stage = replace(
            stage, phase=values["phase"], loss=None, started_s=time.monotonic(), started_done=values["done"]
        )
    return replace(stage, done=values["done"], total=values["total"], loss=values["figures"].get("loss", stage.loss))


def _how_it_ended(code: int, limits: UpdateLimits) -> str:
    if code >= 0:
        return f"ended unexpectedly with exit code {code}"
    words = f"was killed by {signal.Signals(-code).name}"
    if limits.memory_mb and -code in OUT_OF_MEMORY_SIGNALS:
        words += f", most likely as it needs more memory than the allowed {limits.memory_mb} MB (limits.memory_mb)"
    return words


def _environment(threads: int) -> dict[str, str]:
    package = str(Path(aerial_vpr_cl.__file__).parents[1])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
    limits = {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)} if threads else {}
    return {**os.environ, "PYTHONPATH": path, **limits}
