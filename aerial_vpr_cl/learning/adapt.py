"""Learn-and-Dispose (paper, section 4.1): learn from a mission, select what to keep, commit, dispose of the rest.

State moves in generations: either everything below is durable as the next generation, or nothing has changed.
The raw mission is deleted only after its generation is durable.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from aerial_vpr_cl.errors import MissionError, StoreError
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.knowledge.disposal import DisposableMission
from aerial_vpr_cl.knowledge.failpoints import failpoint
from aerial_vpr_cl.knowledge.generations import Generation, GenerationStore
from aerial_vpr_cl.knowledge.map_folder import MapFolder, open_map
from aerial_vpr_cl.knowledge.networks import network_of
from aerial_vpr_cl.learning.adapt_settings import AdaptSettings
from aerial_vpr_cl.learning.loop import Memories, learn
from aerial_vpr_cl.learning.methods import method_of
from aerial_vpr_cl.learning.methods.base import MissionStep
from aerial_vpr_cl.learning.recipes import recipe_of
from aerial_vpr_cl.learning.selection import select_replay
from aerial_vpr_cl.learning.thinning import thin
from aerial_vpr_cl.learning.validation import Recalls, measure, refusal
from aerial_vpr_cl.memory.buffer import Observation, ReplayBuffer
from aerial_vpr_cl.mission.mission import Mission, read_mission
from aerial_vpr_cl.model.checkpoint import save_tail
from aerial_vpr_cl.model.devices import pick_device
from aerial_vpr_cl.model.network import Network
from aerial_vpr_cl.progress import Progress, silent
from aerial_vpr_cl.satellite.exemplars import ExemplarMemory

log = logging.getLogger(__name__)

SPACE_MARGIN_BYTES = 64 << 20


@dataclass(frozen=True)
class AdaptReport:
    """What an adaptation did, in numbers a pilot can be told."""

    mission: str
    generation: int  # the one that serves now
    committed: bool
    reason: str  # why nothing was committed; empty otherwise
    frames: int  # frames of the mission that passed the GNSS gates
    used: int  # after thinning
    kept: int  # observations of this mission now in the replay buffer
    refused: dict[str, int]  # frames left out, by reason
    before: Recalls | None
    after: Recalls | None
    steps: int
    seconds: float

    @classmethod
    def refusal_of(cls, mission: str, generation: int, reason: str) -> AdaptReport:
        """The report of a mission that could not be learnt from at all."""
        return cls(mission, generation, False, reason, 0, 0, 0, {}, None, None, 0, 0.0)

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON; what could not be measured is None."""
        values = asdict(self)
        for name in ("before", "after"):
            values[name] = {key: None if np.isnan(value) else value for key, value in (values[name] or {}).items()}
        return values

    def summary(self) -> str:
        """One line for the operator."""
        if not self.committed:
            return f"{self.mission}: not learnt: {self.reason}; generation {self.generation} still serves, mission kept"
        if self.before is None or self.after is None:
            return f"{self.mission}: was learnt before; generation {self.generation} serves, mission kept"
        return (
            f"{self.mission}: generation {self.generation}; {self.used} of {self.frames} frames learnt, "
            f"{self.kept} kept; recall on them {self.before.mission:.0%} -> {self.after.mission:.0%}, "
            f"replay {_percent(self.before.replay)} -> {_percent(self.after.replay)}, "
            f"map {_percent(self.before.exemplars)} -> {_percent(self.after.exemplars)}; {self.seconds:.0f} s"
        )


@dataclass(frozen=True)
class Knowledge:
    """All that a generation and its map say, loaded."""

    generation: Generation
    map: MapFolder
    network: Network
    buffer: ReplayBuffer
    exemplars: ExemplarMemory


def load_knowledge(store: GenerationStore, device: torch.device) -> Knowledge:
    """The newest sound generation with its map; every file is checked on the way."""
    folder = open_map(store.root)
    generation = store.newest(grid_hash=folder.grid.hash)
    return Knowledge(
        generation=generation,
        map=folder,
        network=network_of(folder, generation, device=device),
        buffer=ReplayBuffer.load(generation.path / "replay.h5", folder.grid.hash),
        exemplars=ExemplarMemory.load(folder.path / "exemplars.h5", folder.grid.hash),
    )


def adapt(
    store_path: Path, missions: Sequence[Path], settings: AdaptSettings, progress: Progress = silent
) -> list[AdaptReport]:
    """Learn the missions one after the other, each into a generation of its own. One learner at a time."""
    store = GenerationStore(store_path)
    with store.learner_lock():
        finished = [] if settings.keep_raw else store.finish_disposal(missions)
        # A learner that was killed between commit and disposal had learnt these; there is nothing left to read.
        waiting = [mission for mission in missions if mission.name not in finished or mission.exists()]
        reports = []
        for mission in waiting:
            try:
                reports.append(adapt_to_mission(store, mission, settings, progress))
            except MissionError as error:  # one bad bag does not hold up the others
                reports.append(AdaptReport.refusal_of(mission.name, store.newest().number, str(error)))
        return reports


def adapt_to_mission(
    store: GenerationStore, path: Path, settings: AdaptSettings, progress: Progress = silent
) -> AdaptReport:
    """Learn, select, commit, dispose: one mission. The caller holds the learner's lock."""
    start = time.monotonic()
    device = pick_device(settings.device)
    if settings.threads:
        torch.set_num_threads(settings.threads)
    try:
        mark = None if settings.keep_raw else store.disposable(path)
    except StoreError as error:
        raise MissionError(str(error)) from None
    known = load_knowledge(store, device)
    grid = known.map.grid
    mission = read_mission(path, grid)
    history = known.generation.facts.get("missions", [])
    report = AdaptReport(
        mission.name, known.generation.number, True, "", len(mission.frames), 0, 0, mission.refused, None, None, 0, 0.0
    )
    if any(entry["id"] == identity_of(mission) for entry in history):
        log.warning("%s was learnt before and is not learnt again", mission.name)
        return report

    observations = observations_of(mission, grid)
    used = thin(observations, settings)
    method = method_of(settings.method)
    memories = Memories(known.exemplars, known.map.satellite, tuple(known.buffer))
    before = measure(known.network, grid, used, memories, settings.gate_samples)
    failpoint("learn.start")
    method.begin_mission(
        known.network, MissionStep(len(history) + 1, mission.name, tuple(entry["name"] for entry in history))
    )
    recipe = recipe_of(known.network.backbone.name, known.network.settings.view)
    learnt = learn(
        known.network,
        grid,
        used,
        memories,
        method,
        recipe,
        settings,
        progress=progress,
        cache_folder=store.generations_dir,
    )
    failpoint("learn.done")
    after = measure(known.network, grid, used, memories, settings.gate_samples)
    report = replace(report, used=len(used), before=before, after=after, steps=learnt.steps)
    reason = refusal(known.network, before, after, settings)
    if reason:
        log.error("%s: %s", mission.name, reason)
        return replace(report, committed=False, reason=reason, seconds=time.monotonic() - start)

    failpoint("select.start")
    limits = known.buffer.bounded(settings.budget, int(settings.max_buffer_mb * 2**20) or None)
    rng = np.random.default_rng([settings.seed, 2, len(history)])
    buffer = select_replay(known.network, grid, used, known.buffer, method, rng, progress, limits=limits)
    failpoint("select.done")
    report = replace(report, kept=sum(kept.mission == mission.name for kept in buffer))
    entry = {
        "id": identity_of(mission),
        "name": mission.name,
        "modality": mission.modality,
        "frames": report.frames,
        "used": report.used,
    }
    generation = _commit(store, known, buffer, [*history, entry], mark, settings, report)
    if mark is not None:
        try:
            store.dispose(path)
        except StoreError as error:  # it is learnt all the same, and the next learner tries again
            log.error("%s", error)
    store.prune(settings.keep_generations)
    return replace(report, generation=generation.number, seconds=time.monotonic() - start)


def observations_of(mission: Mission, grid: Grid) -> list[Observation]:
    """The frames of a mission with their cells, in time order."""
    labels = mission.labels(grid)
    return [
        Observation(frame.image, int(label), frame.position, frame.stamp_ns, mission.name, mission.modality)
        for frame, label in zip(mission.frames, labels)
        if label >= 0
    ]


def identity_of(mission: Mission) -> str:
    """What tells one flight from another: its name and the time of its first frame."""
    if not mission.frames:
        raise MissionError(f"{mission.path}: no frame passed the GNSS gates; nothing to learn")
    return f"{mission.name}@{mission.frames[0].stamp_ns}"


def _commit(
    store: GenerationStore,
    known: Knowledge,
    buffer: ReplayBuffer,
    missions: list[dict[str, object]],
    mark: DisposableMission | None,
    settings: AdaptSettings,
    report: AdaptReport,
) -> Generation:
    tail_bytes = (known.generation.path / "tail.safetensors").stat().st_size
    needed = tail_bytes + buffer.n_bytes + SPACE_MARGIN_BYTES
    with store.draft(bytes_needed=needed) as draft:
        save_tail(draft.path / "tail.safetensors", known.network)
        buffer.save(draft.path / "replay.h5", known.map.grid.hash)
        return draft.commit(
            ["tail.safetensors", "replay.h5"],
            grid_hash=known.map.grid.hash,
            dispose=[mark] if mark is not None else [],
            parent=known.generation.number,
            missions=missions,
            settings=asdict(settings),
            report=report.to_dict(),
        )


def _percent(share: float) -> str:
    return "-" if np.isnan(share) else f"{share:.0%}"
