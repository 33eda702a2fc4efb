"""How sure an answer may be: the temperature, fitted on what was not learnt.

On clean views of its own map a network is nearly always right, and a temperature fitted there promises too much under
any other look. So views of the map are shown in strongly changed looks, and frames of a mission are held back for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from aerial_vpr_cl.learning.augmentation import STYLE, change_look
from aerial_vpr_cl.learning.trunk_outputs import Picture, TrunkOutputs, whole_image
from aerial_vpr_cl.learning.trunk_outputs import scores_of as pictured_scores
from aerial_vpr_cl.memory.buffer import Observation
from aerial_vpr_cl.model.batches import in_batches
from aerial_vpr_cl.model.network import Network
from aerial_vpr_cl.satellite.exemplars import ExemplarMemory
from aerial_vpr_cl.satellite.raster import SatelliteMap

Frame = TypeVar("Frame")

RUN = 5
"""Consecutive frames that are held back together: a lone frame looks like its neighbours, which are learnt."""


def in_other_looks(images: NDArray[np.uint8], seed: int) -> NDArray[np.uint8]:
    """(n, S, S, 3) views as another season, light or sensor might show them."""
    looks = [change_look(image, np.random.default_rng([seed, 3, row]), STYLE) for row, image in enumerate(images)]
    return np.stack(looks) if looks else images


def hold_back(frames: Sequence[Frame], share: float) -> tuple[list[Frame], list[Frame]]:
    """Frames to learn and frames to calibrate on: runs of neighbours, evenly over the flight; none of a short one."""
    runs = int(share * len(frames) / RUN)
    starts = ((np.arange(runs) + 0.5) * len(frames) / max(1, runs) - RUN / 2).astype(int)
    held = {start + place for start in starts.tolist() for place in range(RUN)}
    parts: tuple[list[Frame], list[Frame]] = ([], [])
    for row, frame in enumerate(frames):
        parts[row in held].append(frame)
    return parts


def calibrate(
    network: Network, held: Sequence[Observation], exemplars: Sequence[tuple[Picture, int]], trunk: TrunkOutputs
) -> None:
    """Refit the temperature after a mission: on frames that were held back, and on exemplars (with their classes).

    The former tell about this mission's look, the latter, in looks of their own, about those still to come.
    """
    pictures = [*(whole_image(frame) for frame in held), *(picture for picture, _ in exemplars)]
    labels = [*(frame.label for frame in held), *(label for _, label in exemplars)]
    if pictures:
        scores = torch.from_numpy(pictured_scores(network, pictures, trunk))
        network.fit_temperature(scores, torch.tensor(labels))


def exemplars_in_other_looks(
    memory: ExemplarMemory | None, satellite: SatelliteMap | None, count: int, size_px: int, seed: int
) -> list[tuple[Picture, int]]:
    """Some exemplars, spread over the map, each in a look of its own, with their classes."""
    if memory is None or not len(memory):
        return []

    def render(row: int) -> NDArray[np.uint8]:
        look = np.random.default_rng([seed, 3, row])
        return change_look(memory.read([row], size_px, satellite)[0], look, STYLE)

    rows = np.unique(np.linspace(0, len(memory) - 1, count).astype(int)).tolist()
    return [
        (Picture(("look", repr(STYLE), seed, row, size_px), partial(render, row)), int(memory.labels[row]))
        for row in rows
    ]


def scores_of(network: Network, images: Sequence[NDArray[np.uint8]] | NDArray[np.uint8]) -> NDArray[np.float32]:
    """(n, C) cosines of images."""
    if not len(images):
        return np.empty((0, network.grid.n_classes), np.float32)
    return in_batches(lambda part: (network.scores(network.preprocess(part)),), images)[0]
