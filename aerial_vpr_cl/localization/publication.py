"""What is published of a belief's leading hill: its position, and a covariance that owns up to what averaging hides."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.localization.estimate import RADIUS_SIGMAS, Estimate
from aerial_vpr_cl.localization.instruments import Instruments
from aerial_vpr_cl.localization.lasting_errors import PlaceError
from aerial_vpr_cl.localization.modes import Mode
from aerial_vpr_cl.localization.registration import Peak


def stated_covariance(mode: Mode, lasting: float, least_m: float, swaying: PlaceError) -> NDArray[np.float64]:
    """(2, 2) of the mode, of which lasting errors leave a share, and what no number of frames takes away: `least_m`.

    Without odometry to average by, the slow part of a view's error stays in full: what averaging took off it comes
    back. `swaying` is the error of a view, 0 where odometry guides.
    """
    averaged = max(0.0, swaying.sigma_m**2 - float(np.trace(mode.covariance)) / 2.0)
    return lasting * mode.covariance + (least_m**2 + swaying.slow_share * averaged) * np.eye(2)


def radius_of(covariance: NDArray[np.float64]) -> float:
    """Radius that holds 95 % of a Gaussian, in the direction in which it is widest."""
    return RADIUS_SIGMAS * math.sqrt(float(np.linalg.eigvalsh(covariance)[-1]))


def estimate_of(
    mode: Mode, covariance: NDArray[np.float64], peak: Peak | None, grid: Grid, instruments: Instruments, state: str
) -> Estimate:
    """The answer, with what the map has taught about compass and height."""
    cell = int(np.argmin(((grid.centres - mode.mean) ** 2).sum(axis=1)))
    return Estimate(
        cell=cell,
        position=mode.mean,
        covariance=covariance,
        radius_m=radius_of(covariance),
        confidence=mode.mass,
        cells=np.array([cell]),
        probabilities=np.array([mode.mass]),
        state=state,
        turn_deg=-instruments.heading.error,
        scale_correction=float(np.exp(-instruments.log_height.error)),
        z=peak.z if peak is not None else float("nan"),
    )
