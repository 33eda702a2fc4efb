"""The verb simulate: fly the missions of a scenario and write their bags."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import cv2
import numpy as np

from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.files import prepare_output, replace_file
from aerial_vpr_cl.progress import ProgressBar
from aerial_vpr_cl.simulation.pictures import frame_strip
from aerial_vpr_cl.simulation.scenario import MissionSpec, Scenario, load_scenario
from aerial_vpr_cl.simulation.sorties import Sortie, simulate_mission
from aerial_vpr_cl.simulation.world.procedural import procedural_world

HELP = """Fly the missions of a scenario and write each as a rosbag2 directory OUT/NAME:
/camera/image/compressed, /fix, /imu, /height, /odometry and /camera/camera_info with the errors that the scenario
sets, and the truth apart on /ground_truth/fix and /ground_truth/odometry."""


STRIP_FRAMES = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    parser.add_argument("scenario", type=Path, help="scenario file (YAML), for instance config/scenarios/demo.yaml")
    parser.add_argument("--out", type=Path, help="folder for the bags; not needed with --world-map alone")
    parser.add_argument("--mission", nargs="+", metavar="NAME", help="fly only these missions (default: all)")
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="X", help="multiply the numbers of frames (default: 1)"
    )
    parser.add_argument("--raw", action="store_true", help="write sensor_msgs/Image instead of JPEG")
    parser.add_argument("--seed", type=int, metavar="N", help="other tracks, errors and noise over the same world")
    parser.add_argument(
        "--raster", type=Path, metavar="PATH", help="GeoTIFF to fly over, or the folder of the scenario's rasters"
    )
    parser.add_argument("--world-map", type=Path, metavar="FILE.tif", help="write the procedural world's satellite map")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="write a strip of frames for each mission")


def run(args: argparse.Namespace) -> None:
    """Write the map if asked for, then fly."""
    scenario = load_scenario(args.scenario, raster=args.raster)
    if args.out is None and args.world_map is None:
        raise SettingsError("nothing to do; give --out DIR for the bags or --world-map FILE.tif for the map")
    if not 0.0 < args.scale <= 100.0:
        raise SettingsError(f"--scale is {args.scale:g}; it must be above 0 and at most 100")
    if args.seed is not None and args.seed < 0:
        raise SettingsError(f"--seed is {args.seed}; it must be at least 0")
    missions = [_adjusted(mission, args) for mission in scenario.chosen(args.mission)]
    if args.world_map is not None:
        prepare_output(args.world_map)
        write_world_map(scenario, args.world_map)
        print(f"{args.world_map}: satellite map of the simulated world")
    if args.out is None:
        args.json.write({"world_map": args.world_map, "missions": []})
        return
    if not missions:
        raise SettingsError(f"{args.scenario}: has no missions; add some under 'missions:'")
    progress, flown = ProgressBar(), []
    for mission in missions:
        path = args.out / mission.name
        sortie = simulate_mission(scenario.world_of(mission), mission, path, raw=args.raw, progress=progress)
        flight = sortie.flight
        print(
            f"{path}: {mission.frames} frames, {mission.modality}, {flight.length_m / 1000.0:.1f} km "
            f"in {flight.duration_s / 60.0:.1f} min"
        )
        flown.append(
            {
                "path": path,
                "frames": mission.frames,
                "modality": mission.modality,
                "length_m": flight.length_m,
                "duration_s": flight.duration_s,
            }
        )
        if args.pictures is not None:
            write_strip(sortie, args.pictures / f"{mission.name}.png")
    args.json.write({"world_map": args.world_map, "missions": flown})


def write_world_map(scenario: Scenario, path: Path) -> None:
    """Write the satellite map that `build-map` takes."""
    if scenario.raster is not None:
        raise SettingsError(f"the scenario flies over {scenario.raster}; give that raster to build-map itself")
    procedural_world(scenario.world).write_map(path, scenario.map)


def write_strip(sortie: Sortie, path: Path) -> None:
    """A strip of frames of one mission as PNG."""
    spec = sortie.spec
    caption = f"{spec.name}  {spec.modality}  {spec.role}  {spec.frames} frames"
    shown = np.linspace(0, spec.frames - 1, min(STRIP_FRAMES, spec.frames)).round().astype(int)
    strip = frame_strip([sortie.frame(int(index)) for index in shown], count=STRIP_FRAMES, caption=caption)
    path.parent.mkdir(parents=True, exist_ok=True)
    _, png = cv2.imencode(".png", cv2.cvtColor(strip, cv2.COLOR_RGB2BGR))
    replace_file(path, np.asarray(png).tobytes())


def _adjusted(mission: MissionSpec, args: argparse.Namespace) -> MissionSpec:
    if args.scale != 1.0:
        mission = mission.scaled(args.scale)
    return mission if args.seed is None else dataclasses.replace(mission, seed=args.seed)
