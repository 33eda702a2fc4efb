"""Motion-aware thinning: a hovering drone records the same frame many times; learn it once."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from aerial_vpr_cl.images import decode_compressed
from aerial_vpr_cl.learning.adapt_settings import ThinningSettings
from aerial_vpr_cl.memory.buffer import Observation

THUMBNAIL_PX = 16


def thin(observations: Sequence[Observation], settings: ThinningSettings) -> list[Observation]:
    """Drop a frame that is both close to the last kept one and looks like it; order is kept."""
    if not settings.thinning:
        return list(observations)
    kept: list[Observation] = []
    last_thumbnail = None
    for observation in observations:
        close = bool(kept) and np.hypot(*(observation.position - kept[-1].position)) < settings.thinning_distance_m
        if not close:
            kept.append(observation)
            last_thumbnail = None  # made only when a close frame has to be compared
            continue
        if last_thumbnail is None:
            last_thumbnail = _thumbnail(kept[-1])
        thumbnail = _thumbnail(observation)
        if np.abs(thumbnail - last_thumbnail).mean() >= settings.thinning_difference:
            kept.append(observation)
            last_thumbnail = thumbnail
    return kept


def _thumbnail(observation: Observation) -> np.ndarray:
    """Small grey picture in [0, 1]: camera noise averages out, a turned or moved view does not."""
    grey = cv2.cvtColor(decode_compressed(observation.image), cv2.COLOR_RGB2GRAY)
    small = cv2.resize(grey, (THUMBNAIL_PX, THUMBNAIL_PX), interpolation=cv2.INTER_AREA)
    return small.astype(np.float32) / 255.0
