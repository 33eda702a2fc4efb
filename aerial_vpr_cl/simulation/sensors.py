"""The drone's own instruments: compass and tilt, height, odometry and the camera's calibration, with their errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.mission.readings import SLANT, CameraReading, HeightReading, ImuReading, OdometryReading, Reading
from aerial_vpr_cl.settings import setting
from aerial_vpr_cl.simulation.camera import CameraSettings, focal_px
from aerial_vpr_cl.simulation.episodes import beginnings, during, wandering
from aerial_vpr_cl.simulation.flights import Flight

Seconds = NDArray[np.float64]
Attitudes = Callable[[NDArray[np.int64]], NDArray[np.float64]]
Positions = Callable[[NDArray[np.int64]], NDArray[np.float64]]
"""Stamps to (n, 3, 3) true rotations base_link → ENU."""

SLOW_S = 15.0
SLOW_SHARE = 0.5
"""Share of an attitude error's variance that wanders over SLOW_S: frames do not average it out."""
ODOMETRY_S = 10.0
LOST_HEADING_DEG = 180.0


@dataclass(frozen=True)
class InstrumentSettings:
    """Which instruments the drone has besides the receiver, and how good they are."""

    imu: bool = setting(True, "attitude and compass are recorded")
    height: bool = setting(True, "a range finder is recorded")
    odometry: bool = setting(True, "odometry is recorded")
    camera_info: bool = setting(True, "the camera's calibration is recorded")
    imu_rate_hz: float = setting(10.0, "attitudes a second", low=0.1, high=1000.0)
    height_rate_hz: float = setting(5.0, "heights a second", low=0.1, high=1000.0)
    odometry_rate_hz: float = setting(10.0, "odometry messages a second", low=0.1, high=1000.0)
    heading_noise_deg: float = setting(3.0, "deviation of the heading, half of it slow", low=0.0, high=90.0)
    heading_bias_deg: float = setting(5.0, "largest constant error of the heading of a flight", low=0.0, high=180.0)
    heading_offset_deg: float = setting(
        0.0, "a further error of the heading: 180 is a compass that is mounted backwards", low=-180.0, high=180.0
    )
    tilt_noise_deg: float = setting(3.0, "deviation of pitch and of roll, half of it slow", low=0.0, high=45.0)
    height_noise: float = setting(0.05, "deviation of each height, as a share of it", low=0.0, high=1.0)
    height_bias: float = setting(
        0.0, "largest constant error of the heights of a flight, as a share", low=0.0, high=0.9
    )
    odometry_noise: float = setting(0.05, "deviation of the odometry, as a share of the way", low=0.0, high=1.0)
    odometry_drift_deg_min: float = setting(
        1.0, "largest turn of the odometry's heading in degrees a minute", low=0.0, high=90.0
    )
    odometry_follows_gnss: bool = setting(
        False, "odometry is an autopilot's, which believes the receiver: it moves as GNSS says, true or false"
    )
    compass_outages: int = setting(0, "times the heading is lost; pitch and roll go on", low=0, high=100)
    height_outages: int = setting(0, "times the range finder finds nothing", low=0, high=100)
    odometry_outages: int = setting(0, "times odometry stops, to begin anew at its origin", low=0, high=100)
    outage_s: float = setting(20.0, "length of each of these", low=0.1, high=3600.0)


def sense(
    flight: Flight,
    attitudes: Attitudes,
    camera: CameraSettings,
    instruments: InstrumentSettings,
    north_deg: float,
    rng: np.random.Generator,
    odometry_of: Positions | None = None,
) -> list[Reading]:
    """All readings from one second before the flight to one second after, in time order.

    `north_deg` is the bearing of true north on the map: a compass knows nothing of the map's north. Odometry moves as
    the drone does, unless other positions at (n,) stamps are given.
    """
    compass_rng, height_rng, odometry_rng = rng.spawn(3)  # one instrument more leaves the others as they were
    readings: list[Reading] = []
    if instruments.camera_info:
        readings += [camera_reading(camera, int(stamp)) for stamp in flight.stamps_ns]
    if instruments.imu:
        readings += _attitudes(flight, attitudes, instruments, north_deg, compass_rng)
    if instruments.height:
        readings += _ranges(flight, attitudes, instruments, height_rng)
    if instruments.odometry:
        readings += _odometry(flight, attitudes, instruments, odometry_rng, odometry_of or flight.positions_at)
    return sorted(readings, key=lambda reading: reading.stamp_ns)


def camera_reading(camera: CameraSettings, stamp_ns: int) -> CameraReading:
    """The true calibration of the simulated camera: a pinhole without distortion."""
    focal, width, height = focal_px(camera), camera.width_px, camera.height_px
    return CameraReading(stamp_ns, width, height, focal, focal, (width - 1) / 2.0, (height - 1) / 2.0)


def quaternions(rotations: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, 3, 3) rotations to (n, 4) quaternions x, y, z, w."""
    m = rotations
    # The eigenvector of the largest eigenvalue (Bar-Itzhack): no case needs its own formula.
    k = np.empty((len(m), 4, 4))
    trace = np.trace(m, axis1=1, axis2=2)
    k[:, :3, :3] = m + np.swapaxes(m, 1, 2) - trace[:, None, None] * np.eye(3)
    k[:, :3, 3] = k[:, 3, :3] = np.stack(
        [m[:, 2, 1] - m[:, 1, 2], m[:, 0, 2] - m[:, 2, 0], m[:, 1, 0] - m[:, 0, 1]], axis=1
    )
    k[:, 3, 3] = trace
    values = np.linalg.eigh(k)[1][:, :, -1]
    return np.asarray(values * np.where(values[:, 3:] < 0.0, -1.0, 1.0))


def _moments(flight: Flight, rate_hz: float) -> tuple[Seconds, NDArray[np.int64]]:
    seconds = np.arange(-1.0, flight.duration_s + 1.0, 1.0 / rate_hz)
    return seconds, flight.start_ns + np.round(seconds * 1e9).astype(np.int64)


def _attitudes(
    flight: Flight,
    attitudes: Attitudes,
    instruments: InstrumentSettings,
    north_deg: float,
    rng: np.random.Generator,
) -> list[Reading]:
    seconds, stamps = _moments(flight, instruments.imu_rate_hz)
    slow, quick = np.sqrt(SLOW_SHARE), np.sqrt(1.0 - SLOW_SHARE)
    error = slow * wandering(seconds, SLOW_S, rng, 3) + quick * rng.standard_normal((len(seconds), 3))
    tilt = error[:, :2] * np.radians(instruments.tilt_noise_deg)
    bias = rng.uniform(-1.0, 1.0) * instruments.heading_bias_deg
    heading = error[:, 2] * instruments.heading_noise_deg + bias + instruments.heading_offset_deg
    begin = beginnings(instruments.compass_outages, instruments.outage_s, flight.duration_s, rng)
    lost = during(seconds, begin, instruments.outage_s)
    heading[lost] = rng.uniform(-180.0, 180.0)
    measured = quaternions(_about_up(north_deg - heading) @ attitudes(stamps) @ _tilts(tilt))
    # What an honest driver would state; a compass mounted backwards does not know of it.
    known_deg = float(np.hypot(instruments.heading_noise_deg, instruments.heading_bias_deg / np.sqrt(3.0)))
    sigma = np.where(lost, LOST_HEADING_DEG, known_deg)
    return [
        ImuReading(int(stamp), _quaternion(q), float(sigma_deg), instruments.tilt_noise_deg)
        for stamp, q, sigma_deg in zip(stamps, measured, sigma)
    ]


def _ranges(
    flight: Flight, attitudes: Attitudes, instruments: InstrumentSettings, rng: np.random.Generator
) -> list[Reading]:
    """Of a range finder that is fixed to the body: along its down axis, over flat ground."""
    seconds, stamps = _moments(flight, instruments.height_rate_hz)
    true_m = flight.altitudes_m_at(stamps) / attitudes(stamps)[:, 2, 2]
    scale = (1.0 + rng.uniform(-1.0, 1.0) * instruments.height_bias) * (
        1.0 + instruments.height_noise * rng.standard_normal(len(seconds))
    )
    begin = beginnings(instruments.height_outages, instruments.outage_s, flight.duration_s, rng)
    # A range finder that finds nothing says +inf (REP 117).
    measured = np.where(during(seconds, begin, instruments.outage_s), np.inf, true_m * scale)
    known = float(np.hypot(instruments.height_noise, instruments.height_bias / np.sqrt(3.0)))
    highest_m = float(np.ceil(2.0 * true_m.max()))
    return [
        HeightReading(int(stamp), float(range_m), float(sigma) or np.nan, 0.5, highest_m, SLANT)
        for stamp, range_m, sigma in zip(stamps, measured, known * true_m)
    ]


def _odometry(
    flight: Flight,
    attitudes: Attitudes,
    instruments: InstrumentSettings,
    rng: np.random.Generator,
    positions_at: Positions,
) -> list[Reading]:
    """Steps are measured too long or short, and askew; the frame begins where and as the drone stood, and turns."""
    seconds, stamps = _moments(flight, instruments.odometry_rate_hz)
    steps = np.diff(positions_at(stamps), axis=0)
    along, across = (instruments.odometry_noise * wandering(seconds, ODOMETRY_S, rng)[1:]).T
    steps = steps * (1.0 + along)[:, None] + np.stack([-steps[:, 1], steps[:, 0]], axis=1) * across[:, None]
    rate_deg = rng.uniform(-1.0, 1.0) * instruments.odometry_drift_deg_min
    yaw_deg = flight.headings_deg_at(stamps[:1])[0] - 90.0 + rate_deg * seconds / 60.0
    frame = _about_up(yaw_deg)  # ENU → odom
    moved = np.einsum("nij,nj->ni", frame[1:, :2, :2], steps)
    climbed = np.diff(flight.altitudes_m_at(stamps))
    position = np.concatenate([np.zeros((1, 3)), np.cumsum(np.column_stack([moved, climbed]), axis=0)])
    begin = beginnings(instruments.odometry_outages, instruments.outage_s, flight.duration_s, rng)
    for first in np.searchsorted(seconds, begin + instruments.outage_s):
        position[first:] -= position[min(first, len(position) - 1)]
    heard = ~during(seconds, begin, instruments.outage_s)
    measured = quaternions(frame @ attitudes(stamps))
    return [
        OdometryReading(int(stamp), (float(x), float(y), float(z)), _quaternion(q))
        for stamp, (x, y, z), q in zip(stamps[heard], position[heard], measured[heard])
    ]


def _about_up(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, 3, 3) right-handed turns about the vertical."""
    cos, sin, zero = np.cos(np.radians(degrees)), np.sin(np.radians(degrees)), np.zeros(len(degrees))
    rows = [[cos, -sin, zero], [sin, cos, zero], [zero, zero, zero + 1.0]]
    return np.moveaxis(np.array(rows), 2, 0)


def _tilts(radians: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, 3, 3) turns about the forward and then the left axis by (n, 2) angles."""
    (roll, pitch), zero = radians.T, np.zeros(len(radians))
    about_x = [[zero + 1, zero, zero], [zero, np.cos(roll), -np.sin(roll)], [zero, np.sin(roll), np.cos(roll)]]
    about_y = [[np.cos(pitch), zero, np.sin(pitch)], [zero, zero + 1, zero], [-np.sin(pitch), zero, np.cos(pitch)]]
    return np.moveaxis(np.array(about_x), 2, 0) @ np.moveaxis(np.array(about_y), 2, 0)


def _quaternion(values: NDArray[np.float64]) -> tuple[float, float, float, float]:
    x, y, z, w = (float(value) for value in values)
    return x, y, z, w
