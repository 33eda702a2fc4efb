"""A learning step on cached trunk outputs beside the plain loop that passes the trunk anew, in one run.

    python benchmarks/cached_learning.py [--steps 6] [--out benchmarks/results]

Both are the real learning loop with the same plan of batches; only where trunk outputs come from differs. The pass of
the trunk that fills the cache is shown apart: it is paid once a mission, whatever the number of cycles.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import cv2
import numpy as np
import torch

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.learning.adapt_settings import LearnSettings
from aerial_vpr_cl.learning.loop import Memories, learn
from aerial_vpr_cl.learning.methods import method_of
from aerial_vpr_cl.learning.recipes import recipe_of
from aerial_vpr_cl.learning.trunk_outputs import Picture, TrunkOutputs
from aerial_vpr_cl.memory.buffer import Observation
from aerial_vpr_cl.model.network import Network, NetworkSettings
from aerial_vpr_cl.progress import Progress, silent

BACKBONES = ("tf_efficientnet_lite0", "vit_base_patch14_dinov2")


def observations(grid: Grid, count: int) -> list[Observation]:
    """Random frames of one cell of each of the grid's groups in turn."""
    rng = np.random.default_rng(0)
    frames = []
    for number in range(count):
        image = cv2.GaussianBlur(rng.integers(0, 256, (240, 320, 3), np.uint8), (0, 0), 3)
        label = int(grid.classes_of_group(0)[number % len(grid.classes_of_group(0))])
        data = cv2.imencode(".jpg", image)[1].tobytes()
        frames.append(Observation(data, label, grid.centres[label], number, "random", "VIS"))
    return frames


class PlainTrunk(TrunkOutputs):
    """Passes the trunk over every picture each time it is asked for."""

    def prepare(self, pictures: Iterable[Picture], progress: Progress = silent, phase: str = "prepare") -> None:
        """Nothing."""

    def of(self, pictures: Sequence[Picture]) -> torch.Tensor:
        """All of them in one batch."""
        return self._network.trunk_features(self._network.preprocess([picture.render() for picture in pictures]))


def seconds_a_step(name: str, provider: type[TrunkOutputs], steps: int) -> tuple[float, float, int]:
    """Median seconds of processor time of a step, seconds of filling the cache, and views in it."""
    cells = np.stack(np.meshgrid(np.arange(8), np.arange(8)), axis=-1).reshape(-1, 2)
    grid = Grid.over_points((cells + 0.5) * 200.0, epsg=32650, cell_side_m=200.0, modulus=2)
    network = Network.build(NetworkSettings(backbone=name), grid, weights="random")
    frames = observations(grid, 40)
    # 20 + 20 of the current mission and the replay buffer: 40 samples a step, as in the paper.
    settings = LearnSettings(cycles=steps // 2, views=1, batch_exemplar=0, batch_replay=20)
    moments: list[float] = []
    filled: list[tuple[float, int]] = [(time.process_time(), 0)]

    def note(phase: str, done: int, total: int, **figures: float) -> None:
        if phase == "prepare":
            filled.append((time.process_time(), done))
        else:
            moments.append(time.process_time())

    start = time.process_time()
    recipe = recipe_of(name)
    memories = Memories(None, None, tuple(frames))
    with provider.private(network, capacity_bytes=settings.cache_mb << 20) as trunk:
        learn(network, frames, memories, method_of("er"), recipe, settings, trunk, note)
    fill_s, views = filled[-1][0] - start if len(filled) > 1 else 0.0, filled[-1][1]
    return float(np.median(np.diff(moments))), fill_s, views


def main() -> None:
    """Measure both loops for both backbones and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    lines = [
        "# A learning step with cached trunk outputs beside the plain loop",
        "",
        f"`python benchmarks/cached_learning.py --steps {args.steps}`, {platform.machine()}, {torch.get_num_threads()} "
        "threads, random weights, batches of 40, processor time, median of the steps of one run each, in turn.",
        "",
        "| backbone | plain (s) | cached (s) | cached ÷ plain | filling the cache, once (s) | views |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name in BACKBONES:
        plain, _, _ = seconds_a_step(name, PlainTrunk, args.steps)
        cached, fill_s, views = seconds_a_step(name, TrunkOutputs, args.steps)
        lines.append(f"| {name} | {plain:.3f} | {cached:.3f} | **{cached / plain:.2f}** | {fill_s:.1f} | {views} |")
        print(lines[-1], flush=True)
    (args.out / "cached_learning.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
