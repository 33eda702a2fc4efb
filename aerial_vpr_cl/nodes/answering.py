"""Frame by frame to an answer: by the tracker, or by the network alone as in the paper."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aerial_vpr_cl.errors import StoreError
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.localization.estimate import Estimate, Rejection
from aerial_vpr_cl.localization.localizer import Localizer, LocalizerSettings
from aerial_vpr_cl.localization.open_tracker import proposing, tracker_over
from aerial_vpr_cl.localization.proposal import Image, Proposal
from aerial_vpr_cl.localization.tracker import Tracker
from aerial_vpr_cl.localization.tracker_settings import TrackerSettings
from aerial_vpr_cl.localization.view import enough_px
from aerial_vpr_cl.mission.situation import UNKNOWN_HEADING_DEG, Motion, Situation
from aerial_vpr_cl.nodes.node_settings import SINGLE_FRAME

Seen = TypeVar("Seen")


class Answering:
    """One flight. The localizer may be another at every frame: a new generation changes nothing of what is believed."""

    def __init__(self, store: Path, tracking: TrackerSettings | None, localizer: Callable[[], Localizer]) -> None:
        """Without settings of a tracker every frame is answered alone."""
        self._localizer = localizer
        self._lock = threading.Lock()
        self._tracker: Tracker | None = None
        if tracking is not None:
            self._tracker = tracker_over(open_map(store), tracking, propose=self._propose)

    def answer(
        self,
        stamp_ns: int,
        image: Image,
        known: tuple[Situation, Motion | None],
        settings: LocalizerSettings,
    ) -> Estimate | Rejection:
        """Where an image was taken, or why that is not said."""
        situation, motion = known
        if self._tracker is None:
            return self._localizer().localize(image, settings, situation)
        with self._lock:
            return self._tracker.step(stamp_ns, image, situation, motion)

    def enough_px(self, situation: Situation) -> float:
        """Longer side from which on a larger image of such a situation shows nothing more."""
        views = [self._localizer().view_settings, *([self._tracker.view_settings] if self._tracker else [])]
        return max(enough_px(situation, settings) for settings in views)

    @property
    def state(self) -> str:
        """What the tracker is doing."""
        return SINGLE_FRAME if self._tracker is None else self._tracker.state

    @property
    def odometry_is_believed(self) -> bool:
        """Whether nothing that the views showed speaks against odometry, if there is one."""
        return self._tracker is None or self._tracker.odometry_is_believed

    @property
    def heading(self) -> tuple[float, float]:
        """Heading and sigma in degrees, as compass, odometry and map tell them together."""
        if self._tracker is None:
            return 0.0, UNKNOWN_HEADING_DEG
        heading = self._tracker.instruments.heading
        return heading.value, heading.sigma

    def relocalize(self) -> None:
        """Forget the position and search for it."""
        with self._following() as tracker:
            tracker.relocalize()

    def initialize(self, position: ArrayLike, covariance: ArrayLike) -> None:
        """Begin where an operator says; the views decide then."""
        with self._following() as tracker:
            tracker.initialize(position, covariance)

    def look(self, read: Callable[[Tracker], Seen]) -> Seen | None:
        """What somebody reads off the tracker while it stands still; None without one."""
        if self._tracker is None:
            return None
        with self._lock:
            return read(self._tracker)

    def reset(self) -> None:
        """Begin a new flight."""
        if self._tracker is not None:
            with self._lock:
                self._tracker.reset()

    @contextmanager
    def _following(self) -> Iterator[Tracker]:
        if self._tracker is None:
            raise StoreError("every frame is answered alone; set answer to 'tracked' to have a track")
        with self._lock:
            yield self._tracker

    def _propose(self, image: NDArray[np.uint8], situation: Situation) -> Proposal | None:
        return proposing(self._localizer())(image, situation)
