"""What scale.py measures of a cold start: frames and processor time until a drone that may be anywhere is found."""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scale_map import TOP_CELLS
from scale_world import Country, Training

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.localization.estimate import Estimate
from aerial_vpr_cl.localization.orientation_file import open_orientation
from aerial_vpr_cl.localization.proposal import Proposal, Propose
from aerial_vpr_cl.localization.registration import register
from aerial_vpr_cl.localization.tracker import Tracker
from aerial_vpr_cl.localization.tracker_settings import TrackerSettings
from aerial_vpr_cl.localization.view import ViewSettings
from aerial_vpr_cl.mission.mission import Flight, read_flight
from aerial_vpr_cl.mission.situation import Situation
from aerial_vpr_cl.simulation.scenario import MissionSpec
from aerial_vpr_cl.simulation.sorties import simulate_mission
from aerial_vpr_cl.simulation.tracks import TrackSettings
from aerial_vpr_cl.simulation.world.appearance import Appearance
from aerial_vpr_cl.simulation.world.procedural import ProceduralWorld

AUTUMN = MissionSpec(
    "autumn", appearance=Appearance(season="autumn", hour=14.0), track=TrackSettings(altitude_m=450.0, spacing_m=60.0)
)
THERMAL = replace(AUTUMN, name="thermal", modality="IR")
SEEDS, FRAMES = (0, 1), 20
ORACLE_RECALL = 0.8
"""The oracle has the true cell among its twenty with this probability; all its other cells are drawn at random."""


def first_fix(country: Country, folder: Path, training: Training) -> dict[str, Any]:
    """Flights of another season from a cold start: the whole map searched, or cells that somebody proposes.

    The store's own network proposes if it was trained before.
    """
    known = open_map(folder, memory_budget_mb=0)  # as in flight
    orientation = open_orientation(known)
    seen = ViewSettings(footprint_m=known.settings.footprint_m, size_px=224)
    rows: dict[str, Any] = {}
    network = _network(folder)
    for flight in _flights(country, known.grid):
        oracle = Witness(known.grid)
        ways: list[tuple[str, Propose | None, float]] = [("everything", None, np.inf), ("oracle", oracle, 0.0)]
        if network is not None:
            oracle.network = network
            ways.append(("network", oracle.watch, 0.0))
        for name, propose, search_km2 in ways:
            tracker = Tracker(
                known.grid,
                seen,
                register=lambda view, where: register(view, orientation, where),
                propose=propose,
                settings=TrackerSettings(search_km2=search_km2),
            )
            rows.setdefault(name, []).append(_follow_until_found(tracker, flight, oracle))
        if network is not None:
            rows.setdefault("named", []).append(oracle.named)
    named = [float(share) for share in rows.pop("named", [])]
    return {"most_frames": FRAMES, "named_in_20": named} | {
        name: {
            "frames": [int(frames) for frames, _, _, _ in found],
            "search_s": float(np.median([seconds for _, seconds, _, _ in found])),
            "tracking_ms": float(np.median([1e3 * later for _, _, later, _ in found])),
            "wrong": sum(wrong for _, _, _, wrong in found),
        }
        for name, found in rows.items()
    }


class Witness:
    """Is told the truth: it proposes as a network of known recall would, or counts how often a real one is right."""

    def __init__(self, grid: Grid) -> None:
        self.truth = np.zeros(2)
        self.network: Propose | None = None
        self._asked = self._right = 0
        self._grid = grid
        self._rng = np.random.default_rng(0)

    def __call__(self, image: NDArray[np.uint8], situation: Situation) -> Proposal:
        """Twenty cells, all as likely."""
        chosen = self._rng.choice(self._grid.n_classes, TOP_CELLS, replace=False)
        if self._rng.random() < ORACLE_RECALL:
            chosen[self._rng.integers(TOP_CELLS)] = self._grid.class_of(self.truth)[0]
        probabilities = np.full(self._grid.n_classes, 0.1 / self._grid.n_classes)
        probabilities[chosen] += 0.9 / TOP_CELLS
        return Proposal(probabilities, np.zeros(2))

    def watch(self, image: NDArray[np.uint8], situation: Situation) -> Proposal | None:
        """What the network proposes."""
        assert self.network is not None
        proposal = self.network(image, situation)
        if proposal is not None:
            best = np.argsort(-proposal.probabilities)[:TOP_CELLS]
            self._asked += 1
            self._right += bool(np.isin(self._grid.class_of(self.truth + proposal.offset_m), best).any())
        return proposal

    @property
    def named(self) -> float:
        """Share of the views that the network was asked about whose cell was among its twenty."""
        return self._right / max(1, self._asked)


def _network(folder: Path) -> Propose | None:
    """The store's network, if it has one; only then PyTorch is loaded."""
    if not GenerationStore(folder).numbers():
        return None
    from aerial_vpr_cl.localization.localizer import Localizer
    from aerial_vpr_cl.localization.open_tracker import proposing

    return proposing(Localizer.open(folder))


def _follow_until_found(tracker: Tracker, flight: Flight, oracle: Witness) -> tuple[int, float, float, int]:
    """Frames until the first position, processor seconds until then, seconds per frame from then on, and wrong ones."""
    first, searching_s, tracking_s, wrong = len(flight.frames) + 1, 0.0, [], 0
    for number, frame in enumerate(flight.frames, start=1):
        oracle.truth = frame.position
        start = time.process_time()
        answer = tracker.step(frame.stamp_ns, frame.decode(), frame.situation, frame.motion)
        taken = time.process_time() - start
        if first > number:
            searching_s += taken
        else:
            tracking_s.append(taken)
        if isinstance(answer, Estimate):
            first = min(first, number)
            wrong += bool(np.hypot(*(answer.position - frame.position)) > 100.0)
        if number >= first + 5:
            break
    return first, searching_s, statistics.median(tracking_s or [float("nan")]), wrong


def _flights(country: Country, grid: Grid) -> list[Flight]:
    """Over tiles drawn at random, on another day than the map's."""
    rng = np.random.default_rng(1)
    flights = []
    with tempfile.TemporaryDirectory() as scratch:
        for seed in SEEDS:
            tile = int(rng.choice(country.upright))
            for spec in (AUTUMN, THERMAL):
                bag = Path(scratch) / f"{spec.name}{seed}"
                fly(country, tile, replace(spec, frames=FRAMES, seed=seed), bag)
                flights.append(read_flight(bag, grid))
    return flights


def fly(country: Country, tile: int, spec: MissionSpec, bag: Path) -> None:
    """Fly a mission over an upright tile into a bag."""
    bag.parent.mkdir(parents=True, exist_ok=True)
    simulate_mission(ProceduralWorld(country.world(tile)), spec, bag)
