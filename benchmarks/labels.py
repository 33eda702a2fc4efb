"""What a jammed or a false GNSS costs the learner: the same sorties learnt with all kinds of it, over real dates.

    python benchmarks/labels.py FOLDER --store STORE > benchmarks/results/labels.md

FOLDER holds the rasters of config/scenarios/naip_nd.yaml, STORE a network of the map of 2015 (`views.py --store`), of
which copies learn. Missions of the sequence are flown once, and recorded with each kind of GNSS; what was learnt is
tested on the held-out missions and on other flights over the dates that were learnt. With a network for frames as seen
all missions are flown once more by a drone that has nothing but a camera and a receiver.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from base_training import SCENARIO, thinned
from tracking import flown, ground_of

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.evaluation.flight_score import score
from aerial_vpr_cl.evaluation.store_evaluation import follow
from aerial_vpr_cl.geo.view_kind import AS_SEEN
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.knowledge import Knowledge, load_knowledge
from aerial_vpr_cl.learning.adapt import adapt
from aerial_vpr_cl.learning.adapt_settings import AdaptSettings
from aerial_vpr_cl.learning.labelled_mission import labelled, read_whole
from aerial_vpr_cl.localization.localizer import Localizer, LocalizerSettings, SingleFrames
from aerial_vpr_cl.mission.mission import Flight, read_flight
from aerial_vpr_cl.progress import ProgressBar
from aerial_vpr_cl.simulation.gnss import GnssSettings
from aerial_vpr_cl.simulation.scenario import MissionSpec, Scenario, load_scenario
from aerial_vpr_cl.simulation.sensors import InstrumentSettings
from aerial_vpr_cl.simulation.sorties import simulate_mission
from aerial_vpr_cl.simulation.world.ground import World

KINDS = {
    "perfect": GnssSettings(drift_m=0.0, noise_m=0.0),
    "jammed from the first second to the last": GnssSettings(jammed=True),
    "false by a constant 1 km": GnssSettings(spoofing="offset"),
    "dragged off, to 1 km at the end": GnssSettings(spoofing="drift"),
    "the flight backwards": GnssSettings(spoofing="backwards"),
    "another track, recorded before": GnssSettings(spoofing="replayed"),
}
BELIEVED = {  # by an autopilot, whose odometry follows them
    "dragged off, and odometry with it": GnssSettings(spoofing="drift"),
    "another track, and odometry with it": GnssSettings(spoofing="replayed"),
}
ALONE = InstrumentSettings(imu=False, height=False, odometry=False, camera_info=False)
LEARNT = ("2012-VIS", "2017-VIS", "2014-IR", "2019-IR")
OTHER_SEED = 100
TEST_FRAMES = 40


@dataclass(frozen=True)
class Labelled:
    """What became of the frames of some missions."""

    frames: int
    sources: dict[str, int]
    far: int  # labels off by more than half a cell
    largest_m: float


def label(bags: Sequence[Path], known: Knowledge, labels: str = "auto") -> Labelled:
    """Label bags as the learner does, and compare with the truth."""
    grid, sources, errors, frames = known.map.grid, Counter[str](), [0.0], 0
    for bag in bags:
        flight = read_flight(bag, grid)
        truth = dict(zip(flight.stamps_ns.tolist(), flight.positions))
        frames += len(flight)
        settings = AdaptSettings(labels=labels)
        try:
            mission, found = labelled(read_whole(bag, known, settings), known, settings, ProgressBar())
        except MissionError:  # nothing is proven: nothing would be learnt
            continue
        sources.update(found)
        errors += [float(np.hypot(*(frame.position - truth[frame.stamp_ns]))) for frame in mission.frames]
    return Labelled(frames, dict(sources), int((np.array(errors) > grid.cell_side_m / 2).sum()), max(errors))


def learn(bags: Sequence[Path], base: Path, store: Path) -> None:
    """A copy of the base store learns the bags one after the other."""
    shutil.copytree(base, store)
    for report in adapt(store, bags, AdaptSettings(keep_raw=True), ProgressBar()):
        if not report.committed:
            raise SystemExit(f"{report.mission}: {report.reason}")


def recalls(store: Path, tests: dict[str, list[Flight]]) -> dict[str, float]:
    """Frames that the network alone puts within 300 m, in percent, by what they show."""
    network = SingleFrames(Localizer.open(store), LocalizerSettings(min_confidence=0.0))
    return {
        name: 100.0 * score([follow(network, flight) for flight in flights]).recall["300"]
        for name, flights in tests.items()
    }


def tests_of(folder: Path, missions: Sequence[MissionSpec]) -> dict[str, list[Flight]]:
    """Flights that nobody learns: the held-out missions, and other tracks over the dates that are learnt."""
    held_out = [spec for spec in missions if spec.role == "held_out"]
    again = [replace(spec, seed=spec.seed + OTHER_SEED) for spec in missions if spec.name in LEARNT]
    return {
        name: [flown(folder, thinned(spec, TEST_FRAMES))[1] for spec in specs]
        for name, specs in (("held-out missions", held_out), ("learnt dates, other tracks", again))
    }


def camera_alone(world: Scenario, specs: Sequence[MissionSpec], known: Knowledge, scratch: Path) -> Iterator[str]:
    """Flights of a camera and a receiver: how many are learnt as GNSS says, and how many of these from a false one."""
    yield "| GNSS, and a camera alone | flights | refused | learnt | learnt with labels off by more than half a cell |"
    yield "|---|--:|--:|--:|--:|"
    for k, (kind, gnss) in enumerate(KINDS.items()):
        learnt: list[Labelled] = []
        for spec in specs:
            bag = _fly(world.world_of(spec), replace(spec, gnss=gnss, sensors=ALONE), scratch / f"alone{k}")
            learnt += [found] if (found := label([bag], known)).sources else []
        wrong = sum(found.far > 0 for found in learnt)
        yield f"| {kind} | {len(specs)} | {len(specs) - len(learnt)} | {len(learnt)} | {wrong} |"


def lines(folder: Path, base: Path, frames: int, scratch: Path) -> Iterator[str]:
    """The tables, line by line."""
    scenario = load_scenario(SCENARIO, raster=folder)
    world = ground_of(folder).scenario
    specs = [replace(spec, frames=frames) for spec in scenario.missions if spec.name in LEARNT]
    bags = {}
    for k, (kind, gnss) in enumerate({**KINDS, **BELIEVED}.items()):
        sensors = [replace(spec.sensors, odometry_follows_gnss=kind in BELIEVED) for spec in specs]
        flown_with = [replace(spec, gnss=gnss, sensors=how) for spec, how in zip(specs, sensors)]
        bags[kind] = [_fly(world.world_of(spec), spec, scratch / str(k)) for spec in flown_with]
    yield "| GNSS | frames | labels from GNSS / track | off by more than half a cell | largest error | GNSS off so |"
    yield "|---|--:|--:|--:|--:|--:|"
    known = load_knowledge(GenerationStore(base), torch.device("cpu"))
    for kind, paths in bags.items():
        found, believed = label(paths, known), label(paths, known, labels="gnss")
        told = " / ".join(str(found.sources.get(source, 0)) for source in ("gnss", "track"))
        yield f"| {kind} | {found.frames} | {told} | {found.far} | {found.largest_m:.0f} m | {believed.far} |"
    tests = tests_of(folder, scenario.missions)
    yield ""
    yield "| learnt with GNSS | " + " | ".join(tests) + " |"
    yield "|---|" + "--:|" * len(tests)
    yield _row("(base model)", recalls(base, tests))
    for k, kind in enumerate(list(KINDS)[:2]):
        learn(bags[kind], base, scratch / f"store{k}")
        yield _row(kind, recalls(scratch / f"store{k}", tests))
    if known.map.settings.view == AS_SEEN:
        yield ""
        yield from camera_alone(world, [replace(spec, frames=frames) for spec in scenario.missions], known, scratch)


def _fly(world: World, spec: MissionSpec, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / spec.name
    simulate_mission(world, spec, path)
    return path


def _row(name: str, shares: dict[str, float]) -> str:
    return f"| {name} | " + " | ".join(f"{share:.1f} %" for share in shares.values()) + " |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--store", type=Path, required=True, help="trained on the map of 2015")
    parser.add_argument("--frames", type=int, default=120, help="frames of each mission (default: %(default)s)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for line in lines(args.folder, args.store, args.frames, Path(scratch)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
