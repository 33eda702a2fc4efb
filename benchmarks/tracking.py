"""Flights over real dates followed from a cold start: how soon, how near, how honest, and what each sense is worth.

    python benchmarks/tracking.py FOLDER                        the eight held-out missions, all senses
    python benchmarks/tracking.py FOLDER --cases all no_heading no_height no_odometry kidnapped off_map frozen
    python benchmarks/tracking.py FOLDER --role sequence        the ten missions on which constants may be chosen

FOLDER holds the rasters of config/scenarios/naip_nd.yaml. Nothing is learnt: registration alone, unless --store names a
store over the same map whose network proposes. Instruments err as the scenario's defaults have it: heading 3° and up to
5° of bias, tilt 3°, height 5 %, odometry 5 %.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from aerial_vpr_cl.evaluation.flight_score import FlightAnswers, score
from aerial_vpr_cl.evaluation.store_evaluation import follow
from aerial_vpr_cl.images import encode_jpeg
from aerial_vpr_cl.localization.localizer import Localizer
from aerial_vpr_cl.localization.open_tracker import VIEW_PX, proposing
from aerial_vpr_cl.localization.orientation_file import make_orientation
from aerial_vpr_cl.localization.registration import register
from aerial_vpr_cl.localization.tracker import Tracker
from aerial_vpr_cl.localization.tracker_settings import TrackerSettings
from aerial_vpr_cl.localization.view import ViewSettings
from aerial_vpr_cl.mission.frames import Frame
from aerial_vpr_cl.mission.mission import Flight
from aerial_vpr_cl.mission.sensors import FlightSensors
from aerial_vpr_cl.satellite.patches import PatchSettings, lay_patches
from aerial_vpr_cl.satellite.raster import SatelliteMap
from aerial_vpr_cl.simulation.scenario import MissionSpec, Scenario, load_scenario
from aerial_vpr_cl.simulation.sorties import plan

MAP_DATE = "m_4709963_se_14_1_20150926.tif"
MAP = PatchSettings(cell_side_m=250.0, footprint_m=560.0)
SENSOR_DELAY_NS = 150_000_000
"""Readings up to so long after an image are heard before it is answered."""


def fly(scenario: Scenario, spec: MissionSpec) -> Flight:
    """A mission as a bag would hold it, in memory."""
    sortie = plan(scenario.world_of(spec), spec)
    sensors, waiting, frames = FlightSensors(north_deg=sortie.north_deg), list(reversed(sortie.readings)), []
    for index, (stamp, position) in enumerate(zip(sortie.flight.stamps_ns.tolist(), sortie.positions())):
        while waiting and waiting[-1].stamp_ns <= stamp + SENSOR_DELAY_NS:
            sensors.add(waiting.pop())
        image = sortie.frame(index)
        situation, motion = sensors.at(stamp, (image.shape[1], image.shape[0]))
        frames.append(Frame(stamp, position, encode_jpeg(image, spec.camera.jpeg_quality), situation, motion))
    return Flight(Path(spec.name), spec.name, spec.modality, tuple(frames), positions_from="truth")


Change = Callable[[Flight], Flight]


def _each(change: Callable[[Frame], Frame]) -> Change:
    return lambda flight: replace(flight, frames=tuple(change(frame) for frame in flight.frames))


def _without_heading(frame: Frame) -> Frame:
    return replace(frame, situation=replace(frame.situation, heading_sigma_deg=180.0))


def _without_height(frame: Frame) -> Frame:
    return replace(frame, situation=replace(frame.situation, height_m=None))


def _without_odometry(frame: Frame) -> Frame:
    return replace(frame, motion=None)


def _mirrored(frame: Frame) -> Frame:
    """Ground that is on no map, with everything else as it was."""
    return replace(frame, image=encode_jpeg(np.ascontiguousarray(frame.decode()[:, ::-1]), 90))


def _kidnapped(flight: Flight) -> Flight:
    """After a quarter of the flight the drone is carried to the farthest place of its route; only the camera tells."""
    quarter = len(flight.frames) // 4
    away = np.hypot(*(flight.positions[quarter:] - flight.positions[quarter]).T)
    rest = flight.frames[quarter + int(np.argmax(away[: len(away) // 2 + 1])) :]
    gap_ns = rest[0].stamp_ns - flight.frames[quarter].stamp_ns
    later = tuple(replace(frame, stamp_ns=frame.stamp_ns - gap_ns) for frame in rest)
    return replace(flight, frames=flight.frames[:quarter] + later)


def _frozen(flight: Flight) -> Flight:
    """The camera stops halfway."""
    half = len(flight.frames) // 2
    stopped = tuple(replace(frame, image=flight.frames[half].image) for frame in flight.frames[half:])
    return replace(flight, frames=flight.frames[:half] + stopped)


CASES: dict[str, tuple[str, Change, dict[str, object]]] = {
    "all": ("all senses", lambda flight: flight, {}),
    "no_heading": ("no heading", _each(_without_heading), {}),
    "no_height": ("no height", _each(_without_height), {}),
    "no_odometry": ("no odometry", _each(_without_odometry), {}),
    "none": (
        "camera alone",
        _each(lambda frame: _without_odometry(_without_height(_without_heading(frame)))),
        {},
    ),
    "no_belief": ("every frame alone", lambda flight: flight, {"use_belief": False}),
    "no_registration": ("no registration", lambda flight: flight, {"use_registration": False}),
    "no_network": ("no network", lambda flight: flight, {"use_network": False}),
    "kidnapped": ("kidnapped in mid-flight", _kidnapped, {}),
    "off_map": ("off the map (mirrored ground)", _each(_mirrored), {}),
    "frozen": ("camera frozen from halfway on", _frozen, {}),
}


def table(rows: dict[str, list[FlightAnswers]]) -> str:
    """Markdown, one row per case."""
    lines = [
        "| case | flights, frames | first fix: median (p90) | with a position after it "
        "| of these within 25 / 50 / 100 m | wrong > 100 m | median | 50 / 90 / 95 % regions hold | NEES |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, flights in rows.items():
        found = score(flights)
        firsts = [int(np.argmax(f.published)) + 1 if f.published.any() else len(f.truth) + 1 for f in flights]
        near = " / ".join(f"{100 * found.published_recall[metres]:.1f}" for metres in ("25", "50", "100"))
        held = " / ".join(f"{100 * found.coverage[share]:.0f}" for share in ("50", "90", "95"))
        wrong = sum(int((flight.errors_m > 100.0).sum()) for flight in flights)
        lines.append(
            f"| {name} | {len(flights)}, {found.frames} | {np.median(firsts):.0f} ({np.percentile(firsts, 90):.0f}) | "
            f"{100 * found.availability:.1f} % | {near} | {wrong} of {found.published} | {found.median_m:.0f} m | "
            f"{held} | {found.nees:.2f} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Fly and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of the rasters")
    parser.add_argument("--role", default="held_out", choices=("held_out", "sequence"))
    parser.add_argument("--missions", nargs="+", help="only these")
    parser.add_argument("--cases", nargs="+", default=["all"], choices=list(CASES))
    parser.add_argument("--frames", type=int, default=0, help="frames per flight (default: as in the scenario)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--store", type=Path, help="store over the same map whose network proposes")
    args = parser.parse_args(arguments)
    scenario = load_scenario(Path(__file__).parent.parent / "config/scenarios/naip_nd.yaml", raster=args.folder)
    satellite = SatelliteMap.open(args.folder / MAP_DATE, bands=[1, 2, 3])
    grid, _ = lay_patches(satellite, MAP)
    orientation = make_orientation([satellite])
    propose = proposing(Localizer.open(args.store)) if args.store else None
    specs = [spec for spec in scenario.chosen(args.missions) if args.missions or spec.role == args.role]
    rows: dict[str, list[FlightAnswers]] = {}
    for spec in specs:
        for seed in args.seeds:
            flight = fly(scenario, replace(spec, seed=seed, frames=args.frames or spec.frames))
            for case in args.cases:
                title, change, changed = CASES[case]
                tracker = Tracker(
                    grid,
                    ViewSettings(footprint_m=MAP.footprint_m, size_px=VIEW_PX),
                    register=lambda view, where: register(view, orientation, where),
                    propose=propose,
                    settings=TrackerSettings(**changed),  # type: ignore[arg-type]
                )
                begin = time.monotonic()
                answers = follow(tracker, change(flight))
                rows.setdefault(title, []).append(answers)
                found, seconds = score([answers]), time.monotonic() - begin
                print(
                    f"{spec.name} seed {seed} {title}: {found.published} of {found.frames}, first "
                    f"{found.first_fix_frame:.0f}, median {found.median_m:.0f} m, wrong {found.wrong_100m:.3f}, NEES "
                    f"{found.nees:.2f}, silent {found.silences}, {1e3 * seconds / found.frames:.0f} ms a frame",
                    file=sys.stderr,
                    flush=True,
                )
    print(table(rows))


if __name__ == "__main__":
    main()
