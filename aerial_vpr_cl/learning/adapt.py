"""Learn-and-Dispose (paper, section 4.1): learn from a mission, select what to keep, commit, dispose of the rest.

State moves in generations: either everything below is durable as the next generation, or nothing has changed.
The raw mission is deleted only after its generation is durable.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from aerial_vpr_cl.errors import MissionError, StoreError
from aerial_vpr_cl.knowledge.disposal import DisposableMission
from aerial_vpr_cl.knowledge.generations import Generation, GenerationStore
from aerial_vpr_cl.knowledge.map_folder import MapFolder, open_map
from aerial_vpr_cl.knowledge.networks import network_of
from aerial_vpr_cl.knowledge.report import MissionReport
from aerial_vpr_cl.learning.adapt_settings import AdaptSettings
from aerial_vpr_cl.learning.loop import Memories
from aerial_vpr_cl.learning.mission_step import MissionResult, learn_mission
from aerial_vpr_cl.learning.observations import observations_of
from aerial_vpr_cl.learning.thinning import thin
from aerial_vpr_cl.learning.trunk_outputs import TrunkOutputs
from aerial_vpr_cl.localization.view import ViewSettings
from aerial_vpr_cl.memory.buffer import ReplayBuffer
from aerial_vpr_cl.mission.course import with_course_heading
from aerial_vpr_cl.mission.mission import Mission, read_mission
from aerial_vpr_cl.model.checkpoint import save_tail
from aerial_vpr_cl.model.devices import pick_device
from aerial_vpr_cl.model.network import Network
from aerial_vpr_cl.progress import Progress, silent
from aerial_vpr_cl.satellite.exemplars import ExemplarMemory

log = logging.getLogger(__name__)

SPACE_MARGIN_BYTES = 64 << 20
METHOD_FILE = "method.safetensors"
"""In a generation: what its method has learnt beside the network; most methods learn nothing else."""


@dataclass(frozen=True)
class Knowledge:
    """All that a generation and its map say, loaded."""

    generation: Generation
    map: MapFolder
    network: Network
    buffer: ReplayBuffer
    exemplars: ExemplarMemory
    method_state: Mapping[str, torch.Tensor]  # what the method that learnt it takes along

    @property
    def views(self) -> ViewSettings:
        """What the network is shown."""
        settings = self.map.settings
        return ViewSettings(settings.view, settings.footprint_m, self.network.input_size)


def load_knowledge(store: GenerationStore, device: torch.device) -> Knowledge:
    """The newest sound generation with its map; every file is checked on the way."""
    folder = open_map(store.root)
    generation = store.newest(grid_hash=folder.grid.hash)
    state = generation.path / METHOD_FILE
    return Knowledge(
        generation=generation,
        map=folder,
        network=network_of(folder, generation, device=device),
        buffer=ReplayBuffer.load(generation.path / "replay.h5", folder.grid.hash),
        exemplars=ExemplarMemory.load(folder.path / "exemplars.h5", folder.grid.hash),
        method_state=load_file(state, device=str(device)) if state.exists() else {},
    )


def adapt(
    store_path: Path, missions: Sequence[Path], settings: AdaptSettings, progress: Progress = silent
) -> list[MissionReport]:
    """Learn the missions one after the other, each into a generation of its own. One learner at a time."""
    return learn_missions(GenerationStore(store_path), missions, settings, progress)


def learn_missions(
    store: GenerationStore,
    missions: Sequence[Path],
    settings: AdaptSettings,
    progress: Progress = silent,
    *,
    begin: Callable[[str, int, int], object] = lambda mission, index, count: None,
    end: Callable[[MissionReport], object] = lambda report: None,
) -> list[MissionReport]:
    """The same in a store that is open; `begin` hears of each mission and its place from 1, `end` its report."""
    reports = []
    with store.learner_lock():
        finished = [] if settings.keep_raw else store.finish_disposal(missions)
        # A learner that was killed between commit and disposal had learnt these; there is nothing left to read.
        waiting = [mission for mission in missions if mission.name not in finished or mission.exists()]
        for index, mission in enumerate(waiting, start=1):
            begin(mission.name, index, len(waiting))
            progress("read", 0, 1)
            try:
                reports.append(adapt_to_mission(store, mission, settings, progress))
            except MissionError as error:  # one bad bag does not hold up the others
                reports.append(MissionReport(mission.name, store.newest().number, False, str(error)))
            end(reports[-1])
    return reports


def adapt_to_mission(
    store: GenerationStore, path: Path, settings: AdaptSettings, progress: Progress = silent
) -> MissionReport:
    """Learn, select, commit, dispose: one mission. The caller holds the learner's lock."""
    start = time.monotonic()
    device = pick_device(settings.device)
    if settings.threads:
        torch.set_num_threads(settings.threads)
    try:
        mark = None if settings.keep_raw else store.disposable(path)
    except (StoreError, OSError) as error:
        raise MissionError(str(error)) from None
    known = load_knowledge(store, device)
    grid = known.map.grid
    mission = read_mission(
        path,
        grid,
        image_topic=settings.image_topic or None,
        fix_topic=settings.fix_topic or None,
        terrain=known.map.terrain,
    )
    history = known.generation.facts.get("missions", [])
    report = MissionReport(
        mission.name,
        known.generation.number,
        committed=True,
        frames=len(mission.frames),
        refused=mission.refused,
        keep_raw=settings.keep_raw,
    )
    if any(entry["id"] == identity_of(mission) for entry in history):
        log.warning("%s was learnt before and is not learnt again", mission.name)
        return report

    observations, refused = observations_of(with_course_heading(mission), grid, known.views)
    used = thin(observations, settings)
    memories = Memories(known.exemplars, known.map.satellite)
    past = [entry["name"] for entry in history]
    capacity = settings.cache_mb << 20
    with TrunkOutputs.private(known.network, capacity_bytes=capacity, folder=store.generations_dir) as trunk:
        result = learn_mission(
            known.network,
            known.buffer,
            memories,
            used,
            past,
            settings,
            trunk,
            method_state=known.method_state,
            gate=settings,
            calibration=settings,
            progress=progress,
        )
    report = replace(report, refused={**mission.refused, **refused})
    report = replace(report, used=len(used), before=result.before, after=result.after, steps=result.learnt.steps)
    if result.refusal:
        log.error("%s: %s", mission.name, result.refusal)
        return replace(report, committed=False, reason=result.refusal, seconds=time.monotonic() - start)

    report = replace(report, kept=sum(kept.mission == mission.name for kept in result.buffer))
    entry = {
        "id": identity_of(mission),
        "name": mission.name,
        "modality": mission.modality,
        "frames": report.frames,
        "used": report.used,
    }
    generation = _commit(store, known, result, [*history, entry], mark, settings, report)
    if mark is not None:
        try:
            store.dispose(path)
        except StoreError as error:  # it is learnt all the same, and the next learner tries again
            log.error("%s", error)
    store.prune(settings.keep_generations)
    return replace(report, generation=generation.number, seconds=time.monotonic() - start)


def identity_of(mission: Mission) -> str:
    """What tells one flight from another: its name and the time of its first frame."""
    if not mission.frames:
        raise MissionError(f"{mission.path}: no frame passed the GNSS gates; nothing to learn")
    return f"{mission.name}@{mission.frames[0].stamp_ns}"


def _commit(
    store: GenerationStore,
    known: Knowledge,
    result: MissionResult,
    missions: list[dict[str, object]],
    mark: DisposableMission | None,
    settings: AdaptSettings,
    report: MissionReport,
) -> Generation:
    tail_bytes = (known.generation.path / "tail.safetensors").stat().st_size
    needed = tail_bytes + result.buffer.n_bytes + SPACE_MARGIN_BYTES
    with store.draft(bytes_needed=needed) as draft:
        save_tail(draft.path / "tail.safetensors", result.network)
        result.buffer.save(draft.path / "replay.h5", known.map.grid.hash)
        if result.method_state:
            save_file({name: value.cpu() for name, value in result.method_state.items()}, draft.path / METHOD_FILE)
        return draft.commit(
            ["tail.safetensors", "replay.h5", *([METHOD_FILE] if result.method_state else [])],
            grid_hash=known.map.grid.hash,
            dispose=[mark] if mark is not None else [],
            parent=known.generation.number,
            missions=missions,
            settings=asdict(settings),
            report=report.to_dict(),
        )
