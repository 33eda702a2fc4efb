"""A tiny network, mixed batches over it, and its losses the slow way, in double precision and plain loops."""

from __future__ import annotations

import math

import cv2
import numpy as np
import torch
from torch import nn

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.learning.batches import CURRENT, EXEMPLAR, REPLAY
from aerial_vpr_cl.learning.methods.base import Batch, MissionStep
from aerial_vpr_cl.memory.buffer import Observation
from aerial_vpr_cl.model.heads import GroupedHeads
from aerial_vpr_cl.model.network import Network, NetworkSettings

GRID = Grid(32632, 200.0, 2, np.array([(i, j) for i in range(4) for j in range(4)]))
DIM = 6
SCALE, MARGIN = 10.0, 0.2
STEP_1 = MissionStep(1, "now", ())
STEP_3 = MissionStep(3, "now", ("first", "second"))


class TinyBackbone(nn.Module):
    """A trunk that does nothing and one convolution as the tail."""

    name, input_size, feature_dim, n_patches = "tiny", 2, DIM, 4
    mean, std = (0.5, 0.5, 0.5), (0.2, 0.2, 0.2)

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Identity()
        self.tail = nn.Conv2d(3, DIM, 1)


class Mean(nn.Module):
    output_dim = DIM

    def forward(self, maps):
        return nn.functional.normalize(maps.mean(dim=(2, 3)), dim=1)


def tiny_network(seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        heads = GroupedHeads(GRID, DIM, margin=MARGIN, scale=SCALE, seed=seed)
        return Network(NetworkSettings(scale=SCALE), GRID, TinyBackbone(), Mean(), heads).eval()


def observation(label, mission="first", seed=0, **outputs):
    rng = np.random.default_rng([seed, label])
    _, png = cv2.imencode(".png", rng.integers(0, 256, (4, 4, 3), dtype=np.uint8))
    return Observation(png.tobytes(), label, rng.normal(size=2), seed, mission, "VIS", **outputs)


def remembered(label, mission, seed):
    rng = np.random.default_rng([seed, label, 1])
    group = int(GRID.groups[label])
    logits = rng.normal(size=len(GRID.classes_of_group(group))).astype(np.float32)
    feature = rng.normal(size=DIM).astype(np.float32)
    return observation(label, mission, seed, logits=logits, feature=feature / np.linalg.norm(feature))


def mixed_batch(group=1, n=(4, 3, 3), seed=0, missions=("first", "second", "first")):
    rng = np.random.default_rng(seed)
    classes = GRID.classes_of_group(group)
    labels = rng.choice(classes, sum(n))
    source = np.repeat([CURRENT, EXEMPLAR, REPLAY], n)
    replayed = [remembered(int(label), m, k) for k, (label, m) in enumerate(zip(labels[n[0] + n[1] :], missions))]
    trunk = torch.tensor(rng.normal(size=(sum(n), 3, 2, 2)), dtype=torch.float32)
    return Batch(group, trunk, torch.tensor(labels), torch.tensor(source), replayed)


def features_of(network, batch):
    with torch.no_grad():
        return network.features_of_trunk(batch.trunk).double().numpy()


def slow_logits(network, z, group, label=None):
    """s·cos of one feature with the rows of a head; with a label, the margin stands before it."""
    weights = network.heads.weights[group].detach().double().numpy()
    logits = []
    for row, w in enumerate(weights):
        cos = float(z @ w / np.linalg.norm(z) / np.linalg.norm(w))
        if label is not None and GRID.classes_of_group(group)[row] == label and cos > 0:
            cos = math.cos(math.acos(cos) + MARGIN)
        logits.append(SCALE * cos)
    return np.array(logits)


def softmax(logits):
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


def slow_ce(network, z, label, group):
    row = list(GRID.classes_of_group(group)).index(label)
    return -math.log(softmax(slow_logits(network, z, group, label))[row])


def slow_kl(teacher_logits, student_logits, T=2.0):
    p, q = softmax(teacher_logits / T), softmax(student_logits / T)
    return T**2 * sum(a * math.log(a / b) for a, b in zip(p, q))


def slow_ces(network, batch):
    z = features_of(network, batch)
    return np.array([slow_ce(network, z[i], int(batch.labels[i]), batch.group) for i in range(len(z))])


def slow_total(network, batch):
    ces, source = slow_ces(network, batch), batch.source.numpy()
    return sum(ces[source == s].mean() for s in (CURRENT, EXEMPLAR, REPLAY) if (source == s).any())


def begin(method, network, step=STEP_3, batch=None, current=20):
    method.begin_mission(network, step)
    here = [observation(int(GRID.classes_of_group(1)[0]), "now", k) for k in range(current)]
    method.begin_learning(network, here, batch.replayed if batch is not None else [], tail_rate=1e-4)


def learnt(network):
    """The same network after some learning."""
    other = network.copy_living_parts()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3))
    return other
