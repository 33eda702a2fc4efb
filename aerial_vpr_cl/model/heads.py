"""The classifier: one additive angular margin head for each of the N² groups of cells (paper, section 5.1.3)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aerial_vpr_cl.geo.grid import Grid

COSINE_LIMIT = 1 - 1e-7
"""Cosines are held to ±this: the gradient of the sine has no bound at ±1."""


class GroupedHeads(nn.Module):
    """N² weight matrices without bias, a row for each class; always in fp32.

    Row r of group g belongs to class grid.classes_of_group(g)[r]. Labels are class ids of the grid everywhere.
    A group without classes has a head without rows.
    """

    row_of_class: Tensor
    group_of_class: Tensor
    column_of_class: Tensor

    def __init__(self, grid: Grid, dim: int, *, margin: float = 0.2, scale: float = 100.0, seed: int = 0) -> None:
        super().__init__()
        self.dim = dim
        self.margin = margin
        self.scale = scale
        classes = [torch.from_numpy(grid.classes_of_group(group)) for group in range(grid.n_groups)]
        generator = torch.Generator().manual_seed(seed)
        self.weights = nn.ParameterList(_xavier(len(members), dim, generator) for members in classes)
        row = torch.empty(grid.n_classes, dtype=torch.int64)
        for members in classes:
            row[members] = torch.arange(len(members))
        self.register_buffer("row_of_class", row, persistent=False)
        self.register_buffer("group_of_class", torch.tensor(grid.groups), persistent=False)
        self.register_buffer("column_of_class", torch.argsort(torch.cat(classes)), persistent=False)

    def cosines(self, z: Tensor) -> Tensor:
        """(B, dim) features to (B, C) cosines with every class, in class order: the scores at inference."""
        with _full_precision(z):
            side_by_side = torch.cat([self._group_cosines(z, group) for group in range(len(self.weights))], dim=1)
            return side_by_side[:, self.column_of_class]

    def logits(self, z: Tensor, group: int, labels: Tensor | None = None) -> Tensor:
        """(B, dim) features to (B, C_g) logits of one group; with labels, the margin stands before their classes.

        s·cos(θ + m) for the class of the label where cos θ > 0 (easy margin), s·cos θ otherwise.
        """
        with _full_precision(z):
            cosines = self._group_cosines(z, group)
            if labels is None:
                return self.scale * cosines
            row = self.rows(labels, group)[:, None]
            cos = cosines.gather(1, row).clamp(-COSINE_LIMIT, COSINE_LIMIT)
            sin = (1 - cos * cos).sqrt()
            with_margin = cos * math.cos(self.margin) - sin * math.sin(self.margin)
            return self.scale * cosines.scatter(1, row, torch.where(cos > 0, with_margin, cos))

    def cross_entropy(self, z: Tensor, labels: Tensor, group: int, *, margin: bool = True) -> Tensor:
        """(B,) losses of features of one group, with the margin for training or without it for selection (LBS)."""
        logits = self.logits(z, group, labels if margin else None)
        return F.cross_entropy(logits, self.rows(labels, group), reduction="none")

    def rows(self, labels: Tensor, group: int) -> Tensor:
        """Rows of a group's head that belong to the labels, all of which must be classes of that group."""
        if len(labels) and (int(labels.min()) < 0 or int(labels.max()) >= len(self.row_of_class)):
            raise ValueError(f"labels must be class ids below {len(self.row_of_class)}, found {labels.tolist()}")
        if not bool((self.group_of_class[labels] == group).all()):
            raise ValueError(f"every label of a batch must be a class of the active group {group}")
        return self.row_of_class[labels]

    @torch.no_grad()
    def prototypes(self, labels: Tensor) -> Tensor:
        """(n, dim) L2-normalised classifier rows w_y of the labels, which may be of any group."""
        return self.unit_rows()[labels]

    @torch.no_grad()
    def unit_rows(self) -> Tensor:
        """(C, dim) L2-normalised classifier rows of all classes, in class order."""
        rows = torch.cat([F.normalize(weight.float(), dim=1) for weight in self.weights])
        return rows[self.column_of_class]

    @torch.no_grad()
    def point_at(self, directions: Tensor) -> None:
        """Turn all classifier rows towards (C, dim) directions, in class order; their lengths stay."""
        for group, weight in enumerate(self.weights):
            members = torch.nonzero(self.group_of_class == group).flatten()
            wanted = F.normalize(directions[members], dim=1) * weight[self.row_of_class[members]].norm(dim=1)[:, None]
            weight[self.row_of_class[members]] = wanted

    def _group_cosines(self, z: Tensor, group: int) -> Tensor:
        return F.linear(F.normalize(z.float(), dim=1), F.normalize(self.weights[group].float(), dim=1))


def _full_precision(z: Tensor) -> torch.autocast:
    return torch.autocast(z.device.type, enabled=False)


def _xavier(n_classes: int, dim: int, generator: torch.Generator) -> nn.Parameter:
    limit = math.sqrt(6 / (n_classes + dim))
    values = torch.empty(n_classes, dim).uniform_(-limit, limit, generator=generator)
    return nn.Parameter(values, requires_grad=n_classes > 0)  # an optimiser has nothing to do in an empty group
