"""Where something went, thinned and bounded: nav_msgs/Path."""

from __future__ import annotations

from collections import deque

import numpy as np
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Path
from numpy.typing import NDArray
from std_msgs.msg import Header

from aerial_vpr_cl.nodes.messages import header_of
from aerial_vpr_cl.nodes.viewer.ground import point_message

SPACING_M = 5.0
"""A path is shown in steps of at least this."""


class Trail:
    """The last positions in the frame `map`."""

    def __init__(self, frame_id: str, most: int) -> None:
        self._frame_id = frame_id
        self._poses: deque[PoseStamped] = deque(maxlen=most)
        self._last: NDArray[np.float64] | None = None

    def add(self, stamp_ns: int, position: NDArray[np.float64]) -> None:
        """Be there at that time."""
        if self._last is not None and np.hypot(*(position - self._last)) < SPACING_M:
            return
        self._last = position
        pose = PoseStamped(header=header_of(stamp_ns, self._frame_id))
        pose.pose.position, pose.pose.orientation.w = point_message(position), 1.0
        self._poses.append(pose)

    def forget(self) -> None:
        """Begin again."""
        self._poses.clear()
        self._last = None

    def message(self, header: Header) -> Path:
        """All of it."""
        return Path(header=header, poses=list(self._poses))
