"""What scale.py measures of a map: stages as functions of a country, the folder of its store and its training."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scale_world import TILE_M, Country, Training

from aerial_vpr_cl.benchmark.retrieval import NearestPatchIndex
from aerial_vpr_cl.knowledge.map_folder import build_map, open_map
from aerial_vpr_cl.localization.modes import joined
from aerial_vpr_cl.localization.orientation_file import ORIENTATION_FILE, open_orientation
from aerial_vpr_cl.localization.registration import register
from aerial_vpr_cl.localization.view import View
from aerial_vpr_cl.satellite.patches import PatchSettings

FOOTPRINT_M = 450.0
TOP_CELLS = 20


def world(country: Country, folder: Path, training: Training) -> dict[str, Any]:
    """Draw the country's map."""
    path = raster_of(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    country.write_map(path)
    return {"raster_mb": path.stat().st_size / 1e6}


def map(country: Country, folder: Path, training: Training) -> dict[str, Any]:
    """build-map without its channel."""
    built = build_map(raster_of(folder), folder, PatchSettings(footprint_m=FOOTPRINT_M), link=True)
    return {"classes": built.grid.n_classes, "patches": len(built.patches)}


def channel(country: Country, folder: Path, training: Training) -> dict[str, Any]:
    """The orientation channel of registration, made and kept."""
    path = folder / "map" / ORIENTATION_FILE
    path.unlink(missing_ok=True)
    open_orientation(open_map(folder))
    return {"channel_mb": path.stat().st_size / 1e6}


def retrieval(country: Country, folder: Path, training: Training) -> dict[str, Any]:
    """Exact search over the features of all patches instead of classes; random features take as long as real ones."""
    folder_map, dim = open_map(folder), 1280
    patches = 16 * folder_map.grid.n_classes
    rng = np.random.default_rng(0)
    index = NearestPatchIndex(rng.random((patches, dim), np.float32), np.zeros((patches, 2)))
    one = rng.random((1, dim), np.float32)
    return {"retrieval_ms": median_ms(lambda: index.nearest(one), 7), "retrieval_mb": index.memory_bytes / 1e6}


def search(country: Country, folder: Path, training: Training) -> dict[str, Any]:
    """One view laid on the whole map, on twenty proposed cells, and where a track is."""
    known = open_map(folder, memory_budget_mb=0)  # as in flight
    orientation = open_orientation(known)
    rng = np.random.default_rng(0)
    west, south, _, _ = known.satellite.bounds
    place = np.array([west, south]) + country.tiles * TILE_M * rng.uniform(0.2, 0.8, 2)
    pixels = known.satellite.read_patches(place[None], 2.0, FOOTPRINT_M, 224)[0][0]
    view = View(pixels, np.ones((224, 224), np.bool_), FOOTPRINT_M / 224, np.zeros(2), 10.0, 3.0, 0.05)
    some = known.grid.centres[rng.choice(known.grid.n_classes, TOP_CELLS, replace=False)]
    windows = joined([(e - 300.0, n - 300.0, e + 300.0, n + 300.0) for e, n in some])
    near = [(place[0] - 120.0, place[1] - 120.0, place[0] + 120.0, place[1] + 120.0)]
    register(view, orientation, near)
    figures = {
        "tracking_ms": median_ms(lambda: register(view, orientation, near), 7),
        "proposed_ms": median_ms(lambda: register(view, orientation, windows), 3),
    }
    start = time.process_time()
    peak = register(view, orientation).peak
    assert peak is not None
    error = float(np.hypot(*(peak.position - place)))
    return figures | {"everything_s": time.process_time() - start, "error_m": error, "proof": peak.proof}


def raster_of(folder: Path) -> Path:
    """The country's GeoTIFF, beside its store."""
    return folder.parent / f"{folder.name}.tif"


def median_ms(work: Callable[[], object], times: int = 15) -> float:
    """Processor time of a call, the middle one of several, in milliseconds."""
    taken = []
    for _ in range(times):
        start = time.process_time()
        work()
        taken.append(1e3 * (time.process_time() - start))
    return statistics.median(taken)
