"""One mission, learnt and selected from, on values: what `adapt` commits and what the benchmark measures."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from aerial_vpr_cl.knowledge.failpoints import failpoint
from aerial_vpr_cl.knowledge.report import Recalls
from aerial_vpr_cl.learning.adapt_settings import CalibrationSettings, GateSettings, MissionSettings
from aerial_vpr_cl.learning.calibration import calibrate, exemplars_in_other_looks, hold_back
from aerial_vpr_cl.learning.laps import Laps
from aerial_vpr_cl.learning.loop import LearnReport, Memories, learn
from aerial_vpr_cl.learning.method_options import chosen_method
from aerial_vpr_cl.learning.methods import method_of
from aerial_vpr_cl.learning.methods.base import MissionStep
from aerial_vpr_cl.learning.recipes import recipe_of
from aerial_vpr_cl.learning.selection import select_replay
from aerial_vpr_cl.learning.trunk_outputs import TrunkOutputs
from aerial_vpr_cl.learning.validation import Questions, refusal
from aerial_vpr_cl.memory.buffer import Observation, ReplayBuffer
from aerial_vpr_cl.model.network import Network
from aerial_vpr_cl.progress import Progress, silent

FEWEST_LOOKS = 32
"""Exemplars in other looks that are calibrated on, beside as many frames as were held back."""


@dataclass(frozen=True, eq=False)
class MissionResult:
    """What a mission made of network and replay buffer: the old ones where the gate refused the new."""

    network: Network
    buffer: ReplayBuffer
    refusal: str  # why the gate let nothing through; empty otherwise
    before: Recalls | None  # where a gate was asked
    after: Recalls | None
    learnt: LearnReport
    learn_s: float  # without what the trunk took, which may have seen the views before
    learn_views: int  # different pictures that the trunk must have seen for it
    select_s: float
    select_views: int
    method_state: Mapping[str, Tensor]  # what the method takes along to the next mission
    seconds: Mapping[str, float]  # of its parts, by name


def learn_mission(
    network: Network,
    buffer: ReplayBuffer,
    memories: Memories,
    frames: Sequence[Observation],
    past: Sequence[str],
    settings: MissionSettings,
    trunk: TrunkOutputs,
    *,
    method_state: Mapping[str, Tensor] | None = None,
    gate: GateSettings | None = None,
    calibration: CalibrationSettings | None = None,
    progress: Progress = silent,
) -> MissionResult:
    """Learn from the frames of a mission and select what the replay buffer keeps; nothing given is changed.

    `past` are the names of the missions learnt before. Without a gate the network is not measured, nor ever refused;
    without calibration all frames are learnt, and the temperature stays.
    """
    started, laps = time.monotonic(), Laps(trunk)
    trunk.tally()
    method = method_of(chosen_method(settings.method, north_up=network.settings.view.is_north_up))
    method.load_state(method_state or {})
    learnable, held = hold_back(frames, calibration.calibration_share) if calibration else (list(frames), [])
    memories = replace(memories, replay=tuple(buffer))
    adapted = network.copy_living_parts()
    questions = Questions.about(network, frames, memories, gate.gate_samples) if gate else None
    if questions:
        trunk.prepare(questions.pictures, progress)
    before = questions.put_to(adapted, trunk) if questions else None
    laps.end("measure")
    failpoint("learn.start")
    method.begin_mission(adapted, MissionStep(len(past) + 1, frames[0].mission, tuple(past)))
    recipe = recipe_of(network.backbone.name, network.settings.view)
    learnt = learn(adapted, learnable, memories, method, recipe, settings, trunk, progress)
    failpoint("learn.done")
    laps.end("learn")
    after = questions.put_to(adapted, trunk) if questions else None
    laps.end("measure")
    passed = trunk.tally()
    learn_s = time.monotonic() - started - passed.seconds
    reason = ""
    if gate and questions and before and after:
        reason = refusal(adapted, before, after, gate, len(questions.replay[0]), len(questions.exemplars[0]))
    if reason:
        kept, views = method_state or {}, passed.pictures
        return MissionResult(network, buffer, reason, before, after, learnt, learn_s, views, 0.0, 0, kept, laps.seconds)

    started = time.monotonic()
    failpoint("select.start")
    limits = buffer.bounded(settings.budget, int(settings.max_buffer_mb * 2**20) or None)
    rng = np.random.default_rng([settings.seed, 2, len(past)])
    selected = select_replay(adapted, frames, buffer, method, rng, trunk, progress, limits=limits)
    failpoint("select.done")
    chosen = trunk.tally()
    select_s = time.monotonic() - started - chosen.seconds
    laps.end("select")
    if calibration:
        views = max(FEWEST_LOOKS, len(held))
        looks = exemplars_in_other_looks(
            memories.exemplars, memories.satellite, views, network.input_size, settings.seed
        )
        calibrate(adapted, held, looks, trunk)
        laps.end("calibrate")
    return MissionResult(
        network=adapted,
        buffer=selected,
        refusal="",
        before=before,
        after=after,
        learnt=learnt,
        learn_s=learn_s,
        learn_views=passed.pictures,
        select_s=select_s,
        select_views=chosen.pictures,
        method_state=method.state(),
        seconds=laps.seconds,
    )
