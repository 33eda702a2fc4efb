"""What a continual-learning method is: the losses of a step and the memory it keeps. Everything else is shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from aerial_vpr_cl.learning.batches import CURRENT, EXEMPLAR, REPLAY
from aerial_vpr_cl.learning.method_options import MethodOptions
from aerial_vpr_cl.memory.buffer import Observation
from aerial_vpr_cl.model.network import Network


@dataclass(frozen=True)
class Batch:
    """A mixed batch on the device, all of one group; rows stand in the order current, exemplar, replay."""

    group: int
    trunk: Tensor  # (n, ...) trunk outputs
    labels: Tensor  # (n,) class ids
    source: Tensor  # (n,) CURRENT, EXEMPLAR or REPLAY
    replayed: Sequence[Observation]  # the observations behind the replay rows, with their stored logits and features

    def of(self, source: int) -> Tensor:
        """(n,) mask of the rows of one source."""
        return self.source == source


@dataclass(frozen=True)
class MissionStep:
    """Where in the sequence of missions a method stands when a mission begins."""

    number: int  # k of the paper, from 1
    mission: str
    past_missions: tuple[str, ...]


class Method:
    """Base of all methods. Subclasses set the class attributes and override `loss`; the hooks are optional."""

    name = ""
    uses_exemplars = True
    strategy: str | None = None  # name of the memory's selection strategy; None keeps no replay buffer
    stores_logits = False  # observations carry the own head's s·cos of when they entered the buffer
    stores_features = False
    turns_frames = False  # frames as seen are shown turned, as satellite exemplars are; north up nothing is
    refreshes_stored = False  # logits and features of what stays in the buffer become those of the newest network

    def __init__(self, options: MethodOptions) -> None:
        self.options = options

    def begin_mission(self, network: Network, step: MissionStep) -> None:
        """Called once before a mission is learnt: the place for a frozen copy of the network as it was."""

    def begin_learning(
        self, network: Network, current: Sequence[Observation], replay: Sequence[Observation], tail_rate: float
    ) -> None:
        """Called once before the first step, with all that the steps will draw from and the tail's learning rate."""

    def begin_epoch(self, network: Network, group: int) -> None:
        """Called before every epoch with the group that becomes active."""

    def before_step(self, network: Network, batch: Batch) -> None:
        """Called before every step, for methods with optimisers of their own."""

    def loss(self, network: Network, batch: Batch) -> Tensor:
        """The scalar that a step minimises."""
        raise TypeError(f"{type(self).__name__} defines no loss")

    def tail_loss(self, network: Network, batch: Batch) -> Tensor | None:
        """A second scalar, minimised by a step of the tail alone after the first; None makes no such step."""
        return None

    def after_step(self, network: Network, step: int) -> None:
        """Called after every step with its number, from 1."""

    def end_learning(self, network: Network) -> None:
        """Called once after the last step, before the network is measured and selected with."""

    def state(self) -> dict[str, Tensor]:
        """What a method learns beside the network and takes along to the next mission, by name."""
        return {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Go on with what `state` gave after the mission before; called before `begin_mission`."""

    def classification_loss(self, network: Network, batch: Batch, features: Tensor) -> Tensor:
        """Mean CE(current) + λ_EX mean CE(M_EX) + λ_ER mean CE(replay): the paper's L_total (section 4.3)."""
        losses = network.heads.cross_entropy(features, batch.labels, batch.group)
        total = losses.new_zeros(())
        weights = {
            CURRENT: 1.0,
            EXEMPLAR: getattr(self.options, "exemplar_weight", 1.0),
            REPLAY: getattr(self.options, "replay_weight", 1.0),
        }
        for source, weight in weights.items():
            rows = batch.of(source)
            if bool(rows.any()):
                total = total + weight * losses[rows].mean()
        return total


def frozen_copy(network: Network) -> Network:
    """The network as a teacher: same trunk, copied tail and heads without gradients."""
    teacher = network.copy_living_parts()
    for parameter in teacher.parameters():
        parameter.requires_grad_(False)
    return teacher.eval()


def stored(observations: Sequence[Observation], what: str, device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows (m,) of the observations that carry `logits` or a `feature`, and those as (m, d).

    A buffer that another method has filled carries none.
    """
    found = [(row, getattr(entry, what)) for row, entry in enumerate(observations) if getattr(entry, what) is not None]
    rows = torch.tensor([row for row, _ in found], dtype=torch.int64, device=device)
    values = [torch.as_tensor(value, dtype=torch.float32) for _, value in found]
    return rows, torch.stack(values).to(device) if values else torch.empty(0, 0, device=device)
