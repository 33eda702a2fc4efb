"""The paper's protocol (sections 4.5, 5.1.1 and 5.2): learn missions one after the other, test on all after each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aerial_vpr_cl.benchmark.settings import Run
from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.evaluation.flight_score import FlightAnswers
from aerial_vpr_cl.evaluation.metrics import distance_errors
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.learning.adapt_settings import LearnSettings, MissionSettings
from aerial_vpr_cl.learning.loop import Memories
from aerial_vpr_cl.learning.mission_step import learn_mission
from aerial_vpr_cl.learning.observations import observations_of
from aerial_vpr_cl.learning.trunk_outputs import TrunkOutputs, scores_of, whole_image
from aerial_vpr_cl.localization.estimate import Estimate, Estimator, Rejection
from aerial_vpr_cl.localization.localizer import LocalizerSettings, answer_of
from aerial_vpr_cl.localization.view import ViewSettings
from aerial_vpr_cl.memory.buffer import Observation, ReplayBuffer
from aerial_vpr_cl.mission.course import with_course_heading
from aerial_vpr_cl.mission.mission import read_flight
from aerial_vpr_cl.mission.split import split_halves
from aerial_vpr_cl.model.network import Network
from aerial_vpr_cl.progress import Progress, silent


@dataclass(frozen=True, eq=False)
class FlownMission:
    """A mission as the protocol sees it: its first half to learn from, its second to test on."""

    name: str
    modality: str
    train: tuple[Observation, ...]  # with the cells that GNSS gives; none of a held-out mission
    test: tuple[Observation, ...]  # with true positions where the bag has them; all of a held-out mission

    @property
    def positions(self) -> NDArray[np.float64]:
        """(n, 2) positions of the test frames."""
        return np.array([observation.position for observation in self.test]).reshape(-1, 2)

    @property
    def shared_cells(self) -> float:
        """Share of the test frames whose cell was also flown over in the training half."""
        learnt = {observation.label for observation in self.train}
        return float(np.mean([observation.label in learnt for observation in self.test])) if self.test else float("nan")


def read_flown(path: Path, grid: Grid, views: ViewSettings, *, held_out: bool = False) -> FlownMission:
    """Read a bag and split it in acquisition order; it goes by the name of its folder."""
    flight = replace(read_flight(path, grid), name=path.name)
    tested = flight.over(grid)
    test = tuple(observations_of(tested, grid, views).observations)
    if held_out:
        return FlownMission(path.name, tested.modality, (), test)
    learnt = flight.by_gnss(grid)
    stamps = sorted({frame.stamp_ns for mission in (tested, learnt) for frame in mission.frames})
    first, second = (set(stamps[half]) for half in split_halves(len(stamps)))
    observed = observations_of(with_course_heading(learnt), grid, views).observations
    train = tuple(observation for observation in observed if observation.stamp_ns in first)
    test = tuple(observation for observation in test if observation.stamp_ns in second)
    if not train or not test:
        raise MissionError(
            f"{path}: {len(stamps)} frames leave {len(train)} to learn from and {len(test)} to test on; fly longer"
        )
    return FlownMission(path.name, tested.modality, train, test)


@dataclass(frozen=True, eq=False)
class Answers:
    """What a network says of the test frames of one mission."""

    classes: NDArray[np.int64]  # (n,) predicted cells, sure or not: the paper counts them all
    errors_m: NDArray[np.float64]  # (n,) from their centres to the true positions
    ranks: NDArray[np.int64]  # (n,) place of the cell that the frame was taken over, 1 if it was named first
    flown: FlightAnswers  # what a drone would have been told: positions with covariance, or refusals


def answer(network: Network, mission: FlownMission, trunk: TrunkOutputs) -> Answers:
    """Answer every test frame as a drone is answered frame by frame; only tail and heads have to run."""
    scores = scores_of(network, [whole_image(observation) for observation in mission.test], trunk)
    found = scores.argmax(axis=1)
    probabilities = network.probabilities(torch.from_numpy(scores).to(network.device)).detach().cpu().numpy()
    estimator, settings = Estimator(network.grid), LocalizerSettings()
    told = [answer_of(row, estimator, settings) for row in probabilities]
    nowhere = np.full(2, np.nan)
    given = [one.position if isinstance(one, Estimate) else nowhere for one in told]
    spread = [one.covariance if isinstance(one, Estimate) else np.diag(nowhere) for one in told]
    flown = FlightAnswers(
        name=mission.name,
        modality=mission.modality,
        positions="truth",
        stamps_ns=np.array([observation.stamp_ns for observation in mission.test], np.int64),
        truth=mission.positions,
        given=np.array(given).reshape(-1, 2),
        covariances=np.array(spread).reshape(-1, 2, 2),
        reasons=tuple(one.reason if isinstance(one, Rejection) else "" for one in told),
    )
    right = scores[np.arange(len(scores)), [observation.label for observation in mission.test]]
    ranks = 1 + (scores > right[:, None]).sum(axis=1)
    return Answers(found, distance_errors(network.grid.centres[found], mission.positions), ranks, flown)


@dataclass(eq=False)
class Trajectory:
    """A run: answers on every mission before the first and after each mission, and what it took."""

    run: Run
    missions: tuple[str, ...]  # in the order in which they were learnt
    answers: list[dict[str, Answers]] = field(default_factory=list)  # K + 1 times, by mission
    losses: list[float] = field(default_factory=list)  # of the last epoch of each mission
    learn_s: list[float] = field(default_factory=list)
    learn_views: list[int] = field(default_factory=list)
    select_s: list[float] = field(default_factory=list)
    select_views: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Course:
    """Everything that runs of one benchmark share: the map's memory, the base model, and the missions."""

    grid: Grid
    base: Network
    memories: Memories  # the exemplars; its replay part is empty
    sequence: tuple[FlownMission, ...]  # forward order
    held_out: tuple[FlownMission, ...]
    learn: LearnSettings

    @property
    def missions(self) -> tuple[FlownMission, ...]:
        """All that is tested on."""
        return self.sequence + self.held_out


def fly_course(
    course: Course, run: Run, missions: Sequence[FlownMission], trunk: TrunkOutputs, progress: Progress = silent
) -> tuple[Trajectory, Network, ReplayBuffer]:
    """Learn the missions in the given order, as `adapt` does one by one, and test on all of them after each."""
    network = course.base
    buffer = ReplayBuffer.empty(course.grid.n_groups, run.budget)
    settings = MissionSettings(**{**asdict(course.learn), "seed": run.seed}, method=run.method, budget=run.budget)
    names = tuple(mission.name for mission in missions)
    trajectory = Trajectory(run, names)
    trajectory.answers.append({mission.name: answer(network, mission, trunk) for mission in course.missions})
    method_state: Mapping[str, Tensor] = {}
    for k, mission in enumerate(missions):
        part = _share_of(progress, k, len(missions))
        result = learn_mission(
            network,
            buffer,
            course.memories,
            mission.train,
            names[:k],
            settings,
            trunk,
            method_state=method_state,
            progress=part,
        )
        network, buffer, method_state = result.network, result.buffer, result.method_state
        trajectory.learn_s.append(result.learn_s)
        trajectory.learn_views.append(result.learn_views)
        trajectory.select_s.append(result.select_s)
        trajectory.select_views.append(result.select_views)
        trajectory.steps.append(result.learnt.steps)
        trajectory.losses.append(result.learnt.epoch_losses[-1] if result.learnt.epoch_losses else float("nan"))
        trajectory.answers.append({mission.name: answer(network, mission, trunk) for mission in course.missions})
        progress("run", (k + 1) * 1000, len(missions) * 1000)
    return trajectory, network, buffer


def errors_of(answers: Mapping[str, Answers], missions: Sequence[str]) -> NDArray[np.float64]:
    """Position errors of some missions end to end."""
    return np.concatenate([np.empty(0), *[answers[name].errors_m for name in missions]])


def _share_of(progress: Progress, number: int, count: int) -> Progress:
    """Progress of one mission's learning as part of the run, in thousandths."""

    def report(phase: str, done: int, total: int, **figures: float) -> None:
        if phase == "learn":
            progress("run", number * 1000 + 999 * done // max(1, total), count * 1000, **figures)

    return report
