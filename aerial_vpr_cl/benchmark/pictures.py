"""Pictures of a benchmark that need its missions: single answers as tiles, and retained frames in feature space."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.benchmark.protocol import FlownMission
from aerial_vpr_cl.benchmark.records import Record
from aerial_vpr_cl.benchmark.settings import Run
from aerial_vpr_cl.benchmark.work_folder import WorkFolder
from aerial_vpr_cl.errors import ModelError
from aerial_vpr_cl.evaluation import plots
from aerial_vpr_cl.evaluation.tables import method_title
from aerial_vpr_cl.images import decode_compressed
from aerial_vpr_cl.knowledge.map_folder import MapFolder
from aerial_vpr_cl.learning.trunk_outputs import features_of, whole_image
from aerial_vpr_cl.memory.picture import draw_retained
from aerial_vpr_cl.model.network import Network

log = logging.getLogger(__name__)

COMPARED = ("random", "dbs_hybrid")
RETAINED = ("random", "lbs", "dbs", "dbs_hybrid")
TILE_PX = 160


def draw_pictures(work: WorkFolder, records: Mapping[Run, Record], folder: Path) -> None:
    """The paper's qualitative panels and the projection of retained frames, as far as records and missions are there.

    One of each for every budget. Where only the records were kept, there is nothing to show.
    """
    if not (work.store / "map").is_dir():
        return
    for budget in sorted({run.budget for run in records if run.budget}):
        own = {run: record for run, record in records.items() if run.budget == budget}
        cases = qualitative_cases(work, own)
        if cases:
            plots.save(plots.qualitative_panels(cases), folder / f"qualitative-B{budget}.png")
        draw_retained_frames(work, own, folder, f"B{budget}")


def qualitative_cases(work: WorkFolder, records: Mapping[Run, Record]) -> list[plots.QualitativeCase]:
    """Frames of the sequence and held out on which two methods differ most: first in favour of the second method, then
    of the first.

    Shown is the prediction of the seed with the median error, with the number of seeds that were right.
    """
    compared = {method: _runs_of(records, method) for method in COMPARED}
    if not all(compared.values()):
        return []
    record = compared[COMPARED[-1]][0]
    cases = []
    for kind, names in (("sequence", record["missions"]), ("held out", record["held_out"])):
        for modality in ("VIS", "IR"):
            flown = [name for name in names if record["facts"][name]["modality"] == modality]
            cases += _cases(work, compared, kind, flown, record["threshold_m"])
    return cases


def draw_retained_frames(work: WorkFolder, records: Mapping[Run, Record], folder: Path, ending: str) -> None:
    """First mission of the sequence and first infrared one: which of their frames the strategies still hold.

    As in the paper (section 5.6.2) the space is that of the backbone as it was pretrained, with GeM: no run, and no
    base training either, has moved it.
    """
    kept = {method: found[0] for method in RETAINED if (found := _runs_of(records, method))}
    if not kept:
        return
    course, trunk = work.open()
    try:
        pretrained = pretrained_network(course.base, work.benchmark.settings.base.weights)
    except ModelError as error:
        log.warning("no picture of retained frames: %s", error)
        return
    record = next(iter(kept.values()))
    infrared = [name for name in record["missions"] if record["facts"][name]["modality"] == "IR"]
    for name in dict.fromkeys([record["missions"][0], *infrared[:1]]):
        mission = next(mission for mission in course.sequence if mission.name == name)
        features = features_of(pretrained, [whole_image(observation) for observation in mission.train], trunk)
        panels = {}
        for method, own in kept.items():
            retained = np.isin(np.arange(len(mission.train)), own["buffer"]["kept"][name])
            panels[f"{method_title(method)}, {name}"] = (features, retained)
        draw_retained(panels, folder / f"retained-{name}-{ending}.png")


def pretrained_network(network: Network, weights: str | None) -> Network:
    """The same backbone before any training of ours, with GeM."""
    settings = replace(network.settings, aggregation="gem")
    return Network.build(settings, network.grid, weights=weights, device=network.device)


def _runs_of(records: Mapping[Run, Record], method: str) -> list[Record]:
    return [record for run, record in sorted(records.items()) if run.method == method and run.order == "forward"]


def _cases(
    work: WorkFolder, compared: Mapping[str, list[Record]], kind: str, names: list[str], limit_m: float
) -> list[plots.QualitativeCase]:
    """One frame each of the first missions."""
    first, second = (compared[method] for method in COMPARED)
    cases: list[plots.QualitativeCase] = []
    for name, favour in zip(names, (1, -1)):
        hits = [_hits(found, name, limit_m).sum(axis=0) for found in (first, second)]
        frame = int(np.argmax(favour * (hits[1] - hits[0])))
        mission = work.read(name, held_out=kind == "held out")
        cases.append(_case(work.map, mission, frame, compared, f"{name}, {mission.modality}, {kind}", limit_m))
    return cases


def _hits(found: list[Record], name: str, limit_m: float) -> NDArray[np.bool_]:
    return np.array([record["final"][name]["errors_m"] for record in found]) <= limit_m


def _case(
    folder: MapFolder,
    mission: FlownMission,
    frame: int,
    compared: Mapping[str, list[Record]],
    title: str,
    limit_m: float,
) -> plots.QualitativeCase:
    observation = mission.test[frame]
    predicted, notes, right = {}, {}, {}
    for method, found in compared.items():
        errors = [record["final"][mission.name]["errors_m"][frame] for record in found]
        middle = int(np.argsort(errors)[len(errors) // 2])
        label = method_title(method)
        cell = found[middle]["final"][mission.name]["classes"][frame]
        predicted[label] = _tile(folder, folder.grid.centres[cell])
        hits = sum(error <= limit_m for error in errors)
        notes[label] = f"{errors[middle]:.0f} m; within {limit_m:g} m: {hits}/{len(errors)}"
        right[label] = errors[middle] <= limit_m
    return plots.QualitativeCase(
        title, decode_compressed(observation.image), _tile(folder, observation.position), predicted, notes, right
    )


def _tile(folder: MapFolder, centre: NDArray[np.float64]) -> NDArray[np.uint8]:
    images, _ = folder.satellite.read_patches(centre[None], np.zeros(1), folder.settings.footprint_m, TILE_PX)
    return images[0]
