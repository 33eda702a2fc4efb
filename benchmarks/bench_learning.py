"""What bench.py measures on the ground: choosing what to remember, and learning."""

from __future__ import annotations

import statistics

import cached_learning
import numpy as np
import selection
from bench_rows import LITE, VIT, Effort, Row, network_of
from numpy.typing import NDArray

from aerial_vpr_cl.learning.adapt_settings import AdaptSettings
from aerial_vpr_cl.learning.loop import Memories
from aerial_vpr_cl.learning.mission_step import learn_mission
from aerial_vpr_cl.learning.trunk_outputs import TrunkOutputs
from aerial_vpr_cl.memory.buffer import ReplayBuffer


def choosing(effort: Effort) -> list[Row]:
    """Selection: DBS-Hybrid beside its dense form, and its growth."""
    ours, dense = selection.compare(selection.LARGEST_POOL, selection.BUDGET, effort.repeats)
    middle, naive = statistics.median(ours), statistics.median(dense)
    growth = [statistics.median(selection.compare(n, 50, max(2, effort.repeats // 5))[0]) for n in (250, 5000)]
    return [
        Row("DBS-Hybrid at n = 247, d = 768", "≤ 5 ms", f"{middle:.1f} ms", "median of the pools", middle <= 5.0),
        Row(
            "selection from n = 250 to 5,000 at B = 50",
            "≤ 20 ×",
            f"{growth[1] / growth[0]:.1f} ×",
            f"{growth[0]:.1f} and {growth[1]:.1f} ms",
            growth[1] <= 20.0 * growth[0],
        ),
        Row("naive selector ÷ ours, n = 247", "", f"{naive / middle:.1f}", f"{naive:.1f} and {middle:.1f} ms"),
    ]


def learning(effort: Effort) -> list[Row]:
    """A learning step with cached trunk beside the plain loop, and trunk passes in an adaptation."""
    rows = []
    for backbone in (LITE, VIT) if effort.vit else (LITE,):
        plain, _, _ = cached_learning.seconds_a_step(backbone, cached_learning.PlainTrunk, effort.steps)
        cached, fill_s, views = cached_learning.seconds_a_step(backbone, TrunkOutputs, effort.steps)
        ratio, limit = cached / plain, 0.40 if backbone == VIT else None
        rows.append(
            Row(
                f"learning step with cached trunk ÷ plain loop, {backbone}",
                f"≤ {limit:.2f}" if limit else "",
                f"{ratio:.2f}",
                f"{cached:.2f} and {plain:.2f} s; {views} views cached in {fill_s:.1f} s",
                None if limit is None else ratio <= limit,
            )
        )
    passed, distinct = _trunk_passes()
    ratio = passed / distinct
    return [
        *rows,
        Row(
            "trunk passes in one adaptation ÷ distinct views",
            "1.0",
            f"{ratio:.2f}",
            f"{passed} for {distinct}; gate, learning, selection and calibration of 40 frames",
            ratio <= 1.001,
        ),
    ]


class _CountingTrunk(TrunkOutputs):
    passed = 0

    def _pass(self, images: list[NDArray[np.uint8]]) -> NDArray[np.float16]:
        self.passed += len(images)
        return super()._pass(images)


def _trunk_passes() -> tuple[int, int]:
    """Pictures that passed the trunk in a mission step with gate and calibration, and different ones among them."""
    network = network_of(64)
    frames = cached_learning.observations(network.grid, 40)
    settings = AdaptSettings(cycles=2)
    with _CountingTrunk.private(network, capacity_bytes=1 << 30) as trunk:
        buffer = ReplayBuffer.empty(network.grid.n_groups)
        memories = Memories(None, None)
        learn_mission(network, buffer, memories, frames, [], settings, trunk, gate=settings, calibration=settings)
        return trunk.passed, len(trunk)
