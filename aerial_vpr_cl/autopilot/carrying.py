"""A position of a moment ago, carried on to now by the motion that the autopilot reports.

PX4 stamps GLOBAL_POSITION_SENSOR when it arrives, whatever time it carries, and never fuses what is some 0.3 s older
than now (EKF2_DELAY_MAX and a tenth): an answer is usually older than that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.autopilot.answers import Position
from aerial_vpr_cl.autopilot.telemetry import LocalPosition

METRES_PER_DEGREE = 111_319.49
NEAR_NS = 300_000_000
"""A local position further from the image than this does not say where the drone was then."""


def carried_on(position: Position, track: Sequence[LocalPosition], drift_share: float) -> Position:
    """The position at the newest of the track, less certain by a share of the way; as it was where nothing tells."""
    if not track or track[-1].stamp_ns <= position.stamp_ns:
        return position
    newest, then = track[-1], min(track, key=lambda local: abs(local.stamp_ns - position.stamp_ns))
    if abs(then.stamp_ns - position.stamp_ns) > NEAR_NS:
        return position
    east, north = (newest.position - then.position)[:2]
    latitude = position.latitude + float(north) / METRES_PER_DEGREE
    longitude = position.longitude + float(east) / METRES_PER_DEGREE / math.cos(math.radians(position.latitude))
    drift = np.eye(2) * (drift_share * math.hypot(east, north)) ** 2
    return Position(newest.stamp_ns, latitude, longitude, position.covariance + drift)


def offset_m(latitude: float, longitude: float, to_latitude: float, to_longitude: float) -> NDArray[np.float64]:
    """East and north in metres over distances at which the Earth is flat."""
    east = (to_longitude - longitude) * math.cos(math.radians(latitude))
    return np.array([east, to_latitude - latitude]) * METRES_PER_DEGREE
