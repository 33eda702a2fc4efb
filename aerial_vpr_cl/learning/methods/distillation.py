"""Knowledge distillation: how far a student's class distribution lies from its teacher's."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from aerial_vpr_cl.model.network import Network


def distillation(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """(n,) T²·KL(softmax(teacher/T) ‖ softmax(student/T)) of logits (n, C): the term of the paper's LwF equation."""
    ours, theirs = F.log_softmax(student / temperature, dim=1), F.log_softmax(teacher / temperature, dim=1)
    return temperature**2 * F.kl_div(ours, theirs, reduction="none", log_target=True).sum(dim=1)


def distil_heads(
    network: Network, teacher: Network, features: Tensor, trunk: Tensor, groups: list[int], temperature: float
) -> Tensor:
    """(n,) distillation summed over the heads of some groups; the teacher sees the same trunk outputs."""
    with torch.no_grad():
        taught = teacher.features_of_trunk(trunk)
    total = features.new_zeros(len(features))
    for group in groups:
        if not len(network.heads.weights[group]):
            continue
        with torch.no_grad():
            target = teacher.heads.logits(taught, group)
        total = total + distillation(network.heads.logits(features, group), target, temperature)
    return total
