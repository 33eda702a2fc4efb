"""How well generation 0 places unseen crops of its own date and of other dates, and what a changed look brings.

    python benchmarks/base_training.py DIRECTORY_WITH_DATED_GEOTIFFS [--map-date 2015] [--out benchmarks/results]

Every raster of the directory is cropped at random places, headings and scales (0.8 to 1.25), once in R, G, B and once
in its fourth band (near infrared). The network was trained on the map date's R, G, B alone.
"""

from __future__ import annotations

import argparse
import platform
import re
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.knowledge import load_knowledge
from aerial_vpr_cl.knowledge.map_folder import build_map
from aerial_vpr_cl.learning.augmentation import AUGMENTATIONS
from aerial_vpr_cl.learning.base_training import train_base
from aerial_vpr_cl.learning.base_training_settings import BaseTrainingSettings
from aerial_vpr_cl.learning.calibration import scores_of
from aerial_vpr_cl.learning.satellite_batches import held_out_views
from aerial_vpr_cl.progress import ProgressBar
from aerial_vpr_cl.satellite.patches import PatchSettings
from aerial_vpr_cl.satellite.raster import SatelliteMap

NEAR_M = 300.0
CROPS = 250


def errors_m(store: Path, raster: Path, bands: list[int], crops: int = CROPS) -> NDArray[np.float64]:
    """How far from random crops of a raster the store's network puts them."""
    known = load_knowledge(GenerationStore(store), torch.device("cpu"))
    satellite = SatelliteMap.open(raster, bands=bands, epsg=known.map.grid.epsg)
    other = replace(known.map, opened=satellite, laid=known.map.patches)  # the same cells with other pixels
    views = held_out_views(other, known.network.input_size, crops, seed=77)
    predicted = known.map.grid.centres[scores_of(known.network, views.images).argmax(axis=1)]
    return np.asarray(np.linalg.norm(predicted - views.positions, axis=1))


def share_near(store: Path, raster: Path, bands: list[int]) -> float:
    """Share of random crops of a raster that the store's network places within 300 m."""
    return float((errors_m(store, raster, bands) <= NEAR_M).mean())


def main() -> None:
    """Train with each augmentation and measure every date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rasters", type=Path)
    parser.add_argument("--map-date", default="2015")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    rasters = {_date(path): path for path in sorted(args.rasters.glob("*.tif"))}
    map_date = next(date for date in rasters if date.startswith(args.map_date))
    settings = BaseTrainingSettings(backbone="tf_efficientnet_lite0", good_recall=0.99, max_steps=600)
    shares: dict[str, dict[str, float]] = {date: {} for date in rasters}
    seconds = {}
    with tempfile.TemporaryDirectory() as scratch:
        for variant in AUGMENTATIONS:
            store = Path(scratch) / variant
            cut = PatchSettings(cell_side_m=250.0, footprint_m=560.0, view="as_seen")
            build_map(rasters[map_date], store, cut, bands=[1, 2, 3])
            start = time.monotonic()
            train_base(store, replace(settings, augmentation=variant), ProgressBar())
            seconds[variant] = time.monotonic() - start
            for date, path in rasters.items():
                shares[date][f"VIS {variant}"] = share_near(store, path, [1, 2, 3])
                shares[date][f"NIR {variant}"] = share_near(store, path, [4])
    _write(args.out / "base_training.md", shares, seconds, map_date)


def _date(path: Path) -> str:
    match = re.search(r"(\d{8})", path.stem)
    assert match, f"{path}: no date in its name"
    return match[1]


def _write(path: Path, shares: dict[str, dict[str, float]], seconds: dict[str, float], map_date: str) -> None:
    columns = [f"{band} {variant}" for variant in AUGMENTATIONS for band in ("VIS", "NIR")]
    took = ", ".join(f"{seconds[variant]:.0f} s ({variant})" for variant in AUGMENTATIONS)
    lines = [
        "# Base training: unseen crops located within 300 m",
        "",
        f"`python benchmarks/base_training.py ../shared/data/naip_nd` on {platform.processor() or platform.machine()}, "
        f"{torch.get_num_threads()} threads. EfficientNet-Lite0 at 128 px, cells of 250 m, footprint 560 m, map date "
        f"{map_date}; {CROPS} crops a date and band, any heading, scale 0.8 to 1.25.",
        f"Training took {took}, exemplars included, on a shared machine.",
        "",
        "| date | " + " | ".join(columns) + " |",
        "|---|" + "--:|" * len(columns),
    ]
    lines += [_row(f"**{date}**" if date == map_date else date, values, columns) for date, values in shares.items()]
    others = [values for date, values in shares.items() if date != map_date]
    means = {column: float(np.mean([values[column] for values in others])) for column in columns}
    lines.append(_row("mean of the other dates", means, columns))
    path.write_text("\n".join(lines) + "\n")
    print(path.read_text())


def _row(name: str, values: dict[str, float], columns: list[str]) -> str:
    return f"| {name} | " + " | ".join(f"{100 * values[column]:.1f} %" for column in columns) + " |"


if __name__ == "__main__":
    main()
