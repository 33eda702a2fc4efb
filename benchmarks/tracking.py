"""Flights followed from a cold start: how soon, how near, how honest, and what each sense is worth.

    python benchmarks/tracking.py FOLDER                        the eight held-out missions, all senses
    python benchmarks/tracking.py FOLDER --cases all no_heading kidnapped off_map --seeds 0 1 2 --records RECORDS
    python benchmarks/tracking.py FOLDER --role sequence        the ten missions on which constants may be chosen
    python benchmarks/tracking.py FOLDER --footprint 280        flown lower: views show half as much
    python benchmarks/tracking.py --scale 0.2                   the simulated world of config/scenarios/demo.yaml

FOLDER holds the rasters of config/scenarios/naip_nd.yaml. Nothing is learnt: registration alone, unless --store names a
store over the same map whose network proposes. Instruments err as the scenario's defaults have it: heading 3° and up to
5° of bias, tilt 3°, height 5 %, odometry 5 %. A seed is another track with other noise over the same ground.

With --records every flight is kept as a small JSON file and not flown again: several runs make one table.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from tracking_cases import CASES, Case
from tracking_records import Record, gnss_table, table, times

from aerial_vpr_cl.commands.simulate import write_world_map
from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.evaluation.flight_score import FlightAnswers, score
from aerial_vpr_cl.evaluation.store_evaluation import follow
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.images import encode_jpeg
from aerial_vpr_cl.localization.gnss_watch import GnssWatch
from aerial_vpr_cl.localization.lattice import Bounds
from aerial_vpr_cl.localization.localizer import Localizer
from aerial_vpr_cl.localization.map_orientation import MapOrientation
from aerial_vpr_cl.localization.open_tracker import VIEW_PX, proposing
from aerial_vpr_cl.localization.orientation_file import make_orientation
from aerial_vpr_cl.localization.proposal import Propose
from aerial_vpr_cl.localization.registration import Registration, register
from aerial_vpr_cl.localization.tracker import Tracker
from aerial_vpr_cl.localization.tracker_settings import TrackerSettings
from aerial_vpr_cl.localization.view import View, ViewSettings
from aerial_vpr_cl.mission.frames import Frame
from aerial_vpr_cl.mission.gnss import Fix, GnssGates
from aerial_vpr_cl.mission.mission import Flight
from aerial_vpr_cl.mission.sensor_settings import SensorSettings
from aerial_vpr_cl.mission.sensors import FlightSensors
from aerial_vpr_cl.satellite.patches import PatchSettings, lay_patches
from aerial_vpr_cl.satellite.raster import SatelliteMap
from aerial_vpr_cl.simulation.scenario import MissionSpec, Scenario, load_scenario
from aerial_vpr_cl.simulation.sorties import Sortie, plan

SCENARIOS = Path(__file__).parent.parent / "config/scenarios"
MAP_DATE = "m_4709963_se_14_1_20150926.tif"
FOOTPRINT_M = 560.0
"""What the flights over FOLDER see of the ground, and the side of its views."""
SENSOR_DELAY_NS = 150_000_000
"""Readings up to so long after an image are heard before it is answered."""


@dataclass(frozen=True)
class Job:
    """One flight of one case: all that a process needs to know."""

    folder: Path | None  # of rasters; None: the simulated world
    spec: MissionSpec
    case: str
    store: Path | None
    records: Path | None
    footprint_m: float = FOOTPRINT_M  # of views over the rasters

    @property
    def ground(self) -> Ground:
        """What is flown over."""
        return ground_of(self.folder, self.footprint_m)

    @property
    def path(self) -> Path | None:
        """Where its record is kept."""
        if self.records is None:
            return None
        with_network = "-network" if self.store else ""
        with_network += "" if self.footprint_m == FOOTPRINT_M else f"-{self.footprint_m:.0f}m"
        name = f"{self.spec.name}-{self.spec.frames}-{self.spec.seed}-{self.case}{with_network}.json"
        return self.records / ("naip_nd" if self.folder else "demo") / name


@dataclass(frozen=True, eq=False)
class Ground:
    """A world with its map."""

    scenario: Scenario
    grid: Grid
    footprint_m: float
    fitted: MapOrientation
    bare: MapOrientation  # with what a match is worth where nothing was fitted


@functools.cache
def ground_of(folder: Path | None, footprint_m: float = FOOTPRINT_M) -> Ground:
    """The map of 2015 beneath the other dates, or the summer of the simulated world beneath its seasons."""
    if folder is not None:
        scenario = load_scenario(SCENARIOS / "naip_nd.yaml", raster=folder)
        satellite = SatelliteMap.open(folder / MAP_DATE, bands=[1, 2, 3])
        return _over(scenario, satellite, PatchSettings(cell_side_m=250.0, footprint_m=footprint_m))
    scenario = load_scenario(SCENARIOS / "demo.yaml")
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "world.tif"
        write_world_map(scenario, path)
        return _over(scenario, SatelliteMap.open(path), PatchSettings())


def _over(scenario: Scenario, satellite: SatelliteMap, cells: PatchSettings) -> Ground:
    grid, _ = lay_patches(satellite, cells)
    return Ground(scenario, grid, cells.footprint_m, make_orientation([satellite]), MapOrientation.of([satellite]))


@functools.cache
def network_of(store: Path, folder: Path | None) -> Propose:
    """The network of a store, which must know the cells of this ground."""
    localizer = Localizer.open(store)
    if localizer.grid.hash != ground_of(folder).grid.hash:
        raise SettingsError(f"{store}: its map has other cells than the one that is flown over here")
    return proposing(localizer)


@functools.lru_cache(maxsize=1)
def flown(folder: Path | None, spec: MissionSpec) -> tuple[Sortie, Flight, float]:
    """A mission as a bag would hold it, in memory, and the milliseconds a frame took to make."""
    begin = time.process_time()
    sortie = plan(ground_of(folder).scenario.world_of(spec), spec)
    settings = SensorSettings(mount_forward_deg=spec.camera.tilt_deg)
    sensors, waiting, frames = FlightSensors(settings, north_deg=sortie.north_deg), list(reversed(sortie.readings)), []
    for index, (stamp, position) in enumerate(zip(sortie.flight.stamps_ns.tolist(), sortie.positions())):
        while waiting and waiting[-1].stamp_ns <= stamp + SENSOR_DELAY_NS:
            sensors.add(waiting.pop())
        image = sortie.frame(index)
        situation, motion = sensors.at(stamp, (image.shape[1], image.shape[0]))
        frames.append(Frame(stamp, position, encode_jpeg(image, spec.camera.jpeg_quality), situation, motion))
    flight = Flight(Path(spec.name), spec.name, spec.modality, tuple(frames), positions_from="truth")
    return sortie, flight, 1e3 * (time.process_time() - begin) / len(frames)


def run(job: Job) -> Record:
    """Fly, follow, and keep the record."""
    case = CASES[job.case]
    if case.answered_as:
        same = kept_or_run(replace(job, case=case.answered_as))
        spec, grid = case.plan(job.spec), job.ground.grid
        sortie = plan(ground_of(job.folder).scenario.world_of(spec), spec)
        record = Record(same.answers, same.ms, watch_gnss(grid, sortie, same.answers))
    else:
        record = follow_case(job, case)
    if job.path is not None:
        record.write(job.path)
    return record


def kept_or_run(job: Job) -> Record:
    """The record of a job that may have been flown before."""
    return Record.read(job.path) if job.path is not None and job.path.exists() else run(job)


def follow_case(job: Job, case: Case) -> Record:
    """Follow a flight through the tracker."""
    ground = job.ground
    sortie, flight, render_ms = flown(job.folder, case.plan(job.spec))
    orientation, laying = ground.fitted if case.fitted else ground.bare, [0.0]

    def lay(view: View, where: list[Bounds] | None) -> Registration:
        begin = time.process_time()
        found = register(view, orientation, where)
        laying[0] += time.process_time() - begin
        return found

    tracker = Tracker(
        ground.grid,
        ViewSettings(footprint_m=ground.footprint_m, size_px=VIEW_PX),
        register=lay,
        propose=network_of(job.store, job.folder) if job.store else None,
        settings=TrackerSettings(**case.settings),  # type: ignore[arg-type]
    )
    begin = time.process_time()
    answers = follow(tracker, case.change(flight))
    spent = time.process_time() - begin
    ms = {"rendering": render_ms}
    for name, seconds in (("registration", laying[0]), ("the tracker besides", spent - laying[0])):
        ms[name] = 1e3 * seconds / len(answers.truth)
    return Record(answers, ms, watch_gnss(ground.grid, sortie, answers) if case.same_route else {})


def watch_gnss(grid: Grid, sortie: Sortie, answers: FlightAnswers) -> dict[str, object]:
    """What the watch says of the flight's fixes: when a lie was named, and how often an honest receiver was."""
    now = [0.0]
    watch = GnssWatch(grid.projection, GnssGates(), clock=lambda: now[0])
    spoofed = sortie.spec.gnss.spoofing != "none"
    waiting, begin_ns, last_ns = list(reversed(sortie.fixes)), None, answers.stamps_ns[-1]
    named_s, lie_m, distrusted, checked = None, None, 0, 0
    for stamp, given, covariance in zip(answers.stamps_ns.tolist(), answers.given, answers.covariances):
        while waiting and waiting[-1].stamp_ns <= stamp:
            fix = waiting.pop()
            watch.add_fix(
                Fix(fix.stamp_ns, fix.latitude, fix.longitude, fix.altitude_m, fix.status, fix.variance_m2**0.5)
            )
        now[0] = stamp / 1e9
        if np.isfinite(given).all():
            begin_ns = begin_ns or stamp
            watch.add_position(stamp, given, covariance)
        report = watch.report()
        if report.trusted is None or report.state == "absent":
            continue
        checked += 1
        distrusted += not report.trusted
        if not report.trusted and named_s is None and begin_ns is not None:
            share = (stamp - answers.stamps_ns[0]) / (last_ns - answers.stamps_ns[0])
            named_s = (stamp - begin_ns) / 1e9
            lie_m = sortie.spec.gnss.spoofing_m * (share if sortie.spec.gnss.spoofing == "drift" else 1.0)
    return {
        "spoofed": spoofed,
        "named_s": named_s,
        "lie_m": lie_m if spoofed else None,
        "distrusted": distrusted,
        "checked": checked,
    }


def results(jobs: Sequence[Job], processes: int) -> Iterator[tuple[Job, Record]]:
    """Records of all jobs, those that are kept first."""
    kept = [job for job in jobs if job.path is not None and job.path.exists()]
    yield from ((job, kept_or_run(job)) for job in kept)
    left = [job for job in jobs if job not in kept]
    if processes == 1:
        yield from ((job, run(job)) for job in left)
    elif left:
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            yield from zip(left, pool.imap(run, left, chunksize=1))


def jobs_of(args: argparse.Namespace) -> list[Job]:
    """Everything that is asked for; the cases of one flight follow each other, so that it is made once."""
    scenario = load_scenario(SCENARIOS / ("naip_nd.yaml" if args.folder else "demo.yaml"), raster=args.folder)
    jobs = []
    for seed in args.seeds:
        for spec in scenario.chosen(args.missions):
            if args.missions or spec.role == args.role or args.role == "every":
                spec = replace(spec.scaled(args.scale) if args.scale != 1.0 else spec, seed=seed)
                spec = replace(spec, frames=args.frames or spec.frames)
                if args.folder is not None:
                    track = replace(spec.track, altitude_m=spec.track.altitude_m * args.footprint / FOOTPRINT_M)
                    spec = replace(spec, track=track)
                more = (args.store, args.records, args.footprint)
                jobs += [Job(args.folder, spec, case, *more) for case in args.cases]
    return jobs


def main(arguments: Sequence[str] | None = None) -> None:
    """Fly and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the rasters; without it the simulated world")
    parser.add_argument("--role", default="held_out", choices=("held_out", "sequence", "every"))
    parser.add_argument("--missions", nargs="+", help="only these")
    parser.add_argument("--cases", nargs="+", default=["all"], choices=list(CASES))
    parser.add_argument("--frames", type=int, default=0, help="frames per flight (default: as in the scenario)")
    parser.add_argument(
        "--footprint", type=float, default=FOOTPRINT_M, metavar="M", help="ground side of views, with FOLDER"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="share of each flight's frames and way")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--store", type=Path, help="store over the same map whose network proposes")
    parser.add_argument("--records", type=Path, help="folder where flights are kept, and looked for")
    parser.add_argument("--processes", type=int, default=1, help="flights at the same time")
    args = parser.parse_args(arguments)
    rows: dict[str, list[Record]] = {CASES[case].title: [] for case in args.cases}
    for job, record in results(jobs_of(args), args.processes):
        rows[CASES[job.case].title].append(record)
        found = score([record.answers])
        print(
            f"{job.spec.name} seed {job.spec.seed} {job.case}: {found.published} of {found.frames}, first "
            f"{found.first_fix_frame:.0f}, median {found.median_m:.0f} m, wrong {found.wrong_100m:.3f}, NEES "
            f"{found.nees:.2f}, silent {found.silences}",
            file=sys.stderr,
            flush=True,
        )
    print(table(rows), gnss_table(rows), times([record for row in rows.values() for record in row]), sep="\n\n")


if __name__ == "__main__":
    main()
