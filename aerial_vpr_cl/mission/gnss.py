"""Positions of frames from GNSS fixes: which fixes to believe, and what lies between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aerial_vpr_cl.geo.grid import NO_CLASS, Grid
from aerial_vpr_cl.geo.projection import Projection
from aerial_vpr_cl.mission.messages import COVARIANCE_UNKNOWN, stamp_of
from aerial_vpr_cl.settings import setting

OWN_HEIGHT_VARIANCE_M2 = 1e8
"""Variance of the height in this package's own estimates, which have none: a standard deviation of 10 km, as PX4 would
take a missing one for 1 m². No receiver says so, and thus an own estimate is known, whatever its topic is called."""

NO_FIX = "no fix"
OWN_ESTIMATE = "own estimate"
NOT_A_NUMBER = "nan"
ZERO = "zero"
OUT_OF_RANGE = "range"
COVARIANCE = "covariance"
JUMP = "jump"
GAP = "gap"
OUTSIDE_MAP = "outside map"

REASONS = {
    NO_FIX: "the receiver said it had no fix",
    OWN_ESTIMATE: "the position is an answer of this package, not of a receiver",
    NOT_A_NUMBER: "latitude or longitude was not a number",
    ZERO: "the receiver reported 0° N 0° E",
    OUT_OF_RANGE: "latitude or longitude was outside the globe",
    COVARIANCE: "the receiver called itself too inaccurate",
    JUMP: "the position jumped faster than the drone can fly",
    GAP: "no fixes close enough in time",
    OUTSIDE_MAP: "the position is in no cell of the map",
}
"""Why a frame gets no position, in words."""

_ZERO_DEG = 1e-6


@dataclass(frozen=True)
class GnssGates:
    """What a fix, and a frame between fixes, must fulfil to give a label."""

    max_gap_s: float = setting(2.0, "longest time between the two fixes a frame lies between, in seconds", low=0.0)
    max_extrapolation_s: float = setting(
        0.5, "how far before the first or after the last good fix a frame may lie, in seconds", low=0.0
    )
    max_sigma_m: float = setting(15.0, "largest horizontal standard deviation of a fix, in metres", low=0.0)
    require_covariance: bool = setting(False, "refuse fixes whose receiver gives no covariance")
    max_speed_mps: float = setting(60.0, "faster than the drone can fly: fixes beyond are jumps, in m/s", low=0.1)
    jump_margin_m: float = setting(
        15.0, "noise allowed on top of the speed limit before a fix is a jump, in metres", low=0.0
    )


class Fix(NamedTuple):
    """One GNSS fix: degrees, and the receiver's own horizontal standard deviation (NaN: it gave none)."""

    stamp_ns: int
    latitude: float
    longitude: float
    altitude: float = math.nan
    status: int = 0
    sigma_m: float = math.nan
    is_own: bool = False  # published by this package, so no evidence for anything

    @classmethod
    def from_message(cls, message: Any, received_ns: int = 0) -> Fix:
        """From a sensor_msgs/NavSatFix of ROS or rosbags; `received_ns` stands in for a stamp that was not set."""
        sigma_m = math.nan
        if message.position_covariance_type != COVARIANCE_UNKNOWN:
            east, north = float(message.position_covariance[0]), float(message.position_covariance[4])
            sigma_m = math.sqrt(max(east, north)) if east >= 0.0 and north >= 0.0 else math.inf
        return cls(
            stamp_of(message) or received_ns,
            float(message.latitude),
            float(message.longitude),
            float(message.altitude),
            int(message.status.status),
            sigma_m,
            float(message.position_covariance[8]) == OWN_HEIGHT_VARIANCE_M2,
        )


def fault_of(fix: Fix, gates: GnssGates) -> str:
    """Why a single fix is not to be believed; empty if nothing speaks against it."""
    if fix.is_own:
        return OWN_ESTIMATE
    if fix.status < 0:
        return NO_FIX
    if not (math.isfinite(fix.latitude) and math.isfinite(fix.longitude)):
        return NOT_A_NUMBER
    if abs(fix.latitude) < _ZERO_DEG and abs(fix.longitude) < _ZERO_DEG:
        return ZERO
    if abs(fix.latitude) > 90.0 or abs(fix.longitude) > 180.0:
        return OUT_OF_RANGE
    if fix.sigma_m > gates.max_sigma_m or (math.isnan(fix.sigma_m) and gates.require_covariance):
        return COVARIANCE
    return ""


class Track:
    """The believable fixes of a flight in time order and in metres, ready to be asked for positions."""

    def __init__(self, fixes: Sequence[Fix], gates: GnssGates, projection: Projection) -> None:
        ordered = sorted(fixes, key=lambda fix: fix.stamp_ns)
        stamps = np.array([fix.stamp_ns for fix in ordered], np.int64)
        faults = np.array([fault_of(fix, gates) for fix in ordered], object)
        with np.errstate(invalid="ignore"):
            points = projection.to_utm([f.latitude for f in ordered], [f.longitude for f in ordered]).reshape(-1, 2)
        faults[(faults == "") & ~np.isfinite(points).all(axis=1)] = OUTSIDE_MAP  # too far away for the projection
        good = np.flatnonzero(faults == "")
        good = good[np.unique(stamps[good], return_index=True)[1]]  # of two fixes with one stamp the first
        kept = plausible(stamps[good], points[good], gates)
        faults[good[~kept]] = JUMP
        good = good[kept]
        self.gates = gates
        self.stamps_ns = stamps[good]
        self.points = points[good]
        self._sigmas_m = np.array([ordered[k].sigma_m for k in good], np.float64)
        self._all_stamps_ns = stamps
        self._faults = faults

    def at(self, stamps_ns: ArrayLike, grid: Grid | None = None) -> tuple[NDArray[np.float64], NDArray[np.object_]]:
        """(n, 2) positions, NaN where refused, and (n,) reasons, empty where good."""
        stamps = np.asarray(stamps_ns, np.int64).reshape(-1)
        positions = np.full((len(stamps), 2), np.nan)
        reasons = np.full(len(stamps), "", object)
        if len(stamps) == 0:
            return positions, reasons
        reachable = self._reachable(stamps)
        positions[reachable] = self._interpolated(stamps[reachable])
        reasons[~reachable] = self._faults_near(stamps[~reachable])
        if grid is not None:
            outside = reachable & (grid.class_of(positions) == NO_CLASS)
            reasons[outside] = OUTSIDE_MAP
            positions[outside] = np.nan
        return positions, reasons

    def sigmas_at(self, stamps_ns: ArrayLike) -> NDArray[np.float64]:
        """(n,) standard deviations of positions at these times, of the fixes around them; half the gate for fixes that
        state none, NaN where there are no fixes."""
        stamps = np.asarray(stamps_ns, np.int64).reshape(-1)
        if len(self.stamps_ns) == 0:
            return np.full(len(stamps), np.nan)
        stated = np.where(self._sigmas_m > 0.0, self._sigmas_m, self.gates.max_sigma_m / 2.0)
        start_ns = self.stamps_ns[0]
        return np.interp((stamps - start_ns).astype(float), (self.stamps_ns - start_ns).astype(float), stated)

    def _reachable(self, stamps: NDArray[np.int64]) -> NDArray[np.bool_]:
        known = self.stamps_ns
        if len(known) == 0:
            return np.zeros(len(stamps), bool)
        after = np.searchsorted(known, stamps)  # the first fix not before the frame
        exact = known[after.clip(max=len(known) - 1)] == stamps
        if len(known) == 1:
            return exact
        before_end, after_start = after < len(known), after > 0
        gap = known[after.clip(1, len(known) - 1)] - known[after.clip(1, len(known) - 1) - 1]
        ends = np.where(before_end, known[0] - stamps, stamps - known[-1])
        near_end = ends <= self.gates.max_extrapolation_s * 1e9
        return exact | ((gap <= self.gates.max_gap_s * 1e9) & ((before_end & after_start) | near_end))

    def _interpolated(self, stamps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Straight lines between fixes, and past the ends along the first or last of them."""
        known, points = self.stamps_ns, self.points
        if len(known) == 1:
            return np.repeat(points, len(stamps), axis=0)
        right = np.searchsorted(known, stamps).clip(1, len(known) - 1)
        left = right - 1
        # Differences of nanoseconds since 1970 are taken as integers: a float64 would round them to 256 ns.
        share = (stamps - known[left]) / (known[right] - known[left])
        return points[left] + share[:, None] * (points[right] - points[left])

    def _faults_near(self, stamps: NDArray[np.int64]) -> NDArray[np.object_]:
        """What was wrong with the fixes around each frame: the nearer fault of the two, or a gap if there is none."""
        reasons = np.full(len(stamps), GAP, object)
        known = self._all_stamps_ns
        if len(known) == 0:
            return reasons
        right = np.searchsorted(known, stamps).clip(max=len(known) - 1)
        left = (right - 1).clip(min=0)
        left_is_near = np.abs(stamps - known[left]) < np.abs(known[right] - stamps)
        for around in (np.where(left_is_near, right, left), np.where(left_is_near, left, right)):  # the nearer one wins
            close = np.abs(stamps - known[around]) <= self.gates.max_gap_s * 1e9
            faulty = close & (self._faults[around] != "")
            reasons[faulty] = self._faults[around][faulty]
        return reasons


def interpolate(
    stamps_ns: ArrayLike, fixes: Sequence[Fix], gates: GnssGates, projection: Projection, grid: Grid | None = None
) -> tuple[NDArray[np.float64], NDArray[np.object_]]:
    """Positions of frames between fixes: (n, 2) metres, NaN where refused, and (n,) reasons, empty where good."""
    return Track(fixes, gates, projection).at(stamps_ns, grid)


def plausible(stamps_ns: NDArray[np.int64], points: NDArray[np.float64], gates: GnssGates) -> NDArray[np.bool_]:
    """(n,) which fixes belong to the longest track a drone could have flown; the rest are jumps.

    Multipath moves a whole run of fixes aside, each close to the next. So the track is cut wherever a step is too
    fast, and of the pieces those are kept that can be flown one after the other and hold the most fixes.
    """
    n = len(stamps_ns)
    if n == 0:
        return np.zeros(0, bool)
    starts = np.concatenate(
        [[0], 1 + np.flatnonzero(~_flyable(stamps_ns, points, slice(0, -1), slice(1, None), gates))]
    )
    ends = np.concatenate([starts[1:], [n]]) - 1
    best = (ends - starts + 1).astype(np.int64)  # fixes in the best chain that ends with this piece
    previous = np.full(len(starts), -1)
    for piece in range(1, len(starts)):
        fitting = np.flatnonzero(_flyable(stamps_ns, points, ends[:piece], starts[piece], gates))
        if len(fitting):
            previous[piece] = fitting[np.argmax(best[fitting])]
            best[piece] += best[previous[piece]]
    kept = np.zeros(n, bool)
    piece = int(np.argmax(best))
    while piece >= 0:
        kept[starts[piece] : ends[piece] + 1] = True
        piece = int(previous[piece])
    return kept


def _flyable(
    stamps_ns: NDArray[np.int64], points: NDArray[np.float64], start: Any, end: Any, gates: GnssGates
) -> NDArray[np.bool_]:
    seconds = (stamps_ns[end] - stamps_ns[start]) / 1e9
    metres = np.linalg.norm(points[end] - points[start], axis=-1)
    return metres <= gates.max_speed_mps * seconds + gates.jump_margin_m
