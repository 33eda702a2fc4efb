"""Two small recorded missions and the figures they give.

    python test/bags/record.py           # measure anew and write figures.json: what changed is seen in review
    python test/bags/record.py --fly     # fly anew, too: only where the format of bags itself has to change

The map and the bags are committed, so that no change of the simulator moves a figure. No network is involved: what is
held here is reading, what the drone knew, views, registration and belief, which are the same on every computer but for
rounding. Tolerances in `test_recorded_missions.py` leave room for that.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import rasterio

from aerial_vpr_cl.evaluation.flight_score import score
from aerial_vpr_cl.evaluation.store_evaluation import follow
from aerial_vpr_cl.knowledge.map_folder import MapFolder, build_map
from aerial_vpr_cl.localization.open_tracker import tracker_over
from aerial_vpr_cl.mission.mission import read_flight, read_mission
from aerial_vpr_cl.satellite.patches import PatchSettings
from aerial_vpr_cl.simulation.scenario import load_scenario
from aerial_vpr_cl.simulation.sorties import simulate_mission
from aerial_vpr_cl.simulation.world.procedural import procedural_world

HERE = Path(__file__).parent
MAP, FIGURES = HERE / "map.tif", HERE / "figures.json"
NAMES = ("visible", "infrared")
SCENARIO = """
world: {seed: 11, width_m: 2400, height_m: 2400, resolution_m: 4, epsg: 32632, west: 690000, south: 5330000}
map: {season: summer, hour: 10.5}
mission_defaults:
  camera: {width_px: 160, height_px: 120, hfov_deg: 62, jpeg_quality: 65}
  sensors: {imu_rate_hz: 1.5, height_rate_hz: 1.5, odometry_rate_hz: 1.5}
  gnss: {rate_hz: 1}
  track: {kind: out_and_back, altitude_m: 420, spacing_m: 60, speed_m_s: 24, area: [0.25, 0.25, 0.75, 0.75]}
missions:
  - {name: visible, frames: 20, modality: VIS, start: "2026-10-18T09:00:00Z",
     appearance: {season: autumn, hour: 10.1, change: 0.05, haze: 0.1}}
  - {name: infrared, frames: 20, modality: IR, start: "2026-06-20T20:00:00Z",
     appearance: {season: summer, hour: 22.0, change: 0.05}, gnss: {rate_hz: 1, outages: 1, outage_s: 12}}
"""


def fly() -> None:
    """Record map and missions."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scenario.yaml"
        file.write_text(SCENARIO)
        scenario = load_scenario(file)
        procedural_world(scenario.world).write_map(Path(folder) / "map.tif", scenario.map)
        with rasterio.open(Path(folder) / "map.tif") as source:
            profile = {**source.profile, "compress": "jpeg", "jpeg_quality": 70, "photometric": "ycbcr", "tiled": True}
            with rasterio.open(MAP, "w", **{**profile, "blockxsize": 256, "blockysize": 256}) as target:
                target.write(source.read())
        for spec in scenario.chosen(NAMES):
            shutil.rmtree(HERE / spec.name, ignore_errors=True)
            simulate_mission(scenario.world_of(spec), spec, HERE / spec.name)


def open_ground(store: Path) -> MapFolder:
    """The committed map as that of a store."""
    return build_map(MAP, store, PatchSettings(cell_side_m=200.0, footprint_m=500.0))


def measure(name: str, folder: MapFolder) -> dict[str, Any]:
    """What a mission gives: read, labelled, and followed by the tracker without a network."""
    learnt, flight = read_mission(HERE / name, folder.grid), read_flight(HERE / name, folder.grid)
    answers = follow(tracker_over(folder), flight)
    judged = score([answers])
    truth = dict(zip(flight.stamps_ns.tolist(), flight.positions))
    apart = [np.hypot(*(frame.position - truth[frame.stamp_ns])) for frame in learnt.frames]
    return {
        "frames": len(flight),
        "modality": flight.modality,
        "learnable": len(learnt),
        "refused": learnt.refused,
        "label_error_m": round(float(np.median(apart)), 1),
        "height_m": round(float(np.median([frame.situation.height_m or 0.0 for frame in flight.frames])), 1),
        "heading_known": sum(frame.situation.heading_known for frame in flight.frames),
        "moved_m": round(sum(float(np.hypot(*f.motion.forward_left_m)) for f in flight.frames if f.motion), 1),
        "first_fix_frame": judged.first_fix_frame,
        "published": judged.published,
        "median_m": round(judged.median_m, 1),
        "wrong_100m": judged.wrong_100m,
    }


if __name__ == "__main__":
    if "--fly" in sys.argv:
        fly()
    with tempfile.TemporaryDirectory() as root:
        ground = open_ground(Path(root) / "store")
        FIGURES.write_text(json.dumps({name: measure(name, ground) for name in NAMES}, indent=1) + "\n")
    print(FIGURES.read_text())
