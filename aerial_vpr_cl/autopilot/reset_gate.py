"""When an autopilot whose filter has no gate of its own may be set to our position."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.settings import setting

AHEAD_NS = 10 * 10**9
"""A fix may be younger than the image that is answered; one that is so much younger is of another time."""


@dataclass(frozen=True)
class ResetSettings:
    """When ArduPilot's filter is set to our position. The command has no gate of its own, so the gate is here."""

    no_gnss_s: float = setting(3.0, "seconds without a good GNSS fix before anything is sent", low=1.0)
    held_s: float = setting(5.0, "seconds that the localization must have held without a break", low=1.0)
    held_far_s: float = setting(
        30.0, "the same where the disagreement is more than dead reckoning can have drifted", low=1.0
    )
    interval_s: float = setting(10.0, "least seconds between two resets", low=1.0)
    sigmas: float = setting(
        3.0, "standard deviations of a position that dead reckoning must be off by; nearer, it is left alone", low=1.0
    )
    drift_share: float = setting(
        0.1,
        "standard deviation of dead reckoning, as a share of the way since the last fix or reset",
        low=0.001,
        high=1.0,
    )


class ResetGate:
    """Decides whether a position may be sent as a reset: only while dead reckoning, only when it is needed and proven.

    Needed means: dead reckoning is further off than the position's own sigmas explain. Proven means: published without
    a break for `held_s`, while the difference from dead reckoning has not wandered more than they allow, so a single
    wrong answer, or a wrong one that moves on its own, never passes. A position that follows odometry moves beside dead
    reckoning even if it is wrong: one that is further off than drift explains must hold much longer.
    """

    def __init__(self, settings: ResetSettings) -> None:
        self.settings = settings
        self._differences: list[tuple[int, float, NDArray[np.float64]]] = []  # with the way until then
        self._since_ns = 0  # when the localization began to hold
        self._good_gnss_ns: int | None = None
        self._sent_ns: int | None = None
        self._way_m = 0.0

    def add_gnss(self, stamp_ns: int, is_good: bool) -> None:
        """The receiver spoke."""
        if is_good:
            self._good_gnss_ns = stamp_ns
            self._way_m = 0.0
            self._differences.clear()

    def add_way(self, distance_m: float) -> None:
        """The drone has moved by dead reckoning."""
        self._way_m += distance_m

    def break_off(self) -> None:
        """The localization fell silent."""
        self._differences.clear()

    def allows(self, stamp_ns: int, difference_m: NDArray[np.float64], covariance: NDArray[np.float64]) -> bool:
        """Whether a position that lies `difference_m` (east, north) from dead reckoning may be sent now."""
        settings = self.settings
        held_ns = round(settings.held_s * 1e9)
        self._good_gnss_ns = _not_ahead(self._good_gnss_ns, stamp_ns)
        self._sent_ns = _not_ahead(self._sent_ns, stamp_ns)
        kept = [entry for entry in self._differences if 0 <= stamp_ns - entry[0] <= 2 * held_ns]
        self._since_ns = self._since_ns if kept else stamp_ns
        kept.append((stamp_ns, self._way_m, np.asarray(difference_m, float)))
        self._differences = kept
        if self._good_gnss_ns is not None and stamp_ns - self._good_gnss_ns < settings.no_gnss_s * 1e9:
            return False
        if self._sent_ns is not None and stamp_ns - self._sent_ns < settings.interval_s * 1e9:
            return False
        dead_reckoning = covariance + np.eye(2) * (settings.drift_share * self._way_m) ** 2
        is_far = _squared_sigmas(difference_m, dead_reckoning) > settings.sigmas**2
        if stamp_ns - self._since_ns < (settings.held_far_s * 1e9 if is_far else held_ns):
            return False
        # Over the time held the two tracks must run side by side, as far as errors and drift let them.
        for _, way_m, difference in kept:
            drift = np.eye(2) * (settings.drift_share * (self._way_m - way_m)) ** 2
            if _squared_sigmas(difference - difference_m, 2.0 * covariance + drift) > settings.sigmas**2:
                return False
        return bool(_squared_sigmas(difference_m, covariance) > settings.sigmas**2)

    def sent(self, stamp_ns: int) -> None:
        """A reset was sent: dead reckoning begins anew there."""
        self._sent_ns, self._way_m = stamp_ns, 0.0
        self._differences.clear()


def _not_ahead(then_ns: int | None, now_ns: int) -> int | None:
    """A time that was noted; now, if the clock was set back since."""
    return now_ns if then_ns is not None and then_ns - now_ns > AHEAD_NS else then_ns


def _squared_sigmas(offsets: NDArray[np.float64], covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """(...) squared Mahalanobis lengths of (..., 2) offsets."""
    return np.asarray(np.einsum("...i,ij,...j->...", offsets, np.linalg.inv(covariance), offsets))
