"""What a large camera costs before the network sees it: decoding all of a JPEG, or as much as the view needs.

    OMP_NUM_THREADS=1 python benchmarks/frame_path.py [--results benchmarks/results/frame_path.md]

From a compressed frame to the view that is laid on the map, 120 m above ground with a field of view of 70°, by turns in
one run, in processor time. What differs is what the decoder is told to be enough.
"""

from __future__ import annotations

import argparse
import math
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from aerial_vpr_cl.geo.camera import CameraModel
from aerial_vpr_cl.geo.rotation import from_angles
from aerial_vpr_cl.images import decode_compressed, encode_jpeg
from aerial_vpr_cl.localization.open_tracker import VIEW_PX
from aerial_vpr_cl.localization.view import NORTH_UP, ViewSettings, enough_px, make_view
from aerial_vpr_cl.mission.situation import Situation, camera_mount

SIZES = ((640, 480), (1280, 720), (1920, 1080), (4000, 3000))
HEIGHT_M, FOV_DEG, FOOTPRINT_M = 120.0, 70.0, 300.0


def scene(width: int, height: int) -> bytes:
    """A JPEG with detail at several sizes, as ground has."""
    rng, total = np.random.default_rng(0), np.zeros((height, width, 3), np.float32)
    for cell in (2, 8, 32, 128):
        noise = rng.normal(0.0, 1.0, (math.ceil(height / cell), math.ceil(width / cell), 3)).astype(np.float32)
        total += cv2.resize(noise, (width, height), interpolation=cv2.INTER_LINEAR)
    return encode_jpeg(np.clip(128 + 25 * total, 0, 255).astype(np.uint8))


def processor_ms(work: Callable[[], object]) -> float:
    """Processor time of this thread."""
    start = time.thread_time()
    work()
    return (time.thread_time() - start) * 1e3


def measure(width: int, height: int, rounds: int) -> tuple[list[str], float]:
    """A row of the table, and enough pixels."""
    camera = CameraModel.from_fov(width, height, FOV_DEG)
    known = Situation(camera, camera_mount(), from_angles(40.0, 3.0, -2.0), 3.0, 1.0, HEIGHT_M)
    settings = ViewSettings(NORTH_UP, FOOTPRINT_M, VIEW_PX)
    jpeg, enough = scene(width, height), enough_px(known, settings)
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, told in (("whole", math.inf), ("enough", enough)):
            image = decode_compressed(jpeg, enough_px=told)
            times.setdefault(f"decode {name}", []).append(
                processor_ms(lambda told=told: decode_compressed(jpeg, enough_px=told))  # type: ignore[misc]
            )
            times.setdefault(f"view {name}", []).append(
                processor_ms(lambda image=image: make_view(image, known, settings))  # type: ignore[misc]
            )
    ms = {name: statistics.median(values) for name, values in times.items()}
    whole, small = (ms[f"decode {name}"] + ms[f"view {name}"] for name in ("whole", "enough"))
    smaller = decode_compressed(jpeg, enough_px=enough).shape
    cells = [f"{width} × {height}", f"{smaller[1]} × {smaller[0]}", f"**{small / whole:.2f}**"]
    return [
        *cells,
        *(f"{ms[f'{part} {name}']:.1f}" for name in ("whole", "enough") for part in ("decode", "view")),
    ], enough


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="default: 9")
    parser.add_argument("--results", type=Path, help="write the table to this file")
    args = parser.parse_args()
    cv2.setNumThreads(1)
    rows, enough = [], 0.0
    for width, height in SIZES:
        row, enough = measure(width, height, args.rounds)
        rows.append("| " + " | ".join(row) + " |")
    text = "\n".join(
        [
            "# From a compressed frame to its view",
            "",
            f"`OMP_NUM_THREADS=1 python benchmarks/frame_path.py --rounds {args.rounds}`",
            "",
            f"{HEIGHT_M:g} m above ground, {FOV_DEG:g}°: {enough:.0f} pixels across are enough for a view of "
            f"{VIEW_PX} pixels and {FOOTPRINT_M:g} m. {platform.machine()}, one thread, OpenCV {cv2.__version__}, "
            "processor time in ms, medians.",
            "",
            "| frame | decoded as | enough ÷ whole | decode whole | view of it | decode enough | view of it |",
            "|---|---|--:|--:|--:|--:|--:|",
            *rows,
            "",
        ]
    )
    print(text)
    if args.results:
        args.results.write_text(text)


if __name__ == "__main__":
    main()
