"""Trees: closed crowns in the forest, rows in hedges and on river banks, scattered ones in gardens and meadows."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.simulation.world.layers import Ground
from aerial_vpr_cl.simulation.world.noise import smooth_noise

TREES_PER_HA = {Ground.YARD: 16.0, Ground.MEADOW: 2.5, Ground.PAVED: 3.0}
BANK_TREES_PER_HA, HEDGE_TREES_PER_HA, FOREST_TREES_PER_HA = 90.0, 170.0, 190.0


def grow_trees(
    ground: NDArray[np.uint8],
    building: NDArray[np.int32],
    hedge: NDArray[np.uint8],
    resolution_m: float,
    rng: np.random.Generator,
) -> NDArray[np.float32]:
    """(H, W) height of the crowns in metres, 0 where none are."""
    shape = ground.shape
    bank = cv2.dilate((ground == Ground.WATER).astype(np.uint8), np.ones((7, 7), np.uint8))
    clumps = smooth_noise(shape, 60.0 / resolution_m, rng, octaves=2)
    density = np.zeros(shape, np.float32)
    for kind, trees_per_ha in TREES_PER_HA.items():
        density[ground == kind] = trees_per_ha
    density *= np.clip(1.0 + clumps, 0.0, 3.0)
    density[(bank > 0) & (clumps > 0)] = BANK_TREES_PER_HA
    density[hedge > 0] = HEDGE_TREES_PER_HA
    density[ground == Ground.FOREST] = FOREST_TREES_PER_HA
    bare = np.isin(ground, (Ground.WATER, Ground.ROAD, Ground.RAIL, Ground.TRACK)) | (building > 0)
    density[bare] = 0.0
    stems = rng.random(shape, np.float32) < density * np.float32(resolution_m**2 / 1e4)
    height = np.where(stems, rng.uniform(6.0, 20.0, shape), 0.0).astype(np.float32)
    # A crown is a dome about as wide as half the tree is high.
    if resolution_m <= 3.0:
        height = np.asarray(cv2.dilate(height, np.ones((3, 3), np.uint8)), np.float32)
    crowns = np.asarray(cv2.GaussianBlur(height, (0, 0), 0.55 * max(1.0, 3.2 / resolution_m)), np.float32)
    crowns[crowns < 2.0] = 0.0
    # High trees lean over a road, but not over a roof.
    crowns[bare & ((crowns < 9.0) | (building > 0))] = 0.0
    return crowns
