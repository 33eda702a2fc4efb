"""Is reading satellite patches ever the bottleneck? Patches per second beside the images per second of a trunk.

    python benchmarks/patch_reading.py RASTER --footprint-m 560

Both are measured in turns in one run, on one core each and in CPU time, so that the
ratio holds on a machine with other work.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import torch

from aerial_vpr_cl.model.backbone import build_backbone
from aerial_vpr_cl.satellite.patches import PatchSettings, PatchTable, lay_patches
from aerial_vpr_cl.satellite.raster import SatelliteMap

BATCH = 64


def patches_per_second(satellite: SatelliteMap, table: PatchTable, size_px: int, rng: np.random.Generator) -> float:
    """One random batch, as training draws it."""
    rows = rng.integers(len(table), size=BATCH)
    start = time.process_time()
    satellite.read_patches(table.centres[rows], table.angles_deg[rows], table.footprint_m, size_px)
    return BATCH / (time.process_time() - start)


def images_per_second(trunk: Callable[[torch.Tensor], torch.Tensor], size_px: int) -> float:
    """One batch through the frozen trunk, without gradients."""
    images = torch.rand(BATCH, 3, size_px, size_px)
    start = time.process_time()
    with torch.inference_mode():
        trunk(images)
    return BATCH / (time.process_time() - start)


def measure(args: argparse.Namespace) -> dict[str, float]:
    """Medians over alternating rounds."""
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    settings = PatchSettings(cell_side_m=args.cell_side_m, footprint_m=args.footprint_m)
    memory = SatelliteMap.open(args.raster)
    disk = SatelliteMap.open(args.raster, memory_budget_mb=0)
    _, table = lay_patches(memory, settings)
    backbone = build_backbone(args.backbone, weights=args.weights, input_size=args.size_px).eval()
    rng = np.random.default_rng(0)
    rounds: dict[str, list[float]] = {"memory": [], "disk": [], "trunk": []}
    for _ in range(args.rounds + 1):
        rounds["memory"].append(patches_per_second(memory, table, args.size_px, rng))
        rounds["disk"].append(patches_per_second(disk, table, args.size_px, rng))
        rounds["trunk"].append(images_per_second(backbone.trunk, args.size_px))
    return {name: statistics.median(values[1:]) for name, values in rounds.items()}  # the first round warms up


def report(args: argparse.Namespace, rates: dict[str, float]) -> str:
    """The result as markdown."""
    rows = [
        ("patches from memory", rates["memory"]),
        ("patches from disk", rates["disk"]),
        (f"trunk of {args.backbone}", rates["trunk"]),
    ]
    lines = [f"| {name} | {rate:.0f} | {rate / rates['trunk']:.1f} |" for name, rate in rows]
    command = f"python benchmarks/patch_reading.py {Path(args.raster).name} " + " ".join(
        f"--{name.replace('_', '-')} {getattr(args, name):g}" for name in ("cell_side_m", "footprint_m", "size_px")
    )
    return "\n".join(
        [
            "# Reading patches beside the trunk",
            "",
            f"    {command}",
            "",
            f"{args.size_px} px patches at random headings, batches of {BATCH}, one core each, CPU time, "
            f"medians of {args.rounds} turns.",
            "",
            "| what | per second | ÷ trunk |",
            "|---|---|---|",
            *lines,
            "",
        ]
    )


def main() -> int:
    """Measure, print, and write results/patch_reading.md with the figures as JSON beside it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("raster", help="a GeoTIFF")
    parser.add_argument("--cell-side-m", type=float, default=250.0)
    parser.add_argument("--footprint-m", type=float, default=560.0)
    parser.add_argument("--size-px", type=int, default=224)
    parser.add_argument("--backbone", default="tf_efficientnet_lite0")
    parser.add_argument("--weights", type=Path, help="weight file of the backbone; the figures do not depend on it")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    rates = measure(args)
    text = report(args, rates)
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "patch_reading.md").write_text(text)
    (results / "patch_reading.json").write_text(json.dumps(rates, indent=1) + "\n")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
