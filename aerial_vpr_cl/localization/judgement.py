"""Whether what a view says speaks for the track or against it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from aerial_vpr_cl.geo.grid import NO_CLASS, Grid
from aerial_vpr_cl.localization.belief import Belief
from aerial_vpr_cl.localization.lasting_errors import SLOW_SHARE, PlaceError
from aerial_vpr_cl.localization.modes import Mode, fit_of, modes
from aerial_vpr_cl.localization.proposal import Proposal
from aerial_vpr_cl.localization.registration import Peak, Registration
from aerial_vpr_cl.localization.states import SUPPORT, UsualFit
from aerial_vpr_cl.localization.view import View

SAME_PLACE_SIGMAS, CLEARLY = 3.5, 3.0
"""A peak as near as this to the track is the track's; one farther off that fits so much better (log) refutes it."""
TINY = 1e-30


@dataclass(frozen=True, eq=False)
class Findings:
    """What looking at one view brought."""

    told: bool = False  # whether there was a track and anything to compare it with
    fit: float = 0.0  # log of how well the view fitted the track
    misfit: bool | None = None  # whether it speaks against it; None: it told nothing
    peak: Peak | None = None

    def place_error(self, view: View) -> PlaceError:
        """How the place of this view errs: as its perspective leaves it, else as its tilt was stated."""
        if self.peak is None or self.peak.perspective is None:
            return PlaceError(view.offset_sigma_m)
        left_m2 = float(np.trace(self.peak.perspective.covariance)) / 2.0
        # Of two readings of a tilt, the stated one has a weight of left ÷ stated; so much of its slow error stays. What
        # the other one errs by is of the ground it was read off.
        share = min(1.0, left_m2 / view.offset_sigma_m**2)
        return PlaceError(math.sqrt(float(np.trace(self.peak.covariance)) / 2.0), SLOW_SHARE * share, 1.0 - share)

    @property
    def supports(self) -> bool | None:
        """Whether the view speaks for the track; None: it told nothing."""
        return self.fit > SUPPORT if self.told else None


class Judge:
    """Knows what is usual on this flight."""

    def __init__(self, grid: Grid, network_trust: float) -> None:
        self._grid, self._trust = grid, network_trust
        self._usual = UsualFit()

    def reset(self) -> None:
        """Expect nothing."""
        self._usual.reset()

    def cells(self, proposal: Proposal | None, belief: Belief) -> Findings:
        """Whether the network speaks for the track. That it does not is no surprise: it errs often."""
        track = next(iter(modes(belief)), None)
        if proposal is None or track is None:
            return Findings()
        (cell,) = self._grid.class_of(track.mean + proposal.offset_m)
        likely = float(proposal.probabilities[cell]) * self._grid.n_classes if cell != NO_CLASS else 0.0
        return Findings(True, math.log(max(self._trust * likely + 1.0 - self._trust, TINY)))

    def registration(self, registration: Registration, belief: Belief, is_tracking: bool) -> Findings:
        """Whether a view speaks against the track, by what is usual on this flight."""
        peak, track = registration.peak, next(iter(modes(belief)), None)
        if peak is None or track is None:
            return Findings(peak=peak)
        fit = fit_of(track, belief, registration.surfaces)
        aside = peak.log_likelihood > fit + CLEARLY and not agree(track, peak)
        misfit = self._usual.is_misfit(fit, peak.z_max) or aside
        if is_tracking and not misfit:
            self._usual.add(fit, peak.z_max)
        return Findings(True, fit, misfit, peak)


def agree(mode: Mode, peak: Peak) -> bool:
    """Whether a track and a registration, which holds the tilt's error, are the same place."""
    apart = peak.position - mode.mean
    squared = float(apart @ np.linalg.solve(mode.covariance + peak.covariance, apart))
    return squared <= SAME_PLACE_SIGMAS**2
