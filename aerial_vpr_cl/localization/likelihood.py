"""What a match is worth: how much likelier a score is where the view belongs than where it does not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.special
from numpy.typing import NDArray

Z_STEP = 0.05
Z_LOW, Z_HIGH = -8.0, 60.0

MAX_LOG_RATIO = 300.0

TAIL_START = 4.5
"""Score from which wrong ground is rarer only exponentially: beyond, no map has shown enough of it to say more."""

MATCHED, MEASURED = 3.5, 4.0
"""Scores at which the Gaussian is matched to wrong ground, and beyond which its rate of falling is measured."""

SURPRISE = 0.15
"""Share of views whose looks changed as no simulation has it: for them any ρ is as likely as another."""

ANY_RHO = np.linspace(0.05, 1.0, 20)

SPREAD = 1.2
"""Deviation of z around ρ·z_max: that of chance, and some for ρ being one of a few values."""

HOPELESS_Z = 2.0
"""Score below which the right ground cannot be told from any other."""

RHO_VALUES = 13
MOST_SIGMA = 2.0
"""Widest spread of chance that is believed."""
LEAST_BEYOND = 20
"""Scores in the tail below which its rate cannot be measured."""

LEAST_HOPELESS, MOST_HOPELESS = 0.05, 0.99
"""Share of hopeless views that no fit goes below: simulated change is not all that happens to ground; nor above."""


@dataclass(frozen=True)
class MatchLikelihood:
    """Distributions of the score z (in deviations of chance) on wrong ground and on the right one.

    On wrong ground z is Gaussian with an exponential tail: places of a map resemble each other more than chance would
    have it. On the right ground z lies around ρ·z_max, where z_max is what the view would score on itself and ρ is what
    season, sun and change leave of it; a share of views is hopeless and scores there as anywhere.
    The defaults are for a map on which nothing was fitted.
    """

    null_sigma: float = 1.05
    tail_rate: float = 3.5  # e-folds per unit of z beyond TAIL_START
    rho: tuple[float, ...] = tuple(np.linspace(0.08, 0.8, 13).round(2).tolist())  # equally likely
    hopeless: float = 0.05

    def log_null(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log density of z on wrong ground."""
        core = -0.5 * (np.minimum(z, TAIL_START) / self.null_sigma) ** 2
        tail = self.tail_rate * np.maximum(z - TAIL_START, 0.0)
        return core - tail - np.log(self.null_sigma * np.sqrt(2.0 * np.pi))

    def log_ratio(self, z: NDArray[np.float64], z_max: float) -> NDArray[np.float64]:
        """Log of p(z | right ground) / p(z | wrong ground); never falls as z grows."""
        z = np.asarray(z, np.float64)
        middles = np.concatenate([self.rho, ANY_RHO]) * z_max
        weights = np.repeat([(1.0 - SURPRISE) / len(self.rho), SURPRISE / len(ANY_RHO)], [len(self.rho), len(ANY_RHO)])
        on_truth = np.log(weights) - 0.5 * ((z[..., None] - middles) / SPREAD) ** 2
        largest = on_truth.max(axis=-1, keepdims=True)
        total = np.exp(on_truth - largest).sum(axis=-1) / (SPREAD * np.sqrt(2.0 * np.pi))
        log_truth = largest[..., 0] + np.log(total)
        return np.logaddexp(np.log(self.hopeless), np.log1p(-self.hopeless) + log_truth - self.log_null(z))

    def table(self, z_max: float) -> NDArray[np.float64]:
        """p(z | right) / p(z | wrong) at Z_LOW, Z_LOW + Z_STEP, …: made once per view, then only looked up."""
        z = np.arange(Z_LOW, Z_HIGH, Z_STEP)
        log_ratio = np.maximum.accumulate(self.log_ratio(z, z_max))
        return np.exp(np.minimum(log_ratio, MAX_LOG_RATIO))


def fit(right: NDArray[np.float64], z_max: NDArray[np.float64], wrong: NDArray[np.float64]) -> MatchLikelihood:
    """The likelihood that (n,) scores on the right ground, with what was possible, and (m,) on wrong ground show."""
    # Chance has deviation one by construction; what counts is how often wrong ground comes near to being taken.
    sigma = MOST_SIGMA  # of a map too small to have wrong ground
    if len(wrong):
        share = max(1, (wrong > MATCHED).sum()) / len(wrong)
        sigma = float(np.clip(MATCHED / scipy.special.ndtri(1.0 - share), 1.0, MOST_SIGMA))
    beyond = wrong[wrong > MEASURED] - MEASURED
    rate = 1.0 / float(beyond.mean()) if len(beyond) >= LEAST_BEYOND else TAIL_START / sigma**2
    hopeful = right > HOPELESS_Z
    rho = MatchLikelihood.rho  # of ground too bare to show what looks leave of it
    if hopeful.sum() >= RHO_VALUES:
        shares = np.quantile(right[hopeful] / z_max[hopeful], (np.arange(RHO_VALUES) + 0.5) / RHO_VALUES)
        rho = tuple(shares.tolist())
    hopeless = 1.0 - float(hopeful.mean()) if len(right) else MOST_HOPELESS
    return MatchLikelihood(
        null_sigma=sigma,
        tail_rate=float(np.clip(rate, 1.0, TAIL_START / sigma**2)),
        rho=rho,
        hopeless=min(MOST_HOPELESS, max(LEAST_HOPELESS, hopeless)),
    )


def look_up(table: NDArray[np.float64], z: NDArray[np.float32]) -> NDArray[np.float64]:
    """The table's value nearest to every z."""
    index = ((z - np.float32(Z_LOW)) * np.float32(1.0 / Z_STEP)).astype(np.int32)
    return table.take(index, mode="clip")
