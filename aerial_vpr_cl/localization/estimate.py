"""From calibrated cell probabilities to a position, its covariance and a confidence: pure functions on arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.localization.states import STATES

NEIGHBOUR_CELLS = 1.5
"""Cells whose centre is at most this many cell sides from the best one's are the same place: itself and its ring."""

RADIUS_SIGMAS = math.sqrt(-2.0 * math.log(0.05))
"""Radius of the circle that holds 95 % of a round Gaussian."""

NOT_FINITE = "scores not finite"
LOW_CONFIDENCE = "low confidence"
BLANK_IMAGE = "blank image"
LOOKS_AWAY = "camera looks away"
SEES_LITTLE = "sees too little"
OTHER_CAMERA = "image of another camera"
FROZEN_CAMERA = "camera frozen"
SAME_IMAGE = "same image"
SAME_MOMENT = "same moment"
BLIND = "heading and scale unknown"
MISFIT_VIEW = "view does not fit"

REASONS = {
    NOT_FINITE: "the network's scores were not numbers",
    LOW_CONFIDENCE: "no place was probable enough",
    BLANK_IMAGE: "the image shows nothing: one shade all over",
    LOOKS_AWAY: "the camera looked too far from straight down",
    SEES_LITTLE: "the camera saw almost nothing of the footprint the map is cut to: on the ground, or a wrong height",
    OTHER_CAMERA: "the image has another shape than the camera model: calibrate for this resolution",
    FROZEN_CAMERA: "the image stayed the same while the drone moved: camera or odometry is wrong",
    SAME_IMAGE: "the image is that of before, and without odometry nobody knows whether the drone moved since",
    SAME_MOMENT: "the stamp is that of the frame before: the clock stands still",
    BLIND: "without heading and height a view fits too many places: give the imu or the height",
    MISFIT_VIEW: "the view does not show what the map has there",
    **STATES,
}
"""Why a frame gets no position, in words."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """Where a frame was taken, and how sure that is."""

    cell: int  # class id
    position: NDArray[np.float64]  # (2,) easting and northing
    covariance: NDArray[np.float64]  # (2, 2) in m², east and north
    radius_m: float  # holds the true position with 95 % probability
    confidence: float  # probability of the place: the best cell and its ring of neighbours, or the belief's hill
    cells: NDArray[np.int64]  # (k,) the most probable cells, best first
    probabilities: NDArray[np.float64]  # (k,) of those cells
    turn_deg: float = 0.0  # clockwise, what the stated heading is off by where others were tried
    state: str = ""  # of the tracker; empty for a frame that was answered alone
    scale_correction: float = float("nan")  # by which the measured height is to be multiplied
    z: float = float("nan")  # of the registration, in standard deviations of chance

    def seen_from(self, offset_m: NDArray[np.float64], turn_deg: float, sigma_m: float) -> Estimate:
        """Where the drone is, if this is where its view lies: `offset_m` away, turned, and unsure by sigma."""
        cos, sin = math.cos(math.radians(turn_deg)), math.sin(math.radians(turn_deg))
        east, north = offset_m
        return replace(
            self,
            position=self.position - [east * cos + north * sin, north * cos - east * sin],
            covariance=self.covariance + np.eye(2) * sigma_m**2,
            radius_m=math.hypot(self.radius_m, RADIUS_SIGMAS * sigma_m),
            turn_deg=turn_deg,
        )


@dataclass(frozen=True)
class Rejection:
    """Why a frame gets no position; `confidence` is NaN where it did not come to that."""

    reason: str
    confidence: float = float("nan")
    state: str = ""  # of the tracker; empty for a frame that was answered alone


class Estimator:
    """Estimates over one grid."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    def estimate(self, probabilities: NDArray[np.floating], top_k: int = 5) -> Estimate | Rejection:
        """(C,) probabilities of the cells to an estimate; a rejection only if they are not numbers.

        Confidence is the mass of the 3 × 3 cells around the best one, not of the best alone: above a border the mass is
        shared by neighbours, which says nothing against the place; what it says of accuracy is in the covariance.
        """
        p = np.asarray(probabilities, np.float64)
        total = p.sum()
        if not (np.isfinite(total) and total > 0.0):
            return Rejection(NOT_FINITE)
        best = int(np.argmax(p))
        p = p / total
        offsets = self.grid.centres - self.grid.centres[best]
        side = self.grid.cell_side_m
        distances = np.hypot(offsets[:, 0], offsets[:, 1])
        top = top_cells(p, top_k)
        return Estimate(
            cell=best,
            position=self.grid.centres[best],
            covariance=covariance_of(p, offsets, side),
            radius_m=radius_of(p, distances, side),
            confidence=float(p[distances <= NEIGHBOUR_CELLS * side].sum().clip(0.0, 1.0)),
            cells=top,
            probabilities=p[top],
        )

    @cached_property
    def ignorance(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Position and covariance of a drone of which only is known that it is above the map."""
        centres = self.grid.centres
        middle = centres.mean(axis=0)
        everywhere = np.full(len(centres), 1.0 / len(centres))
        return middle, covariance_of(everywhere, centres - middle, self.grid.cell_side_m)


def covariance_of(
    probabilities: NDArray[np.float64], offsets: NDArray[np.float64], cell_side_m: float
) -> NDArray[np.float64]:
    """(2, 2) expected squared error: spread of the (C, 2) cell offsets from the estimate, plus L²/12 inside a cell.

    If the true cell is distributed as the calibrated probabilities say, and the position evenly within it, this is the
    error's second moment exactly, with nothing to tune. The estimate is a cell centre, not the mean, so its bias is in.
    """
    spread = (offsets * probabilities[:, None]).T @ offsets
    return (spread + spread.T) / 2.0 + np.eye(2) * (cell_side_m**2 / 12.0)


def radius_of(
    probabilities: NDArray[np.float64], distances: NDArray[np.float64], cell_side_m: float, share: float = 0.95
) -> float:
    """Radius around the estimate that covers whole cells with at least this share of the probability."""
    order = np.argsort(distances, kind="stable")
    within = np.searchsorted(np.cumsum(probabilities[order]), share)
    return float(distances[order[min(int(within), len(order) - 1)]] + cell_side_m / np.sqrt(2.0))


def top_cells(probabilities: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """The k most probable cells, best first; ties go to the lower class id, as argmax has it."""
    k = min(max(k, 1), len(probabilities))
    threshold = np.partition(probabilities, -k)[-k]
    candidates = np.flatnonzero(probabilities >= threshold)
    return candidates[np.argsort(-probabilities[candidates], kind="stable")][:k]
