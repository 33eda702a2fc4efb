"""Learn-and-Dispose (paper, section 4.1): learn from a mission, select what to keep, commit, dispose of the rest.

State moves in generations: either everything below is durable as the next generation, or nothing has changed.
The raw mission is deleted only after its generation is durable.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import cv2
import torch

from aerial_vpr_cl.errors import MissionError, StoreError
from aerial_vpr_cl.knowledge.engines import follow_with_engines
from aerial_vpr_cl.knowledge.facts import GenerationFacts, LearntMission
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.knowledge import commit_generation, load_knowledge
from aerial_vpr_cl.knowledge.report import MissionReport
from aerial_vpr_cl.learning.adapt_settings import AdaptSettings
from aerial_vpr_cl.learning.labelled_mission import labelled, read_whole
from aerial_vpr_cl.learning.laps import Laps
from aerial_vpr_cl.learning.loop import Memories
from aerial_vpr_cl.learning.mission_step import learn_mission
from aerial_vpr_cl.learning.observations import observations_of, views_of
from aerial_vpr_cl.learning.thinning import thin
from aerial_vpr_cl.learning.trunk_outputs import TrunkOutputs
from aerial_vpr_cl.memory.buffer import Observation
from aerial_vpr_cl.mission.mission import Mission
from aerial_vpr_cl.model.devices import pick_device
from aerial_vpr_cl.progress import Progress, silent

log = logging.getLogger(__name__)


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
    start, laps = time.monotonic(), Laps()
    device = pick_device(settings.device)
    if settings.threads:
        torch.set_num_threads(settings.threads)
        cv2.setNumThreads(settings.threads)
    try:
        mark = None if settings.keep_raw else store.disposable(path)
    except (StoreError, OSError) as error:
        raise MissionError(str(error)) from None
    known = load_knowledge(store, device)
    grid = known.map.grid
    laps.end("load")
    flight, history = read_whole(path, known, settings), known.generation.facts.missions
    if any(learnt.id == identity_of(flight) for learnt in history):
        log.warning("%s was learnt before and is not learnt again", flight.name)
        number, frames = known.generation.number, len(flight.frames)
        return MissionReport(flight.name, number, committed=True, frames=frames, keep_raw=settings.keep_raw)
    mission, sources = labelled(flight, known, settings, progress)
    laps.end("read")
    report = MissionReport(
        mission.name,
        known.generation.number,
        committed=True,
        frames=len(mission.frames),
        refused=mission.refused,
        labels=sources,
        keep_raw=settings.keep_raw,
    )

    observations, refused = observations_of(mission, grid, views_of(known))
    used = thin(observations, settings)
    laps.end("views")
    store.require_space(known.bytes_of_next(_most_bytes_kept(used, settings.budget * grid.n_groups)))
    memories = Memories(known.exemplars, known.map.satellite)
    past = [learnt.name for learnt in history]
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
    laps.end_measured(result.seconds)
    report = replace(
        report,
        frames=len(observations),
        refused=dict(Counter(mission.refused) + Counter(refused)),
        used=len(used),
        before=result.before,
        after=result.after,
        steps=result.learnt.steps,
        seconds_of=laps.seconds,
    )
    if result.refusal:
        log.error("%s: %s", mission.name, result.refusal)
        return replace(report, committed=False, reason=result.refusal, seconds=time.monotonic() - start)

    report = replace(report, kept=sum(kept.mission == mission.name for kept in result.buffer))
    learnt = LearntMission(identity_of(mission), mission.name, mission.modality, report.frames, report.used)
    follow_with_engines(store.root, replace(known, network=result.network, buffer=result.buffer))
    laps.end("engines")
    generation = commit_generation(
        store,
        result.network,
        result.buffer,
        GenerationFacts(
            parent=known.generation.number, missions=(*history, learnt), report=report, settings=asdict(settings)
        ),
        method_state=result.method_state,
        dispose=[mark] if mark is not None else [],
        bytes_needed=replace(known, buffer=result.buffer).bytes_of_next(),
    )
    if mark is not None:
        try:
            store.dispose(path)
        except StoreError as error:  # it is learnt all the same, and the next learner tries again
            log.error("%s", error)
            report = replace(report, keep_raw=True)
    store.prune(settings.keep_generations)
    laps.end("commit")
    seconds = time.monotonic() - start
    return replace(report, generation=generation.number, seconds=seconds, seconds_of=laps.seconds)


def identity_of(mission: Mission) -> str:
    """What tells one flight from another: its name and the time of its first image, wherever labels begin."""
    if not mission.frames:
        raise MissionError(f"{mission.path}: no frame passed the GNSS gates; nothing to learn")
    return f"{mission.name}@{mission.begins_ns or mission.frames[0].stamp_ns}"


def _most_bytes_kept(observations: Sequence[Observation], places: int) -> int:
    """By how much the replay buffer grows at most: its largest images, as many as it has places."""
    return sum(sorted((observation.n_bytes for observation in observations), reverse=True)[:places])
