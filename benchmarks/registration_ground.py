"""On which ground and on which map can a view be laid? Seasons, sensors, change; resolution and dates of the map.

    OMP_NUM_THREADS=1 python benchmarks/registration_ground.py world                     the simulated world of the demo
    OMP_NUM_THREADS=1 python benchmarks/registration_ground.py resolution --rasters FOLDER
    OMP_NUM_THREADS=1 python benchmarks/registration_ground.py dates --rasters FOLDER

FOLDER is that of registration.py, whose frames and measures these are: heading 3°, scale 5 % (σ), whole map searched.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.transform import from_origin
from registration import MODALITIES, WRONG_M, Case, Outcome, fly, percent

from aerial_vpr_cl.localization.map_orientation import MapOrientation
from aerial_vpr_cl.localization.orientation_file import make_orientation
from aerial_vpr_cl.satellite.raster import SatelliteMap
from aerial_vpr_cl.simulation.scenario import load_scenario
from aerial_vpr_cl.simulation.world.appearance import Appearance
from aerial_vpr_cl.simulation.world.procedural import procedural_world

DEMO = Path(__file__).parent.parent / "config/scenarios/demo.yaml"
KNOWN = Case("σ 3°, 5 %", 1.0, 3.0, 0.05, (300.0, 400.0))
RESOLUTIONS_M = (2.0, 5.0, 10.0)
DAYS = {
    "visible, the map's season": (Appearance("summer", 15.0), "VIS"),
    "visible, autumn": (Appearance("autumn", 14.0, change=0.1, change_seed=1), "VIS"),
    "visible, winter": (Appearance("winter", 12.0, change=0.1, change_seed=2), "VIS"),
    "visible, snow": (Appearance("snow", 11.0, change=0.1, change_seed=3), "VIS"),
    "infrared, day": (Appearance("spring", 14.0, change=0.1, change_seed=4), "IR"),
    "infrared, night": (Appearance("autumn", 2.0, change=0.1, change_seed=5), "IR"),
    "visible, spring, change 0.2": (Appearance("spring", 9.0, change=0.2, change_seed=6), "VIS"),
    "visible, spring, change 0.4": (Appearance("spring", 9.0, change=0.4, change_seed=6), "VIS"),
}
ON_EVERY_MAP = ("visible, autumn", "infrared, night")
LATER = ("*20170827*.tif", "*20190904*.tif")
"""Dates that are added to the map; views are cut from those that are left."""


def written(path: Path, image: NDArray[np.uint8], west: float, north: float, step_m: float, epsg: int) -> SatelliteMap:
    """A picture of the ground as a raster."""
    height, width, bands = image.shape
    size = {"height": height, "width": width, "count": bands, "dtype": image.dtype}
    place = {"crs": f"EPSG:{epsg}", "transform": from_origin(west, north, step_m, step_m)}
    with rasterio.open(path, "w", driver="GTiff", **size, **place) as file:
        file.write(np.moveaxis(image, 2, 0))
    return SatelliteMap.open(path)


def coarser(image: NDArray[np.uint8], factor: float) -> NDArray[np.uint8]:
    """A picture with pixels this many times as large."""
    height, width = image.shape[:2]
    size = (round(width / factor), round(height / factor))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)


def row(name: str, case: Case, rasters: list[SatelliteMap], channel: MapOrientation, frames: int) -> str:
    """One line of a table."""
    rows = [found for n, raster in enumerate(rasters) for found in fly(case, raster, channel, frames, seed=100 + n)]
    outcome = Outcome(*np.array(rows).T)
    proven = outcome.proof >= 0.99
    wrong = int((proven & (outcome.error_m > WRONG_M)).sum())
    return (
        f"| {name} | {len(rows)} | {percent(outcome.error_m < 25.0)} / {percent(outcome.error_m < 50.0)} | "
        f"{np.median(outcome.error_m):.1f} m | {percent(proven)} %, wrong {wrong} | "
        f"{np.median(outcome.seconds):.2f} |"
    )


def head(what: str) -> list[str]:
    """Of every table here."""
    return [
        f"| {what} | frames | within 25 / 50 m | median error | proof ≥ 0.99, of these wrong > 100 m | s per frame |",
        "|---|--:|--:|--:|--:|--:|",
    ]


def world(frames: int) -> Iterator[str]:
    """Days over the simulated world, on its summer map at 2 m a pixel, and two of them on coarser maps."""
    scenario = load_scenario(DEMO)
    ground = procedural_world(scenario.world)
    west, _, _, north = ground.bounds
    step_m, epsg = scenario.world.resolution_m, scenario.world.epsg
    with tempfile.TemporaryDirectory() as folder:
        image = ground.render(scenario.map)
        days = {
            name: written(Path(folder) / f"{number}.tif", ground.render(*day), west, north, step_m, epsg)
            for number, (name, day) in enumerate(DAYS.items())
        }
        yield from head("map at 2 m a pixel")
        for resolution_m in RESOLUTIONS_M:
            small = coarser(image, resolution_m / step_m)
            map_raster = written(Path(folder) / "map.tif", small, west, north, resolution_m, epsg)
            channel = make_orientation([map_raster])
            for name in DAYS if resolution_m == step_m else ON_EVERY_MAP:
                suffix = "" if resolution_m == step_m else f", map at {resolution_m:g} m a pixel"
                yield row(name + suffix, KNOWN, [days[name]], channel, frames)


def resolution(folder: Path, map_name: str, frames: int) -> Iterator[str]:
    """The real map as it is and with pixels twice as large."""
    path = next(iter(sorted(folder.glob(map_name))))
    satellite = SatelliteMap.open(path, bands=MODALITIES["VIS"])
    case = replace(KNOWN, footprint_m=Case.footprint_m)
    west, _, _, north = satellite.bounds
    step_m = satellite.resolution_m
    shape = tuple(int(side / step_m) for side in reversed(satellite.size_m))
    image = satellite.read_area(west, north, step_m, shape)[..., :3]
    yield from head("map")
    with tempfile.TemporaryDirectory() as temporary:
        small = written(Path(temporary) / "map.tif", coarser(image, 2.0), west, north, 2.0 * step_m, satellite.epsg)
        for raster in (satellite, small):
            channel = make_orientation([raster])
            for modality, bands in MODALITIES.items():
                dates = [SatelliteMap.open(p, bands=bands, epsg=satellite.epsg) for p in others(folder, path)]
                yield row(f"{raster.resolution_m:g} m a pixel, {modality}", case, dates, channel, frames)


def dates(folder: Path, map_name: str, frames: int) -> Iterator[str]:
    """The real map of one date and of three, with small views of all dates that are none of these."""
    path, *later = (next(iter(sorted(folder.glob(name)))) for name in (map_name, *LATER))
    satellite = SatelliteMap.open(path, bands=MODALITIES["VIS"])
    more = [SatelliteMap.open(p, bands=MODALITIES["VIS"], epsg=satellite.epsg) for p in later]
    case = replace(KNOWN, footprint_m=(280.0, 280.0))
    yield from head("map, footprint 280 m")
    for rasters in ([satellite], [satellite, *more]):
        channel = make_orientation(rasters)
        for modality, bands in MODALITIES.items():
            flown = [SatelliteMap.open(p, bands=bands, epsg=satellite.epsg) for p in others(folder, path, *later)]
            yield row(f"{len(rasters)} date{'s' * (len(rasters) > 1)}, {modality}", case, flown, channel, frames)


def others(folder: Path, *left_out: Path) -> list[Path]:
    """Dates that are not of the map."""
    return [path for path in sorted(folder.glob("*.tif")) if path not in left_out]


def main() -> None:
    """Print the table that is asked for, line by line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("world", "resolution", "dates"))
    parser.add_argument("--rasters", type=Path, metavar="FOLDER", help="GeoTIFFs, one per date")
    parser.add_argument("--map", default="*20150926*.tif", help="which of them is the map (default: %(default)s)")
    parser.add_argument("--frames", type=int, default=40, help="frames per raster (default: %(default)s)")
    args = parser.parse_args()
    if args.what != "world" and args.rasters is None:
        parser.error("give --rasters FOLDER")
    tables = {"resolution": resolution, "dates": dates}
    lines = world(args.frames) if args.what == "world" else tables[args.what](args.rasters, args.map, args.frames)
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()
