"""From the frames of a mission to what is learnt from: views of the network's kind, with the cells they show."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.geo.grid import NO_CLASS, Grid
from aerial_vpr_cl.geo.view_kind import AS_SEEN
from aerial_vpr_cl.images import encode_jpeg
from aerial_vpr_cl.knowledge.knowledge import Knowledge
from aerial_vpr_cl.localization.estimate import BLANK_IMAGE, FROZEN_CAMERA, Rejection
from aerial_vpr_cl.localization.image_faults import ImageWatch, is_blank
from aerial_vpr_cl.localization.view import ViewSettings, make_view
from aerial_vpr_cl.memory.buffer import Observation
from aerial_vpr_cl.mission.frames import Frame
from aerial_vpr_cl.mission.mission import Mission

MOST_HEADING_SIGMA_DEG = 20.0
"""A view that may be turned by more does not show its cell north up: it would teach the network other headings."""

HEADING_UNKNOWN = "heading unknown"
OFF_MAP = "view off the map"


class Observed(NamedTuple):
    """What can be learnt from in time order, and how many frames were left out for what reason."""

    observations: list[Observation]
    refused: dict[str, int]


def views_of(known: Knowledge) -> ViewSettings:
    """What the network of a generation is shown."""
    settings = known.map.settings
    return ViewSettings(settings.view, settings.footprint_m, known.network.input_size)


def observations_of(mission: Mission, grid: Grid, views: ViewSettings) -> Observed:
    """The frames of a mission as the network is to see them.

    As seen they stay as they were recorded, at the drone's own position. North up they become views, whose cell and
    position are those of the ground in their middle. MissionError if nothing is left.
    """
    if not mission.frames:
        raise MissionError(f"{mission.path}: no frame has a position on the map; nothing can be learnt or tested")
    refused: Counter[str] = Counter()
    found = []
    watch = ImageWatch(views.footprint_m)
    for before, frame in zip((mission.frames[0], *mission.frames), mission.frames):
        seen = _seen(frame, float(np.hypot(*(frame.position - before.position))), watch, views)
        if isinstance(seen, Rejection):
            refused[seen.reason] += 1
            continue
        image, position = seen
        label = int(grid.class_of([position])[0])
        if label == NO_CLASS:
            refused[OFF_MAP] += 1
            continue
        found.append(Observation(image, label, position, frame.stamp_ns, mission.name, mission.modality))
    if not found:
        reasons = ", ".join(f"{count} {reason}" for reason, count in refused.most_common())
        raise MissionError(f"{mission.path}: none of {len(mission)} frames shows what can be learnt: {reasons}")
    return Observed(found, dict(refused))


def _seen(
    frame: Frame, moved_m: float, watch: ImageWatch, views: ViewSettings
) -> tuple[bytes, NDArray[np.float64]] | Rejection:
    """An encoded image and the ground in its middle; nothing is learnt from what could not be answered in flight."""
    image = frame.decode()
    if is_blank(image):
        return Rejection(BLANK_IMAGE)
    if watch.is_frozen(image, moved_m):
        return Rejection(FROZEN_CAMERA)
    if views.kind == AS_SEEN:
        return frame.image, frame.position
    view = make_view(image, frame.situation, views)
    if isinstance(view, Rejection):
        return view
    if view.heading_sigma_deg > MOST_HEADING_SIGMA_DEG:
        return Rejection(HEADING_UNKNOWN)
    return encode_jpeg(view.image), frame.position + view.offset_m
