"""Heads that begin as what their cells look like instead of at random (weight imprinting, Qi et al., CVPR 2018).

Not in the paper. A head that begins at random has to be shown every cell often before it tells any from another; on a
map of thousands of cells that takes longer than all the rest.
"""

from __future__ import annotations

import functools

import numpy as np
import torch

from aerial_vpr_cl.learning.processes import sum_over_processes
from aerial_vpr_cl.learning.satellite_batches import SatelliteBatches, read_ahead
from aerial_vpr_cl.model.network import Network
from aerial_vpr_cl.progress import Progress, silent


@torch.no_grad()
def imprint(
    network: Network,
    batches: SatelliteBatches,
    views: int,
    readers: int = 2,
    progress: Progress = silent,
    rank: int = 0,
    world: int = 1,
) -> None:
    """Turn every classifier towards the mean feature of so many training views of its cell.

    What all cells have in common is taken out first: the features are positive, so their means point nearly the same
    way. Of several processes each sees its share of the views.
    """
    n_classes = network.grid.n_classes
    rows = np.tile(np.arange(n_classes), views)
    parts = list(enumerate(np.array_split(rows, -(-len(rows) // batches.batch))))[rank::world]
    tasks = (functools.partial(batches.of_cells, part, number) for number, part in parts)
    sums = torch.zeros(n_classes, network.feature_dim, device=network.device)
    for done, shown in enumerate(read_ahead(tasks, readers), start=1):
        features = network.features(network.normalise(shown.images)).float()
        sums.index_add_(0, torch.from_numpy(shown.labels).to(network.device), features)
        progress("cells", done, len(parts))
    sums = sum_over_processes(sums)
    if n_classes > 1:  # one cell has everything in common with itself
        sums -= sums.mean(dim=0)
    network.heads.point_at(sums)
