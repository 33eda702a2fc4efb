"""How errors run through a flight: they wander, and now and then something is lost for a while."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def wandering(
    seconds: NDArray[np.float64], time_constant_s: float, rng: np.random.Generator, columns: int = 2
) -> NDArray[np.float64]:
    """(n, columns) first-order Gauss–Markov processes of unit deviation at evenly spaced times."""
    keep = float(np.exp(-(seconds[1] - seconds[0]) / time_constant_s))
    shocks = rng.standard_normal((len(seconds), columns))
    shocks[1:] *= np.sqrt(1.0 - keep**2)
    values = shocks.copy()
    for k in range(1, len(values)):
        values[k] += keep * values[k - 1]
    return values


def beginnings(count: int, length_s: float, duration_s: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Seconds at which `count` episodes begin, one in each equal part of the flight."""
    part = duration_s / max(count, 1)
    return np.arange(count) * part + rng.uniform(0.0, max(part - length_s, 0.0), count)


def during(seconds: NDArray[np.float64], begin_s: NDArray[np.float64], length_s: float) -> NDArray[np.bool_]:
    """(n,) whether each time lies in one of the episodes."""
    after = seconds[:, None] - begin_s[None, :]
    return np.asarray(((after >= 0.0) & (after < length_s)).any(axis=1))
