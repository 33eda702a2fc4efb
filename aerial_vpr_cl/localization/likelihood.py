"""What a match is worth: how much likelier a score is where the view belongs than where it does not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Z_STEP = 0.05
Z_LOW, Z_HIGH = -8.0, 60.0

MAX_LOG_RATIO = 300.0


@dataclass(frozen=True)
class MatchLikelihood:
    """Distributions of the score z (in deviations of chance) on wrong ground and on the right one.

    On wrong ground z is Gaussian with an exponential tail: other places of a map resemble each other more than chance
    would have it. On the right ground z lies around ρ·z_max, where z_max is what the view would score on itself and ρ,
    what season, sun and change leave of it, is spread evenly over a range; a share of views is hopeless and scores
    there as anywhere.
    """

    null_sigma: float = 1.0
    tail_start: float = 3.0
    tail_rate: float = 2.6  # e-folds per unit of z beyond tail_start
    rho: tuple[float, ...] = tuple(np.linspace(0.1, 0.8, 15).round(3).tolist())  # equally likely
    spread: float = 1.2  # deviation of z around ρ·z_max
    hopeless: float = 0.05

    def log_null(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log density of z on wrong ground."""
        core = -0.5 * (np.minimum(z, self.tail_start) / self.null_sigma) ** 2
        tail = self.tail_rate * np.maximum(z - self.tail_start, 0.0)
        return core - tail - np.log(self.null_sigma * np.sqrt(2.0 * np.pi))

    def log_ratio(self, z: NDArray[np.float64], z_max: float) -> NDArray[np.float64]:
        """Log of p(z | right ground) / p(z | wrong ground); never falls as z grows."""
        z = np.asarray(z, np.float64)
        middles = np.array(self.rho) * z_max
        on_truth = -0.5 * ((z[..., None] - middles) / self.spread) ** 2 - np.log(self.spread * np.sqrt(2.0 * np.pi))
        ratio = np.logaddexp.reduce(on_truth, axis=-1) - np.log(len(middles)) - self.log_null(z)
        return np.logaddexp(np.log(self.hopeless), np.log1p(-self.hopeless) + ratio)

    def table(self, z_max: float) -> NDArray[np.float64]:
        """p(z | right) / p(z | wrong) at Z_LOW, Z_LOW + Z_STEP, …: made once per view, then only looked up."""
        z = np.arange(Z_LOW, Z_HIGH, Z_STEP)
        log_ratio = np.maximum.accumulate(self.log_ratio(z, z_max))
        return np.exp(np.minimum(log_ratio, MAX_LOG_RATIO))


def look_up(table: NDArray[np.float64], z: NDArray[np.float32]) -> NDArray[np.float64]:
    """The table's value nearest to every z."""
    index = ((z - np.float32(Z_LOW)) * np.float32(1.0 / Z_STEP)).astype(np.int32)
    return table[np.clip(index, 0, len(table) - 1)]
