"""The network proposes, geometry disposes: what each is worth, what each costs, and whether a second opinion pays.

    OMP_NUM_THREADS=1 python benchmarks/registration_network.py cells --rasters FOLDER --store STORE
    OMP_NUM_THREADS=1 python benchmarks/registration_network.py cost --rasters FOLDER --store STORE
    OMP_NUM_THREADS=1 python benchmarks/registration_network.py opinion --rasters FOLDER

FOLDER is that of registration.py; STORE holds a network over the date that is the map. Heading 3°, scale 5 % (σ).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from registration import MODALITIES, VIEW_PX, Case, Sample, draw, percent

from aerial_vpr_cl.localization.localizer import Localizer
from aerial_vpr_cl.localization.modes import joined
from aerial_vpr_cl.localization.orientation_file import make_orientation
from aerial_vpr_cl.localization.registration import Peak, RegistrationSettings, register
from aerial_vpr_cl.localization.search import Bounds
from aerial_vpr_cl.satellite.raster import SatelliteMap

TOP = (1, 5, 20)
REACH_CELLS = 1.5
"""Around the centre of a cell, as the tracker has it: the cell and its neighbours."""
TRACK_M = 120.0
"""Half the side of what is searched while tracking: the belief, twice the tilt's error and a margin."""
LEARNT = (1.0, 0.01)
"""Heading and scale (σ) once the track has corrected compass and height."""
NEAR_M, FAR_M = 50.0, 100.0


def dates_of(folder: Path, map_name: str) -> tuple[SatelliteMap, dict[str, list[SatelliteMap]]]:
    """The map, and all other dates by modality."""
    path = next(iter(sorted(folder.glob(map_name))))
    satellite = SatelliteMap.open(path, bands=MODALITIES["VIS"])
    others = [other for other in sorted(folder.glob("*.tif")) if other != path]
    return satellite, {
        modality: [SatelliteMap.open(other, bands=bands, epsg=satellite.epsg) for other in others]
        for modality, bands in MODALITIES.items()
    }


def samples(case: Case, rasters: list[SatelliteMap], frames: int) -> Iterator[Sample]:
    """Frames of every date."""
    for number, raster in enumerate(rasters):
        rng = np.random.default_rng(200 + number)
        for _ in range(frames):
            yield draw(case, raster, rng)


def around(cells: NDArray[np.float64], reach_m: float) -> list[Bounds]:
    """Windows around (n, 2) centres; those that overlap are joined."""
    return joined([(e - reach_m, n - reach_m, e + reach_m, n + reach_m) for e, n in cells.tolist()])


def cells(
    localizer: Localizer, satellite: SatelliteMap, flown: dict[str, list[SatelliteMap]], frames: int
) -> Iterator[str]:
    """The network alone, and registration in its best cells and on the whole map."""
    channel = make_orientation([satellite])
    grid, footprint_m = localizer.grid, localizer.view_settings.footprint_m
    case = Case("", 1.0, 3.0, 0.05, (footprint_m, footprint_m))
    yield "| answer | frames | within 50 m, VIS / NIR | within 300 m | proof ≥ 0.99 | of these wrong > 100 m | ms |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    errors: dict[str, dict[str, list[float]]] = {}
    proofs: dict[str, dict[str, list[float]]] = {}
    seconds: dict[str, list[float]] = {}
    for modality, rasters in flown.items():
        for sample in samples(case, rasters, frames):
            start = time.process_time()
            best = np.argsort(-localizer.cells(sample.view).probabilities)
            asked = time.process_time() - start
            places: dict[str, tuple[NDArray[np.float64], float, float]] = {
                "network alone: centre of its best cell": (grid.centres[best[0]], 0.0, asked)
            }
            for top in (*TOP, 0):
                where = around(grid.centres[best[:top]], REACH_CELLS * grid.cell_side_m) if top else None
                start = time.process_time()
                peak = register(sample.view, channel, where).peak
                assert peak is not None
                name = f"registration in the network's best {top}" if top else "registration on the whole map"
                places[name] = (peak.position, peak.proof, time.process_time() - start)
            for name, (position, proof, took) in places.items():
                error = float(np.hypot(*(position - sample.position)))
                errors.setdefault(name, {}).setdefault(modality, []).append(error)
                proofs.setdefault(name, {}).setdefault(modality, []).append(proof)
                seconds.setdefault(name, []).append(took)
    for name, by in errors.items():
        error, proof = (np.concatenate([*map(np.array, found[name].values())]) for found in (errors, proofs))
        proven = proof >= 0.99
        near, far = (" / ".join(percent(np.array(e) < m) for e in by.values()) for m in (NEAR_M, 300.0))
        yield (
            f"| {name} | {len(error) // len(by)} | {near} | {far} | {percent(proven)} % | "
            f"{(proven & (error > FAR_M)).sum()} of {proven.sum()} | {1e3 * np.median(seconds[name]):.0f} |"
        )


def cost(
    localizer: Localizer, satellite: SatelliteMap, flown: dict[str, list[SatelliteMap]], frames: int
) -> Iterator[str]:
    """Registration ÷ one forward pass, turn by turn in one process, so that a busy machine counts for both."""
    channel = make_orientation([satellite])
    grid, footprint_m = localizer.grid, localizer.view_settings.footprint_m
    first = Case("", 1.0, 3.0, 0.05, (footprint_m, footprint_m), tilt_sigma_deg=3.0)
    later = replace(first, heading_sigma_deg=LEARNT[0], scale_sigma=LEARNT[1])
    ratios: dict[str, list[float]] = {}
    passes = []
    for number, raster in enumerate(flown["VIS"]):
        rng = np.random.default_rng(300 + number)
        for _ in range(frames):
            sample, tracked = draw(first, raster, rng), draw(later, raster, rng)
            exact = replace(sample.view, heading_sigma_deg=0.0)  # one heading is one pass
            forward = seconds_of(lambda view=exact: localizer.cells(view))
            passes.append(forward)
            best = np.argsort(-localizer.cells(exact).probabilities)[:5]
            cells_5 = around(grid.centres[best], REACH_CELLS * grid.cell_side_m)
            track = around(tracked.position[None], TRACK_M)
            for name, view, where, tilt in (
                ("the network's best 5 cells, σ 3°, 5 %", sample.view, cells_5, True),
                ("tracking, σ 3°, 5 %", sample.view, around(sample.position[None], TRACK_M), True),
                ("tracking, compass and height corrected: σ 1°, 1 %", tracked.view, track, True),
                ("the same without reading the tilt", tracked.view, track, False),
            ):
                took = seconds_of(
                    lambda v=view, w=where, t=tilt: register(v, channel, w, RegistrationSettings(read_tilt=t))
                )
                ratios.setdefault(name, []).append(took / forward)
    yield f"One forward pass, with making its input: {1e3 * np.median(passes):.1f} ms (median of {len(passes)})."
    yield ""
    yield "| registration in | ÷ forward pass, median | p90 |"
    yield "|---|--:|--:|"
    for name, found in ratios.items():
        yield f"| {name} | {np.median(found):.2f} | {np.percentile(found, 90):.2f} |"


def seconds_of(work: Callable[[], object]) -> float:
    """Processor time of doing something, the second time."""
    work()
    start = time.process_time()
    work()
    return time.process_time() - start


def opinion(satellite: SatelliteMap, flown: dict[str, list[SatelliteMap]], frames: int) -> Iterator[str]:
    """Do matched features on the best window know of an answer that it is wrong, where the proof does not?"""
    channel = make_orientation([satellite])
    makers = {"SIFT": (cv2.SIFT_create(1000), cv2.NORM_L2), "ORB": (cv2.ORB_create(1500), cv2.NORM_HAMMING)}
    case = Case("", 1.0, 3.0, 0.05, (280.0, 280.0))
    right, proof, seconds = [], [], []
    inliers: dict[str, list[int]] = {name: [] for name in makers}
    for rasters in flown.values():
        for sample in samples(case, rasters, frames):
            peak = register(sample.view, channel).peak
            assert peak is not None
            right.append(float(np.hypot(*(peak.position - sample.position))) < NEAR_M)
            proof.append(peak.proof)
            for name, (maker, norm) in makers.items():
                start = time.process_time()
                inliers[name].append(agreeing(sample, peak, satellite, maker, norm))
                seconds.append(time.process_time() - start)
    is_right, proofs = np.array(right), np.array(proof)
    wrong, took_ms = int((~is_right).sum()), 1e3 * np.median(seconds)
    yield f"{len(right)} frames of 280 m, {wrong} of them put wrongly; an opinion takes {took_ms:.0f} ms."
    yield ""
    yield "| judge | area under the curve, right against wrong | right ones it passes while no wrong one does |"
    yield "|---|--:|--:|"
    judges = {"proof": proofs, **{name: np.array(found, float) for name, found in inliers.items()}}
    for name, values in judges.items():
        yes, no = values[is_right], values[~is_right]
        area = (yes[:, None] > no).mean() + 0.5 * (yes[:, None] == no).mean()
        yield f"| {name} | {area:.3f} | {percent(yes > no.max())} % |"
    doubtful = ~is_right & (proofs >= 0.5)
    yield ""
    yield f"Wrong with a proof of 0.5 or more: {int(doubtful.sum())}."
    for name in makers:
        found = np.array(inliers[name])
        least = int(np.quantile(found[is_right & (proofs >= 0.5)], 0.05))
        caught = int((found[doubtful] < least).sum())
        yield f"{name} at {least} inliers, which loses 5 % of the right ones with such a proof, catches {caught}."


def agreeing(sample: Sample, peak: Peak, satellite: SatelliteMap, maker: cv2.Feature2D, norm: int) -> int:
    """Features of a view that one turn, growth and shift, near those of the answer, lays on the map's; 0: none does."""
    view = sample.view
    size = round(1.3 * VIEW_PX)
    angle, side_m = peak.heading_correction_deg, view.metres_per_px * peak.scale_correction * size
    ground = satellite.read_patches(peak.position[None], angle, side_m, size)[0][0]
    (points, features), (places, others) = (
        maker.detectAndCompute(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), None) for image in (view.image, ground)
    )
    if features is None or others is None or len(places) < 2:
        return 0
    pairs = cv2.BFMatcher(norm).knnMatch(features, others, k=2)
    good = [pair[0] for pair in pairs if len(pair) == 2 and pair[0].distance < 0.85 * pair[1].distance]
    if len(good) < 4:
        return 0
    source = np.array([points[match.queryIdx].pt for match in good], np.float32)
    target = np.array([places[match.trainIdx].pt for match in good], np.float32)
    warp, inside = cv2.estimateAffinePartial2D(source, target, ransacReprojThreshold=4.0)
    if warp is None:
        return 0
    middle = warp @ [(VIEW_PX - 1) / 2.0, (VIEW_PX - 1) / 2.0, 1.0] - (size - 1) / 2.0
    near = np.hypot(*middle) * view.metres_per_px < 30.0 and abs(np.hypot(*warp[:, 0]) - 1.0) < 0.15
    return int(inside.sum()) if near else 0


def main() -> None:
    """Print the table that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("cells", "cost", "opinion"))
    parser.add_argument("--rasters", type=Path, required=True, metavar="FOLDER", help="GeoTIFFs, one per date")
    parser.add_argument("--map", default="*20150926*.tif", help="which of them is the map (default: %(default)s)")
    parser.add_argument("--store", type=Path, help="store over that map")
    parser.add_argument("--frames", type=int, default=6, help="frames per date (default: %(default)s)")
    args = parser.parse_args()
    satellite, flown = dates_of(args.rasters, args.map)
    if args.what == "opinion":
        lines = opinion(satellite, flown, args.frames)
    elif args.store is None:
        parser.error("give --store STORE")
    else:
        localizer = Localizer.open(args.store)
        lines = {"cells": cells, "cost": cost}[args.what](localizer, satellite, flown, args.frames)
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()
