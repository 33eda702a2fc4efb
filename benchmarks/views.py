"""What the view is worth to the network alone: single frames over real dates, as seen against north up.

    python benchmarks/views.py FOLDER --kind north_up --steps 600 --out RESULTS.json      trains and measures one kind
    python benchmarks/views.py --table RESULTS.json ... > benchmarks/results/views.md     the table of several runs

FOLDER holds the rasters of config/scenarios/naip_nd.yaml. The network is trained on the date of 2015 alone; the frames
are those of the scenario's missions over the nine other dates, four times as far apart, answered one by one.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from base_training import MAP, SCENARIO, errors_m
from tracking import MAP_DATE, flown

from aerial_vpr_cl.evaluation.flight_score import FlightAnswers, score
from aerial_vpr_cl.evaluation.store_evaluation import follow
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.map_folder import build_map
from aerial_vpr_cl.learning.base_training import train_base
from aerial_vpr_cl.learning.base_training_settings import BaseTrainingSettings
from aerial_vpr_cl.localization.localizer import Localizer, LocalizerSettings, SingleFrames
from aerial_vpr_cl.mission.mission import Flight
from aerial_vpr_cl.mission.situation import UNKNOWN_HEADING_DEG
from aerial_vpr_cl.progress import ProgressBar
from aerial_vpr_cl.simulation.scenario import MissionSpec, load_scenario
from aerial_vpr_cl.simulation.sensors import InstrumentSettings

PERFECT = InstrumentSettings(
    heading_noise_deg=0.0, heading_bias_deg=0.0, tilt_noise_deg=0.0, height_noise=0.0, odometry_noise=0.0
)
CASES = {
    "exact": PERFECT,
    "heading σ 3°": replace(PERFECT, heading_noise_deg=3.0),
    "heading σ 10°": replace(PERFECT, heading_noise_deg=10.0),
    "height σ 5 %": replace(PERFECT, height_noise=0.05),
    "height σ 15 %": replace(PERFECT, height_noise=0.15),
    "tilt σ 3°": replace(PERFECT, tilt_noise_deg=3.0),
    "tilt σ 8°": replace(PERFECT, tilt_noise_deg=8.0),
    "heading σ 3° and bias, height σ 5 %, tilt σ 3°": InstrumentSettings(),
    "heading σ 10° and bias, height σ 15 %, tilt σ 8°": InstrumentSettings(
        heading_noise_deg=10.0, height_noise=0.15, tilt_noise_deg=8.0
    ),
    "heading unknown, 24 tried": InstrumentSettings(),
}
FRAMES, CROPS = 30, 120


def without_heading(flight: Flight) -> Flight:
    """The same flight without a compass, and fewer frames: each is looked at 24 times."""
    unknown = UNKNOWN_HEADING_DEG
    frames = [replace(f, situation=replace(f.situation, heading_sigma_deg=unknown)) for f in flight.frames[::3]]
    return replace(flight, frames=tuple(frames))


def train(kind: str, folder: Path, store: Path, steps: int, seed: int) -> int | None:
    """Train a network for one kind of view into a store; the seconds it took, None if it was there."""
    build_map(folder / MAP_DATE, store, replace(MAP, view=kind), bands=[1, 2, 3])
    if GenerationStore.create(store).numbers():
        return None
    settings = BaseTrainingSettings(
        backbone="tf_efficientnet_lite0",
        max_steps=steps,
        good_recall=2.0,
        patience=1000,
        plateau_cycles=3 if kind == "north_up" else 1,  # as config/benchmarks has them
        seed=seed,
    )
    start = time.monotonic()
    train_base(store, settings, ProgressBar())
    return round(time.monotonic() - start)


def measure(kind: str, folder: Path, store: Path | None, steps: int, seed: int) -> dict[str, object]:
    """Train one network and answer all frames of all cases with it."""
    scenario = load_scenario(SCENARIO, raster=folder)
    with tempfile.TemporaryDirectory() as scratch:
        store = store or Path(scratch) / "store"
        seconds = train(kind, folder, store, steps, seed)
        network = SingleFrames(Localizer.open(store), LocalizerSettings(min_confidence=0.0))
        cases = CASES if kind == "north_up" else {"as it comes": InstrumentSettings()}
        figures = {}
        for name, instruments in cases.items():
            flights = [flown(folder, _thinned(spec, instruments))[1] for spec in scenario.missions]
            if "unknown" in name:
                flights = [without_heading(flight) for flight in flights]
            figures[name] = _figures([follow(network, flight) for flight in flights])
        if kind == "north_up":
            figures["no flights: crops at random places, σ 5°, 5 %"] = crops(folder, store)
    return {"kind": kind, "steps": steps, "seed": seed, "training_s": seconds, "cases": figures}


def crops(folder: Path, store: Path) -> dict[str, dict[str, float]]:
    """The same of random places of the nine other dates, cut from their rasters as training cuts them from the map."""
    rasters = [path for path in sorted(folder.glob("*.tif")) if path.name != MAP_DATE]
    found = {}
    for modality, bands in (("VIS", [1, 2, 3]), ("IR", [4])):
        errors = np.concatenate([errors_m(store, raster, bands, CROPS) for raster in rasters])
        near = {str(metres): float((errors <= metres).mean()) for metres in (50, 100, 300)}
        found[modality] = {"frames": len(errors), **near, "median_m": float(np.median(errors))}
    return found


def _thinned(spec: MissionSpec, instruments: InstrumentSettings) -> MissionSpec:
    track = replace(spec.track, spacing_m=4.0 * spec.track.spacing_m)
    return replace(spec, frames=FRAMES, track=track, sensors=instruments)


def _figures(flights: list[FlightAnswers]) -> dict[str, dict[str, float]]:
    found = {}
    for modality in ("VIS", "IR"):
        chosen = [flight for flight in flights if flight.modality == modality]
        total = score(chosen)
        found[modality] = {"frames": total.frames, **total.recall, "median_m": total.median_m}
    return found


def table(results: list[dict]) -> str:
    """Markdown of several runs: the mean over seeds, and their number."""
    lines = [
        "# Single frames of the network alone, as seen against north up",
        "",
        "EfficientNet-Lite0, trained on the map of 2015 alone; frames over the nine other dates; shares of all frames.",
        "Made by `benchmarks/views.py`; VIS / NIR.",
        "",
        "| view | what is known | steps | seeds | within 50 m | within 100 m | within 300 m |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    keys = dict.fromkeys((r["kind"], case, r["steps"]) for r in results for case in r["cases"])
    for kind, case, steps in keys:
        runs = [r["cases"][case] for r in results if (r["kind"], r["steps"]) == (kind, steps) and case in r["cases"]]
        cells = []
        for metres in ("50", "100", "300"):
            shares = [100.0 * float(np.mean([run[band][metres] for run in runs])) for band in ("VIS", "IR")]
            cells.append(" / ".join(f"{share:.1f}" for share in shares) + " %")
        lines.append(f"| {kind} | {case} | {steps} | {len(runs)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure one kind, or print the table of several measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--kind", choices=("as_seen", "north_up"), default="north_up")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", type=Path, help="keep the trained network here, or take the one that is here")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, nargs="+")
    args = parser.parse_args()
    if args.table:
        print(table([json.loads(path.read_text()) for path in args.table]))
        return
    result = measure(args.kind, args.folder, args.store, args.steps, args.seed)
    text = json.dumps({**result, "map": asdict(MAP)}, indent=1)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
