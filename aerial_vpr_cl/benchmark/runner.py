"""Run a benchmark: every run that has no record yet, over processes of this computer or of a Ray cluster."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import multiprocessing
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from aerial_vpr_cl.benchmark.costs import PeakMemory, adaptation_costs, query_costs
from aerial_vpr_cl.benchmark.orders import order
from aerial_vpr_cl.benchmark.protocol import Course, fly_course
from aerial_vpr_cl.benchmark.records import Records, read_records, record_of, write_record
from aerial_vpr_cl.benchmark.settings import Run
from aerial_vpr_cl.benchmark.side_by_side import compare
from aerial_vpr_cl.benchmark.work_folder import WorkFolder
from aerial_vpr_cl.errors import AerialVprError, SettingsError
from aerial_vpr_cl.files import TEMPORARY_PREFIX
from aerial_vpr_cl.learning.trunk_outputs import TrunkOutputs
from aerial_vpr_cl.progress import Progress, silent

REPORT_EVERY_S = 1.0

_opened: dict[str, tuple[Course, TrunkOutputs]] = {}
"""What this process has loaded, by work folder: a worker makes many runs."""


def finished(work: WorkFolder) -> Records:
    """Records of the benchmark's runs. Those of other settings are not taken for them."""
    runs, digest = set(work.benchmark.runs()), work.benchmark.settings.digest()
    records = {run: record for run, record in read_records(work.results).items() if run in runs}
    others = sorted(run.name for run, record in records.items() if record["digest"] != digest)
    if others:
        raise SettingsError(
            f"{work.results}: {len(others)} records are of other settings (missions, map, base or learn) than the "
            f"benchmark file, {others[0]}.json for one; use another folder, or the file that they were made with"
        )
    return records


def waiting(work: WorkFolder) -> list[Run]:
    """Runs without a record, in the order in which they will be made."""
    done = finished(work)
    return [run for run in work.benchmark.runs() if run not in done]


def run_all(work: WorkFolder, *, workers: int = 1, ray: bool = False, progress: Progress = silent) -> None:
    """Make all waiting runs. Interrupted or killed, it goes on with the runs that have no record when called again."""
    runs = waiting(work)
    work = dataclasses.replace(work)  # other processes get it without what is open here
    work.results.mkdir(parents=True, exist_ok=True)
    if not runs:
        return
    if ray:
        _over_ray(work, runs, progress)
    elif workers == 1 or len(runs) == 1:
        for number, run in enumerate(runs):
            execute(work, run, _within(progress, number, len(runs)))
    else:
        _over_processes(work, runs, min(workers, len(runs)), progress)


def execute(work: WorkFolder, run: Run, progress: Progress = silent) -> None:
    """Make one run and write its record."""
    work.use_threads()
    key = str(work.path.resolve())
    if key not in _opened:
        _opened[key] = work.open()
    course, trunk = _opened[key]
    settings = work.benchmark.settings
    started = time.monotonic()
    with PeakMemory() as memory:
        trajectory, network, buffer = fly_course(course, run, order(run.order, course.sequence), trunk, progress)
    record = record_of(trajectory, course, buffer, threshold_m=settings.threshold_m, digest=settings.digest())
    record |= work.further_facts(network, trunk)
    timing: dict[str, Any] = {
        "run_s": time.monotonic() - started,
        "queries": query_costs(network, course),
        **adaptation_costs(trajectory, network, course),
        **memory.facts(),
    }
    if run.method in settings.retrieval_methods and run.order == "forward":
        record["retrieval"], timing["search_ms"] = {}, {}
        for stage, model in (("base", course.base), ("final", network)):
            facts, times = compare(model, course, work.map, trunk, settings.retrieval_patches)
            record["retrieval"][stage], timing["search_ms"][stage] = facts, times
    for leftover in work.results.glob(f"{TEMPORARY_PREFIX}*-{run.name}.json"):
        leftover.unlink(missing_ok=True)  # of a process that was killed while it wrote this record
    write_record(work.results / f"{run.name}.json", {**record, "timing": timing})


def _over_processes(work: WorkFolder, runs: list[Run], workers: int, progress: Progress) -> None:
    """Workers take runs from a queue. They are spawned: a fork of a process with threads may hang."""
    context = multiprocessing.get_context("spawn")
    tasks, reports = context.Queue(), context.Queue()
    for run in [*runs, *[None] * workers]:
        tasks.put(run)
    processes = [context.Process(target=_serve, args=(work, tasks, reports), daemon=True) for _ in range(workers)]
    shares: dict[str, float] = {}
    try:
        for process in processes:
            process.start()
        while sum(shares.values()) < len(runs):
            try:
                name, share, problem = reports.get(timeout=2 * REPORT_EVERY_S)
            except queue.Empty:
                _check_alive(processes, [run.name for run in runs if 0 < shares.get(run.name, 0) < 1])
                continue
            if problem:
                raise AerialVprError(f"run {name}: {problem}")
            shares[name] = share
            done = round(1000 * sum(shares.values()))
            progress("runs", min(done, 1000 * len(runs)), 1000 * len(runs))
    finally:
        for process in processes:
            if process.is_alive():
                process.terminate()
            if process.pid is not None:
                process.join()


def _serve(work: WorkFolder, tasks: Any, reports: Any) -> None:
    """A worker: runs until the queue says None, or until the process that started it is gone."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while (run := tasks.get()) is not None:
        try:
            execute(work, run, _every_second(functools.partial(_put_share, reports, run.name)))
        except AerialVprError as error:
            reports.put((run.name, 0.0, str(error)))
            return
        reports.put((run.name, 1.0, ""))


def _end_with_parent() -> None:
    """Nobody would hear of further runs, and a second benchmark would make them too."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def _put_share(reports: Any, name: str, share: float) -> None:
    reports.put((name, share, ""))


def _check_alive(processes: Sequence[Any], running: list[str]) -> None:
    for process in processes:
        if process.exitcode not in (None, 0):
            raise AerialVprError(
                f"a worker ended with code {process.exitcode} during {' or '.join(running) or 'its start'} (out of "
                "memory?); what is finished is kept: start it again, perhaps with fewer workers"
            )


def _every_second(tell: Callable[[float], None]) -> Progress:
    last = 0.0

    def report(phase: str, done: int, total: int, **figures: float) -> None:
        nonlocal last
        if time.monotonic() - last >= REPORT_EVERY_S:
            last = time.monotonic()
            tell(min(0.999, done / total))

    return report


def _within(progress: Progress, number: int, count: int) -> Progress:
    """Progress of one run as part of all."""

    def report(phase: str, done: int, total: int, **figures: float) -> None:
        progress("runs", 1000 * number + 1000 * done // total, 1000 * count, **figures)

    return report


def _over_ray(work: WorkFolder, runs: list[Run], progress: Progress) -> None:
    """Every run is a task of a Ray cluster, whose computers must share the work folder."""
    try:
        ray = importlib.import_module("ray")
    except ImportError:
        raise SettingsError("Ray is not installed; pip install ray, or use workers of this computer") from None
    ray.init(ignore_reinit_error=True)
    task = ray.remote(num_cpus=work.benchmark.settings.threads)(execute)
    running = [task.remote(work, run) for run in runs]
    while running:
        done, running = ray.wait(running)
        ray.get(done)
        progress("runs", len(runs) - len(running), len(runs))
