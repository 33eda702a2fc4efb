"""The satellite receiver: a wandering error, outages, and multipath that the covariance admits or hides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.geo.projection import Projection
from aerial_vpr_cl.settings import setting
from aerial_vpr_cl.simulation.episodes import beginnings, during, wandering
from aerial_vpr_cl.simulation.flights import Flight

STATUS_FIX, STATUS_NO_FIX = 0, -1
"""Values of sensor_msgs/NavSatStatus."""
DRIFT_S = 30.0


@dataclass(frozen=True)
class GnssSettings:
    """How good the receiver and its sky are."""

    rate_hz: float = setting(5.0, "fixes a second", low=0.1, high=50.0)
    drift_m: float = setting(1.2, "deviation of the error that wanders over half a minute", low=0.0, high=100.0)
    noise_m: float = setting(0.3, "deviation of the error of each fix", low=0.0, high=100.0)
    outages: int = setting(0, "times the fix is lost", low=0, high=100)
    outage_s: float = setting(8.0, "length of each", low=0.1, high=3600.0)
    silent_outages: bool = setting(False, "in an outage nothing is sent; otherwise messages say NO_FIX")
    jumps: int = setting(0, "times multipath shifts the position", low=0, high=100)
    jump_m: float = setting(30.0, "typical shift", low=0.0, high=1000.0)
    jump_s: float = setting(6.0, "length of each", low=0.1, high=3600.0)
    jammed: bool = setting(False, "no fix from the first second to the last")
    spoofing: str = setting(
        "none",
        "a false GNSS: shifted by a constant (offset), dragged away more and more (drift), the flight backwards, or "
        "recorded on another track (replayed): this one, turned by a quarter",
        choices=("none", "offset", "drift", "backwards", "replayed"),
    )
    spoofing_m: float = setting(1000.0, "how far a false GNSS lies off, at the end of a drift", low=0.0, high=1e5)
    honest: bool = setting(True, "the covariance grows with multipath; otherwise it stays small")


@dataclass(frozen=True)
class Fix:
    """One message of the receiver; NaN where there is no fix."""

    stamp_ns: int
    latitude: float
    longitude: float
    altitude_m: float
    status: int
    variance_m2: float


def receive(flight: Flight, gnss: GnssSettings, projection: Projection, rng: np.random.Generator) -> list[Fix]:
    """Fixes from one second before the flight to one second after, in time order."""
    seconds = np.arange(-1.0, flight.duration_s + 1.0, 1.0 / gnss.rate_hz)
    stamps = flight.start_ns + np.round(seconds * 1e9).astype(np.int64)
    error = wandering(seconds, DRIFT_S, rng) * gnss.drift_m + rng.normal(0.0, gnss.noise_m, (len(seconds), 2))
    variance = np.full(len(seconds), max(gnss.drift_m**2 + gnss.noise_m**2, 0.01))
    lost = during(seconds, beginnings(gnss.outages, gnss.outage_s, flight.duration_s, rng), gnss.outage_s)
    for begin in beginnings(gnss.jumps, gnss.jump_s, flight.duration_s, rng):
        shifted = (seconds >= begin) & (seconds < begin + gnss.jump_s)
        bearing, size = rng.uniform(0.0, 2.0 * np.pi), gnss.jump_m * rng.uniform(0.6, 1.4)
        error[shifted] += size * np.array([np.sin(bearing), np.cos(bearing)])
        if gnss.honest:
            variance[shifted] += size**2
    lost |= gnss.jammed
    latitude, longitude = projection.to_wgs84(told_positions(flight, gnss, stamps) + error)
    altitude = flight.altitudes_m_at(stamps) + rng.normal(0.0, 1.5 * gnss.noise_m, len(seconds))
    fixes = []
    for k in range(len(seconds)):
        if not lost[k]:
            fixes.append(
                Fix(
                    int(stamps[k]),
                    float(latitude[k]),
                    float(longitude[k]),
                    float(altitude[k]),
                    STATUS_FIX,
                    float(variance[k]),
                )
            )
        elif not gnss.silent_outages:
            fixes.append(Fix(int(stamps[k]), float("nan"), float("nan"), float("nan"), STATUS_NO_FIX, 1e6))
    return fixes


def told_positions(flight: Flight, gnss: GnssSettings, stamps: NDArray[np.int64]) -> NDArray[np.float64]:
    """(k, 2) where the signals say that the drone is: the truth, or a smooth lie."""
    truth = flight.positions_at(stamps)
    if gnss.spoofing == "backwards":
        return flight.positions_at(stamps[0] + stamps[-1] - stamps)
    if gnss.spoofing == "replayed":
        middle = truth.mean(axis=0)
        return middle + (truth - middle) @ np.array([[0.0, 1.0], [-1.0, 0.0]])
    shares = {"offset": np.ones(len(stamps)), "drift": np.linspace(0.0, 1.0, len(stamps))}
    share = shares.get(gnss.spoofing, np.zeros(len(stamps)))
    return truth + share[:, None] * gnss.spoofing_m * np.array([0.6, 0.8])
