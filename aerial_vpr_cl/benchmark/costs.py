"""What a run costs (paper, section 5.7), measured so that it does not matter which run came first.

Runs share trunk outputs, so the time of a run alone says who came first. Its own work is timed without the trunk, the
views that it needs are counted, and what the trunk takes for one view is measured by itself: together they are what the
run would take alone.
"""

from __future__ import annotations

import ctypes
import gc
import platform
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch

from aerial_vpr_cl.benchmark.protocol import Course, Trajectory
from aerial_vpr_cl.images import decode_compressed
from aerial_vpr_cl.learning.trunk_outputs import BATCH
from aerial_vpr_cl.memory.buffer import Observation
from aerial_vpr_cl.model.network import Network

TIMED_QUERIES = 30
SAMPLE_EVERY_S = 0.05


class PeakMemory:
    """The largest memory of this process's own while it is entered, files mapped by it not counted.

    What earlier runs have left is given back first. The kernel's own mark (ru_maxrss) never falls: in a process that
    makes many runs it tells of the largest one before.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self.accelerator_bytes: int | None = None
        self._left = threading.Event()
        self._watch = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> PeakMemory:
        gc.collect()
        with suppress(OSError, AttributeError):  # only glibc has it
            ctypes.CDLL(None).malloc_trim(0)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        self._watch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        self._watch.join()
        if torch.cuda.is_available():
            self.accelerator_bytes = torch.cuda.max_memory_allocated()

    def facts(self) -> dict[str, float | None]:
        """In the units of the tables; None where there is nothing to measure."""
        accelerator = None if self.accelerator_bytes is None else self.accelerator_bytes / 2**20
        return {"peak_memory_mb": self.bytes / 1e6 or None, "peak_accelerator_mib": accelerator}

    def _sample(self) -> None:
        while True:
            self.bytes = max(self.bytes, own_memory_bytes())
            if self._left.wait(SAMPLE_EVERY_S):
                return


def own_memory_bytes() -> int:
    """Memory in RAM that belongs to this process alone; 0 where the system does not say."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return 1024 * int(line.split()[1])
    return 0


def adaptation_costs(trajectory: Trajectory, network: Network, course: Course) -> dict[str, Any]:
    """Seconds and views of every mission, and what a view takes."""
    frames = course.sequence[0].train
    return {
        "learn_s": trajectory.learn_s,
        "learn_views": trajectory.learn_views,
        "select_s": trajectory.select_s,
        "select_views": trajectory.select_views,
        "trunk_ms": trunk_ms(network, frames),
        "machine": f"{platform.machine()}, torch {torch.__version__}, {torch.get_num_threads()} threads",
    }


def trunk_ms(network: Network, frames: Sequence[Observation], batches: int = 3) -> float:
    """From an encoded image to the trunk's output, in batches as learning makes them: the median of some."""
    images = [frames[row % len(frames)].image for row in range(BATCH)]
    times = []
    with torch.inference_mode():
        for _ in range(batches + 1):
            started = time.perf_counter()
            network.trunk_features(network.preprocess([decode_compressed(image) for image in images])).cpu()
            times.append(1000 * (time.perf_counter() - started) / len(images))
    return float(np.median(times[1:]))


def query_costs(network: Network, course: Course) -> dict[str, Any]:
    """Latency of single queries, from the encoded image to the scores, over both sets of test frames."""
    found = {}
    for name, missions in (("sequence", course.sequence), ("held_out", course.held_out)):
        frames = [frame for mission in missions for frame in mission.test]
        if frames:
            rows = np.unique(np.linspace(0, len(frames) - 1, TIMED_QUERIES).astype(int))
            with PeakMemory() as memory:
                times = query_times_ms(network, [frames[row].image for row in rows])
            found[name] = {
                "mean_ms": float(np.mean(times)),
                "p50_ms": float(np.percentile(times, 50)),
                "p95_ms": float(np.percentile(times, 95)),
                "per_second": 1000 / float(np.mean(times)),
                "peak_accelerator_mib": memory.facts()["peak_accelerator_mib"],
            }
    return found


def query_times_ms(network: Network, images: Sequence[bytes]) -> list[float]:
    """Milliseconds of each image, one at a time, after one that is not timed."""
    times = []
    with torch.inference_mode():
        for image in [images[0], *images]:
            started = time.perf_counter()
            network.scores(network.preprocess([decode_compressed(image)])).cpu()
            times.append(1000 * (time.perf_counter() - started))
    return times[1:]
