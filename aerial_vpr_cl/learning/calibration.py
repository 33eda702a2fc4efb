"""How sure an answer may be: the temperature, fitted on what was not learnt.

On clean views of its own map a network is nearly always right, and a temperature fitted there promises too much under
any other look. So views of the map are shown in strongly changed looks, and frames of a mission are held back for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from aerial_vpr_cl.images import decode_compressed
from aerial_vpr_cl.learning.augmentation import STYLE, change_look
from aerial_vpr_cl.memory.buffer import Observation
from aerial_vpr_cl.model.batches import in_batches
from aerial_vpr_cl.model.network import Network

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
    network: Network, held: Sequence[Observation], views: NDArray[np.uint8], labels: NDArray[np.int64], seed: int
) -> float:
    """Fit the temperature on frames that were held back and views of the map in other looks; returns it."""
    flown = [decode_compressed(frame.image) for frame in held]
    scores = [scores_of(network, flown), scores_of(network, in_other_looks(views, seed))]
    truth = np.concatenate([np.array([frame.label for frame in held], np.int64), labels])
    return network.fit_temperature(torch.from_numpy(np.concatenate(scores)), torch.from_numpy(truth))


def scores_of(network: Network, images: Sequence[NDArray[np.uint8]] | NDArray[np.uint8]) -> NDArray[np.float32]:
    """(n, C) cosines of images."""
    if not len(images):
        return np.empty((0, network.grid.n_classes), np.float32)
    return in_batches(lambda part: (network.scores(network.preprocess(part)),), images)[0]
