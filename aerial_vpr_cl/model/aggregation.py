"""Aggregation of a map of patch features into one L2-normalised descriptor: GeM, its quarters and SALAD, by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aerial_vpr_cl.errors import ModelError
from aerial_vpr_cl.model.weights import seeded
from aerial_vpr_cl.settings import setting


@dataclass(frozen=True)
class SaladSettings:
    """Sizes of SALAD; the defaults are those of its authors."""

    clusters: int = setting(64, "clusters; fewer than the backbone has patches", low=1)
    cluster_dim: int = setting(128, "dimensions kept of each cluster", low=1)
    global_dim: int = setting(256, "dimensions of the descriptor of the whole image", low=1)
    hidden_dim: int = setting(512, "width of the hidden layers", low=1)
    dropout: float = setting(
        0.3, "dropout in the hidden layers of scores and features; 0 turns it off", low=0, high=0.9
    )
    iterations: int = setting(3, "Sinkhorn iterations", low=1)


class GeM(nn.Module):
    """Generalised mean over the patches, p = 3 fixed, without parameters (paper, section 5.1.3)."""

    p = 3.0
    floor = 1e-6

    def __init__(self, feature_dim: int) -> None:
        super().__init__()
        self.output_dim = feature_dim

    def forward(self, maps: Tensor) -> Tensor:
        """(B, D, H, W) to (B, D), L2-normalised."""
        return F.normalize(self.mean(maps), dim=1)

    def mean(self, maps: Tensor) -> Tensor:
        """(B, D, H, W) to (B, D), in fp32: the cube of the floor is below what half precision can hold."""
        with torch.autocast(maps.device.type, enabled=False):
            powers = maps.float().clamp(min=self.floor).pow(self.p)
            return powers.mean(dim=(2, 3)).pow(1 / self.p)


class Quarters(nn.Module):
    """GeM of each quarter of the map, side by side: where in the view something lies counts. Not in the paper.

    GeM forgets where a feature was, which is right where headings are chance. North up that is known, and tells places
    apart that hold the same things. Of maps with an odd side the middle belongs to both halves.
    """

    def __init__(self, feature_dim: int) -> None:
        super().__init__()
        self.pool = GeM(feature_dim)
        self.output_dim = 4 * feature_dim

    def forward(self, maps: Tensor) -> Tensor:
        """(B, D, H, W) to (B, 4 D): every feature north-west, north-east, south-west, south-east."""
        halves = [(slice(0, (side + 1) // 2), slice(side // 2, side)) for side in maps.shape[2:]]
        quarters = [self.pool.mean(maps[:, :, rows, columns]) for rows in halves[0] for columns in halves[1]]
        return F.normalize(torch.stack(quarters, dim=2).flatten(1), dim=1)


class Salad(nn.Module):
    """Sinkhorn Algorithm for Locally Aggregated Descriptors (Izquierdo and Civera, CVPR 2024; paper, section 5.5.1).

    Patches are assigned to clusters or a dustbin by optimal transport; each cluster sums what it was assigned. The
    authors append a descriptor of DINOv2's CLS token; tails here give patch features only, CNNs have no such token,
    so the descriptor of the whole image is made from the mean patch feature instead.
    """

    def __init__(self, feature_dim: int, settings: SaladSettings) -> None:
        super().__init__()
        self.settings = settings
        self.output_dim = settings.global_dim + settings.clusters * settings.cluster_dim
        hidden = settings.hidden_dim

        def per_patch(output_dim: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv2d(feature_dim, hidden, 1),
                nn.Dropout(settings.dropout),
                nn.ReLU(),
                nn.Conv2d(hidden, output_dim, 1),
            )

        self.score = per_patch(settings.clusters)
        self.cluster_features = per_patch(settings.cluster_dim)
        self.global_features = nn.Sequential(
            nn.Linear(feature_dim, hidden), nn.ReLU(), nn.Linear(hidden, settings.global_dim)
        )
        self.dustbin = nn.Parameter(torch.tensor(1.0))

    def forward(self, maps: Tensor) -> Tensor:
        """(B, D, H, W) to (B, global_dim + clusters · cluster_dim)."""
        scores = self.score(maps).flatten(2)  # (B, clusters, patches)
        features = self.cluster_features(maps).flatten(2)  # (B, cluster_dim, patches)
        scene = self.global_features(maps.mean(dim=(2, 3)))
        with torch.autocast(maps.device.type, enabled=False):
            plan = assign(scores.float(), self.dustbin.float(), self.settings.iterations)
            clusters = features.float() @ plan.transpose(1, 2)  # (B, cluster_dim, clusters)
            parts = [F.normalize(scene.float(), dim=1), F.normalize(clusters, dim=1).flatten(1)]
            return F.normalize(torch.cat(parts, dim=1), dim=1)


def assign(scores: Tensor, dustbin: Tensor, iterations: int) -> Tensor:
    """Share of each patch that goes to each cluster: scores (B, m, n) to (B, m, n), by Sinkhorn in the log domain.

    Each patch sends mass 1; each cluster receives 1 and the dustbin, whose score is one number, the other n − m.
    """
    batch, clusters, patches = scores.shape
    if clusters >= patches:
        raise ModelError(
            f"SALAD with {clusters} clusters needs more than {clusters} patches, the image has {patches}; "
            "use fewer clusters or a larger input"
        )
    scores = torch.cat([scores, dustbin.expand(batch, 1, patches)], dim=1)
    log_received = scores.new_zeros(clusters + 1)
    log_received[-1] = math.log(patches - clusters)
    v = scores.new_zeros(batch, 1, patches)
    for _ in range(iterations):
        u = log_received[:, None] - torch.logsumexp(scores + v, dim=2, keepdim=True)
        v = -torch.logsumexp(scores + u, dim=1, keepdim=True)
    return (scores + u + v).exp()[:, :-1]


AGGREGATIONS: dict[str, Callable[[int, SaladSettings], nn.Module]] = {
    "gem": lambda feature_dim, salad: GeM(feature_dim),
    "quarters": lambda feature_dim, salad: Quarters(feature_dim),
    "salad": Salad,
}
"""Name to what makes it: (feature_dim, SALAD's settings) → module (B, D, H, W) → (B, output_dim), with `output_dim`."""


def build_aggregation(name: str, feature_dim: int, salad: SaladSettings | None = None, *, seed: int = 0) -> nn.Module:
    """Make an aggregation by name, its parameters drawn from the seed."""
    if name not in AGGREGATIONS:
        raise ModelError(f"aggregation '{name}' is not known; choose one of {', '.join(AGGREGATIONS)}")
    with seeded(seed):
        return AGGREGATIONS[name](feature_dim, salad or SaladSettings())
