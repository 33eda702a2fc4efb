"""How well does laying a view on the map alone tell where it belongs, and does the proof tell when it does not?

    OMP_NUM_THREADS=1 python benchmarks/registration.py --rasters FOLDER

FOLDER holds several dates of one place as GeoTIFFs with red, green, blue, near infrared (config/scenarios/naip_nd.yaml
says which); one is the map, views are cut from the others at random places, north up but for the stated errors.
The whole map is searched; no network, no track. Nothing was fitted on the other dates.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import platform
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.localization.map_orientation import MapOrientation
from aerial_vpr_cl.localization.orientation_file import make_orientation
from aerial_vpr_cl.localization.perspective import tilt
from aerial_vpr_cl.localization.registration import RegistrationSettings, register
from aerial_vpr_cl.localization.view import View
from aerial_vpr_cl.satellite.raster import SatelliteMap

MODALITIES = {"VIS": (1, 2, 3), "NIR": (4,)}
VIEW_PX = 224
NEAR_M, WRONG_M = 50.0, 100.0
PROOFS = (0.5, 0.9, 0.99, 0.999)
HEIGHT = 0.83
"""Height of the camera in footprints: a field of view of 62°."""
WIDER = 1.6
"""How much more is read around a view of a camera that leans."""


@dataclass(frozen=True)
class Case:
    """What is known of heading and scale, and what else is done to the frames."""

    name: str
    frames: float  # relative to the number asked for
    heading_sigma_deg: float = 0.0
    scale_sigma: float = 0.0
    footprint_m: tuple[float, float] = (440.0, 560.0)
    negative: str = ""  # mirrored, or off the map: the truth is not in what is searched
    tilt_sigma_deg: float = 0.0
    read_tilt: bool = True


CASES = (
    Case("heading and scale exact", 1.0),
    Case("σ 3°, 5 %", 1.0, 3.0, 0.05),
    Case("σ 10°, 10 %", 0.2, 10.0, 0.1),
    Case("heading unknown, σ 5 %", 0.06, 180.0, 0.05),
    Case("σ 3°, 5 %, footprint 200 m", 0.2, 3.0, 0.05, (200.0, 200.0)),
    Case("σ 3°, 5 %, footprint 280 m", 0.2, 3.0, 0.05, (280.0, 280.0)),
    Case("σ 3°, 5 %, footprint 360 m", 0.2, 3.0, 0.05, (360.0, 360.0)),
    Case("σ 3°, 5 %, tilt 3°, as stated", 0.2, 3.0, 0.05, tilt_sigma_deg=3.0, read_tilt=False),
    Case("σ 3°, 5 %, tilt 3°, read off the view", 0.2, 3.0, 0.05, tilt_sigma_deg=3.0),
    Case("mirrored, σ 3°, 5 %", 0.35, 3.0, 0.05, negative="mirrored"),
    Case("truth not in what is searched, σ 3°, 5 %", 0.35, 3.0, 0.05, negative="off map"),
)


@dataclass(frozen=True, eq=False)
class Sample:
    """A view cut from a raster, and what is true of it."""

    view: View
    position: NDArray[np.float64]
    turn_deg: float
    scale: float


@dataclass(frozen=True, eq=False)
class Outcome:
    """All frames of a case and modality."""

    error_m: NDArray[np.float64]
    proof: NDArray[np.float64]
    sigmas: NDArray[np.float64]  # error in standard deviations of the stated covariance
    seconds: NDArray[np.float64]  # of processor time
    turn_deg: NDArray[np.float64]  # error of the heading
    scale: NDArray[np.float64]  # relative error of the scale


def draw(case: Case, raster: SatelliteMap, rng: np.random.Generator) -> Sample:
    """A view of a random place, its heading, scale and tilt off by what the case has."""
    footprint_m = rng.uniform(*case.footprint_m)
    margin = 0.5 * footprint_m
    west, south, east, north = raster.bounds
    position = rng.uniform([west + margin, south + margin], [east - margin, north - margin])
    if case.negative == "off map":
        position[0] = rng.uniform((west + east) / 2.0 + footprint_m, east - margin)
    turn = rng.uniform(-180.0, 180.0) if case.heading_sigma_deg >= 180.0 else rng.normal(0.0, case.heading_sigma_deg)
    scale = float(np.exp(rng.normal(0.0, case.scale_sigma)))
    height_m, sigma = HEIGHT * footprint_m, math.radians(case.tilt_sigma_deg)
    lean = rng.normal(0.0, sigma, 2) if sigma else np.zeros(2)
    if sigma:
        size = round(WIDER * VIEW_PX)
        wide = raster.read_patches(position[None], turn, footprint_m * scale * size / VIEW_PX, size)[0][0]
        image = leaning(wide, footprint_m / VIEW_PX, height_m, lean)
    else:
        image = raster.read_patches(position[None], turn, footprint_m * scale, VIEW_PX)[0][0]
    if case.negative == "mirrored":
        image = np.ascontiguousarray(image[:, ::-1])
    seen = np.ones((VIEW_PX, VIEW_PX), np.bool_)
    sigmas = (height_m * sigma, case.heading_sigma_deg, case.scale_sigma)
    view = View(image, seen, footprint_m / VIEW_PX, np.zeros(2), *sigmas, height_m=height_m)
    return Sample(view, position, turn, scale)


def leaning(
    wide: NDArray[np.uint8], metres_per_px: float, height_m: float, lean: NDArray[np.float64]
) -> NDArray[np.uint8]:
    """The middle of a wide picture as a camera sees it that leans (2,) radians further east and north than it says."""
    steps = (np.arange(VIEW_PX) - (VIEW_PX - 1) / 2.0) * metres_per_px
    supposed = np.stack(np.meshgrid(steps, -steps), axis=-1).reshape(-1, 2)
    places = tilt(supposed, height_m, lean) * [1.0, -1.0] / metres_per_px + (len(wide) - 1) / 2.0
    columns, rows = places.astype(np.float32).reshape(VIEW_PX, VIEW_PX, 2).transpose(2, 0, 1)
    return np.asarray(cv2.remap(wide, columns, rows, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT), np.uint8)


def fly(case: Case, raster: SatelliteMap, channel: MapOrientation, frames: int, seed: int) -> list[list[float]]:
    """One row per frame: error, proof, error in sigmas, seconds, error of heading and of scale."""
    rng = np.random.default_rng(seed)
    west, south, east, north = raster.bounds
    where = [(west, south, (west + east) / 2.0, north)] if case.negative == "off map" else None
    settings = RegistrationSettings(read_tilt=case.read_tilt)
    rows = []
    for _ in range(frames):
        sample = draw(case, raster, rng)
        start = time.process_time()
        peak = register(sample.view, channel, where, settings).peak
        seconds = time.process_time() - start
        assert peak is not None  # every frame lies on the map
        error = peak.position - sample.position
        sigmas = float(np.sqrt(error @ np.linalg.solve(peak.covariance, error)))
        turn_error = (peak.heading_correction_deg - sample.turn_deg + 180.0) % 360.0 - 180.0
        scale_error = peak.scale_correction / sample.scale - 1.0
        rows.append([float(np.hypot(*error)), peak.proof, sigmas, seconds, turn_error, scale_error])
    return rows


def measure(
    case: Case, rasters: dict[str, list[SatelliteMap]], channel: MapOrientation, frames: int
) -> dict[str, Outcome]:
    """Outcomes of a case over all dates, by modality."""
    count = max(2, round(frames * case.frames))
    outcomes = {}
    for modality, dates in rasters.items():
        rows = [row for n, raster in enumerate(dates) for row in fly(case, raster, channel, count, seed=n)]
        outcomes[modality] = Outcome(*np.array(rows).T)
    return outcomes


def percent(values: Iterable[bool] | NDArray[np.bool_]) -> str:
    """Share in percent."""
    return f"{100.0 * np.mean(np.asarray(values)):.1f}"


def rms(values: NDArray[np.float64]) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(values**2)))


def places_table(results: dict[Case, dict[str, Outcome]]) -> list[str]:
    """Where the frames were put, case by case."""
    lines = [
        f"| what is known | frames each | within 25 m, {' / '.join(next(iter(results.values())))} | within 50 m | "
        "within 300 m | median error (m) | error of heading and scale (rms) | s per frame, median |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for case, outcomes in results.items():
        if case.negative:
            continue
        both = list(outcomes.values())
        near = [outcome.error_m < NEAR_M for outcome in both]
        turns = " / ".join(f"{rms(o.turn_deg[n]):.1f}°, {100 * rms(o.scale[n]):.1f} %" for o, n in zip(both, near))
        lines.append(
            f"| {case.name} | {len(both[0].error_m)} | {' / '.join(percent(o.error_m < 25.0) for o in both)} | "
            f"{' / '.join(percent(n) for n in near)} | "
            f"{' / '.join(percent(o.error_m < 300.0) for o in both)} | "
            f"{' / '.join(f'{np.median(o.error_m):.1f}' for o in both)} | {turns} | "
            f"{np.median(np.concatenate([o.seconds for o in both])):.2f} |"
        )
    return lines


def proof_table(results: dict[Case, dict[str, Outcome]]) -> list[str]:
    """What passes at which proof."""
    lines = [
        f"| frames | {' | '.join(f'proof ≥ {proof:g}' for proof in PROOFS)} |",
        "|---|" + "--:|" * len(PROOFS),
    ]
    for case, outcomes in results.items():
        proof = np.concatenate([outcome.proof for outcome in outcomes.values()])
        error = np.concatenate([outcome.error_m for outcome in outcomes.values()])
        cells = []
        for least in PROOFS:
            passed = proof >= least
            if case.negative:
                cells.append(f"{passed.sum()} of {len(passed)}")
            else:
                cells.append(f"{percent(passed)} %, wrong {(passed & (error > WRONG_M)).sum()} of {passed.sum()}")
        lines.append(f"| {case.name} | {' | '.join(cells)} |")
    return lines


def calibration_table(results: dict[Case, dict[str, Outcome]]) -> list[str]:
    """Stated proof beside the share that is right, over all frames that lie in what is searched."""
    proof, error, sigmas = (
        np.concatenate([getattr(o, name) for c, by in results.items() if not c.negative for o in by.values()])
        for name in ("proof", "error_m", "sigmas")
    )
    lines = ["| proof | frames | mean proof | within 50 m |", "|---|--:|--:|--:|"]
    edges = (0.0, 0.1, 0.5, 0.9, 0.99, 1.01)
    for low, high in itertools.pairwise(edges):
        inside = (proof >= low) & (proof < high)
        if inside.any():
            lines.append(
                f"| {low:g} to {min(high, 1.0):g} | {inside.sum()} | {100 * proof[inside].mean():.1f} % | "
                f"{percent(error[inside] < NEAR_M)} % |"
            )
    proven = proof >= 0.99
    held = [f"{percent(sigmas[proven] <= np.sqrt(-2.0 * np.log(1.0 - p)))} %" for p in (0.5, 0.9, 0.95)]
    lines += ["", f"The stated 50 / 90 / 95 % ellipses of proven answers hold the truth in {' / '.join(held)}."]
    return lines


def roc_table(results: dict[Case, dict[str, Outcome]]) -> list[str]:
    """How well the proof parts answers that are right from frames that belong nowhere in what is searched."""

    def proofs(cases: Iterable[Case], near: bool) -> NDArray[np.float64]:
        outcomes = [outcome for case in cases for outcome in results[case].values()]
        return np.concatenate([o.proof[o.error_m < NEAR_M] if near else o.proof for o in outcomes])

    positive = [case for case in results if case.name == "σ 3°, 5 %"]
    if not positive:
        return []
    right = proofs(positive, near=True)
    lines = [
        "| negatives | area under the curve | right answers that pass where 5 / 1 / 0 % of these do |",
        "|---|--:|--:|",
    ]
    for case in (case for case in results if case.negative):
        wrong = proofs([case], near=False)
        area = (right[:, None] > wrong).mean() + 0.5 * (right[:, None] == wrong).mean()
        passed = " / ".join(percent(right > np.quantile(wrong, 1.0 - share)) for share in (0.05, 0.01, 0.0))
        lines.append(f"| {case.name} ({len(wrong)} against {len(right)}) | {area:.4f} | {passed} |")
    return lines


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rasters", type=Path, required=True, metavar="FOLDER", help="GeoTIFFs, one per date")
    parser.add_argument("--map", default="*20150926*.tif", help="which of them is the map (default: %(default)s)")
    parser.add_argument("--frames", type=int, default=34, help="frames per date and modality (default: %(default)s)")
    parser.add_argument("--only", nargs="+", default=[case.name for case in CASES], metavar="CASE", help="only these")
    args = parser.parse_args()
    map_path = next(iter(sorted(args.rasters.glob(args.map))))
    others = [path for path in sorted(args.rasters.glob("*.tif")) if path != map_path]
    satellite = SatelliteMap.open(map_path, bands=MODALITIES["VIS"])
    start = time.process_time()
    channel = make_orientation([satellite])
    made_s = time.process_time() - start
    rasters = {
        name: [SatelliteMap.open(path, bands=bands, epsg=satellite.epsg) for path in others]
        for name, bands in MODALITIES.items()
    }
    results: dict[Case, dict[str, Outcome]] = {}
    for case in (case for case in CASES if case.name in args.only):
        results[case] = measure(case, rasters, channel, args.frames)
        print(f"{case.name}: done", flush=True)
    width_m, height_m = satellite.size_m
    text = "\n".join(
        [
            "# Registration alone, on the whole map",
            "",
            f"    OMP_NUM_THREADS=1 python benchmarks/registration.py --rasters FOLDER --frames {args.frames}",
            "",
            f"Map: one date, {width_m / 1000:.2f} × {height_m / 1000:.2f} km at {satellite.resolution_m:g} m a pixel. "
            f"Views: random places of {len(others)} other dates, footprint 440–560 m unless said otherwise, in visible "
            "light and near infrared. Every frame is searched on the whole map, without network, track or training; "
            "what a match is worth was fitted on the map's own patches. The channel and that fit took "
            f"{made_s:.1f} s. {platform.machine()}, {os.cpu_count()} cores, one thread; seconds are processor time. "
            "Both modalities share their places; the slower cases have fewer frames.",
            "",
            *places_table(results),
            "",
            "## Proof",
            "",
            "Share of the frames that is proven, and how many of the proven ones are wrong by more than 100 m. In the "
            "last rows nothing should pass: frames mirrored left to right, and frames of the eastern half searched in "
            "the western one.",
            "",
            *proof_table(results),
            "",
            *roc_table(results),
            "",
            *calibration_table(results),
        ]
    )
    print(text)


if __name__ == "__main__":
    main()
