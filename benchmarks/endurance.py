"""A day in the air, accelerated: a drone flies round and round, and nothing that the tracker keeps may grow.

    python benchmarks/endurance.py --hours 24
    python benchmarks/endurance.py --hours 24 --look-every 4        quicker: the other frames are black

One lap over a small simulated world is rendered once; then it is flown again and again through the tracker and the
watch over GNSS, with new errors of the instruments every time. Now and then six frames come from elsewhere on the
route, so that the track is lost and found again. Prints what the process holds, hour by hour.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.commands.simulate import write_world_map
from aerial_vpr_cl.geo.camera import CameraModel
from aerial_vpr_cl.geo.rotation import from_angles
from aerial_vpr_cl.localization.estimate import Estimate
from aerial_vpr_cl.localization.gnss_watch import GnssWatch
from aerial_vpr_cl.localization.open_tracker import VIEW_PX
from aerial_vpr_cl.localization.orientation_file import make_orientation
from aerial_vpr_cl.localization.registration import register
from aerial_vpr_cl.localization.tracker import Tracker
from aerial_vpr_cl.localization.view import ViewSettings
from aerial_vpr_cl.mission.gnss import Fix, GnssGates
from aerial_vpr_cl.mission.situation import Motion, Situation
from aerial_vpr_cl.satellite.patches import PatchSettings, lay_patches
from aerial_vpr_cl.satellite.raster import SatelliteMap
from aerial_vpr_cl.simulation.camera import CameraSettings
from aerial_vpr_cl.simulation.scenario import MissionSpec, Scenario
from aerial_vpr_cl.simulation.sorties import plan
from aerial_vpr_cl.simulation.tracks import TrackSettings
from aerial_vpr_cl.simulation.world.terrain import WorldSettings

FOV_DEG, IMAGE_PX, FOOTPRINT_M, HEIGHT_M = 62.0, 120, 300.0, 280.0
ELSEWHERE_EVERY = 997
HEADING_SIGMA_DEG, TILT_SIGMA_DEG, HEIGHT_SIGMA, ODOMETRY_NOISE = 1.0, 1.0, 0.01, 0.03

SCENARIO = Scenario(world=WorldSettings(seed=1, width_m=1600.0, height_m=1600.0, resolution_m=4.0))
LAP = MissionSpec(
    name="lap",
    frames=90,
    camera=CameraSettings(width_px=IMAGE_PX, height_px=IMAGE_PX, hfov_deg=FOV_DEG),
    track=TrackSettings(kind="out_and_back", altitude_m=HEIGHT_M, spacing_m=30.0, offset_m=30.0),
)


@dataclass(frozen=True, eq=False)
class Moment:
    """A frame of the lap as it truly is."""

    image: NDArray[np.uint8]
    position: NDArray[np.float64]
    heading_deg: float


def lap() -> list[Moment]:
    """The frames of one lap; from the last to the first it is a short step."""
    sortie = plan(SCENARIO.world_of(LAP), LAP)
    headings = sortie.flight.headings_deg_at(sortie.flight.stamps_ns)
    return [Moment(sortie.frame(k), p, float(h)) for k, (p, h) in enumerate(zip(sortie.positions(), headings))]


def situations(moments: Sequence[Moment], seed: int, look_every: int) -> Iterator[tuple[Moment, Situation, Motion]]:
    """Lap after lap, with new errors each time; frames that are not looked at are black."""
    rng, camera = np.random.default_rng(seed), CameraModel.from_fov(IMAGE_PX, IMAGE_PX, FOV_DEG)
    before, count = moments[0], 0
    while True:
        for now in moments:
            count += 1
            shown = moments[(count * 7) % len(moments)].image if count % ELSEWHERE_EVERY < 6 else now.image
            shown = shown if count % look_every == 0 else np.zeros_like(shown)
            heading = np.radians(now.heading_deg)
            axes = np.array([[np.sin(heading), np.cos(heading)], [-np.cos(heading), np.sin(heading)]])
            moved = axes @ (now.position - before.position) * (1.0 + ODOMETRY_NOISE * rng.standard_normal(2))
            turn_deg = (now.heading_deg - before.heading_deg + 180.0) % 360.0 - 180.0
            situation = Situation(
                camera=camera,
                rotation=from_angles(now.heading_deg + HEADING_SIGMA_DEG * rng.standard_normal()),
                heading_sigma_deg=HEADING_SIGMA_DEG,
                tilt_sigma_deg=TILT_SIGMA_DEG,
                height_m=HEIGHT_M * (1.0 + HEIGHT_SIGMA * rng.standard_normal()),
                height_sigma_m=HEIGHT_SIGMA * HEIGHT_M,
            )
            yield replace(now, image=shown), situation, Motion(moved, turn_deg, 0.0)
            before = now


def resident_mb() -> float:
    """Memory of this process that is in use now (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def main(arguments: Sequence[str] | None = None) -> None:
    """Fly and print a row for every hour."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--interval", type=float, default=2.5, help="seconds from frame to frame")
    parser.add_argument("--look-every", type=int, default=1, help="one frame of so many shows the ground")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "world.tif"
        write_world_map(SCENARIO, path)
        satellite = SatelliteMap.open(path)
        grid, _ = lay_patches(satellite, PatchSettings(cell_side_m=100.0, footprint_m=FOOTPRINT_M))
        orientation = make_orientation([satellite])
        tracker = Tracker(
            grid,
            ViewSettings(footprint_m=FOOTPRINT_M, size_px=VIEW_PX),
            register=lambda v, w: register(v, orientation, w),
        )
        fly(tracker, args)


def fly(tracker: Tracker, args: argparse.Namespace) -> None:
    """All the frames, and what they leave behind."""
    now, rng, interval_s = [0.0], np.random.default_rng(args.seed + 1), args.interval
    watch = GnssWatch(tracker.grid.projection, GnssGates(), clock=lambda: now[0])
    frames, per_hour = round(args.hours * 3600.0 / interval_s), round(3600.0 / interval_s)
    print("| hour | frames | with a position | wrong > 100 m | resident memory | live blocks of the belief | GNSS |")
    print("|--:|--:|--:|--:|--:|--:|---|")
    published = wrong = 0
    for count, (moment, situation, motion) in zip(range(1, frames + 1), situations(lap(), args.seed, args.look_every)):
        now[0] = count * interval_s
        stamp_ns = round(now[0] * 1e9)
        answer = tracker.step(stamp_ns, moment.image, situation, replace(motion, seconds=interval_s))
        latitude, longitude = tracker.grid.projection.to_wgs84(moment.position + rng.normal(0.0, 1.5, 2))
        watch.add_fix(Fix(stamp_ns, float(latitude), float(longitude), HEIGHT_M, 0, 1.5))
        if isinstance(answer, Estimate):
            watch.add_position(stamp_ns, answer.position, answer.covariance)
            published += 1
            wrong += bool(np.hypot(*(answer.position - moment.position)) > 100.0)
        report = watch.report()
        if count % per_hour == 0 or count == frames:
            blocks = len(tracker.belief.histogram.blocks)
            print(
                f"| {now[0] / 3600.0:.0f} | {count} | {100.0 * published / count:.1f} % | {wrong} of {published} | "
                f"{resident_mb():.1f} MB | {blocks} | {report.state} |"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
