"""Flights: a route flown at a realistic pace, with rounded corners, and a frame at constant intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.simulation.tracks import Box, Points, TrackSettings, waypoints
from aerial_vpr_cl.simulation.world.noise import smooth_series

STEP_M = 2.0
SHARPEST_M = 0.05
"""Radius at which a corner is a turn on the spot."""


@dataclass(frozen=True)
class Flight:
    """The true motion of the drone, finely sampled, and the moments at which frames are taken."""

    start_ns: int
    stamps_ns: NDArray[np.int64]  # (n,) of the frames
    path_s: NDArray[np.float64]  # (m,) seconds since the start, ascending
    path: Points  # (m, 2)
    path_heading: NDArray[np.float64]  # (m,) radians, unwrapped
    path_altitude_m: NDArray[np.float64]  # (m,)

    @property
    def duration_s(self) -> float:
        return float(self.path_s[-1])

    @property
    def length_m(self) -> float:
        return float(np.hypot(*np.diff(self.path, axis=0).T).sum())

    def positions_at(self, stamps_ns: NDArray[np.int64]) -> Points:
        """(k, 2) true easting and northing; before the start and after the end the drone hovers."""
        seconds = self._seconds(stamps_ns)
        return np.stack([np.interp(seconds, self.path_s, self.path[:, axis]) for axis in (0, 1)], axis=1)

    def headings_deg_at(self, stamps_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        """(k,) degrees clockwise from north, in [0, 360)."""
        return np.degrees(np.interp(self._seconds(stamps_ns), self.path_s, self.path_heading)) % 360.0

    def altitudes_m_at(self, stamps_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        """(k,) height above ground."""
        return np.interp(self._seconds(stamps_ns), self.path_s, self.path_altitude_m)

    def _seconds(self, stamps_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        return (np.asarray(stamps_ns, np.int64) - self.start_ns) / 1e9


def box_of(bounds: tuple[float, float, float, float], track: TrackSettings, reach_m: float) -> Box:
    """Where the drone may fly: its part of the world, and never so near the border that the camera sees past it."""
    west, south, east, north = bounds
    if len(track.area) != 4 or not (
        0 <= track.area[0] < track.area[2] <= 1 and 0 <= track.area[1] < track.area[3] <= 1
    ):
        raise SettingsError(
            f"area is {list(track.area)}; give west, south, east, north as ascending shares of the world"
        )
    size = np.array([east - west, north - south])
    low, high = np.array([west, south]) + reach_m, np.array([east, north]) - reach_m
    if (high - low < 50.0).any():
        raise SettingsError(
            f"the camera sees up to {reach_m:.0f} m around the drone, too far for a world of "
            f"{size[0]:.0f} × {size[1]:.0f} m; fly lower, narrow hfov_deg, tilt less, or use a larger world"
        )
    inner_low = np.clip(np.array([west, south]) + size * track.area[:2], low, high - 50.0)
    inner_high = np.clip(np.array([west, south]) + size * track.area[2:], inner_low + 50.0, high)
    return Box(inner_low, inner_high)


def plan_flight(track: TrackSettings, box: Box, frames: int, start_ns: int, rng: np.random.Generator) -> Flight:
    """Fly a route inside the box, with exactly `frames` frames at a constant rate from its start to its end."""
    if frames < 2:
        raise SettingsError(f"a mission needs at least 2 frames, not {frames}")
    corners = waypoints(track, box, (frames - 1) * track.spacing_m, rng)
    turn_rate = np.radians(track.turn_rate_deg_s)
    path, heading, radius = round_corners(corners, track.speed_m_s / turn_rate)
    steps = np.hypot(*np.diff(path, axis=0).T)
    limit = np.minimum(turn_rate * radius, track.speed_m_s)
    speed = _bounded_acceleration(limit, steps, track.acceleration_m_s2)
    path_s = np.concatenate([[0.0], np.cumsum(2.0 * steps / (speed[:-1] + speed[1:]))])
    wander = smooth_series(len(path), 400.0 / STEP_M, rng)
    altitude = track.altitude_m + track.altitude_wander_m * np.clip(wander, -2.0, 2.0)
    stamps = start_ns + np.round(np.linspace(0.0, path_s[-1], frames) * 1e9).astype(np.int64)
    return Flight(start_ns, stamps, path_s, path, heading, altitude)


def round_corners(corners: Points, radius_m: float) -> tuple[Points, NDArray[np.float64], NDArray[np.float64]]:
    """Replace corners by arcs, smaller ones where legs are short.

    Returns points about STEP_M apart (m, 2), unwrapped headings in radians (m,), and the radius of turn there (m,).
    An arc stays inside the triangle of its corner, so a route in a box stays in it.
    """
    legs = np.diff(corners, axis=0)
    corners = corners[np.concatenate([[True], np.hypot(*legs.T) > 0.5])]
    legs = np.diff(corners, axis=0)
    lengths = np.hypot(*legs.T)
    headings = np.arctan2(legs[:, 0], legs[:, 1])
    points, tangents, radii = [corners[:1]], [headings[:1]], [np.array([np.inf])]
    turn = headings[0]
    for k in range(1, len(corners) - 1):
        deflection = (headings[k] - headings[k - 1] + np.pi) % (2.0 * np.pi) - np.pi
        if abs(deflection) < 1e-6:
            continue
        opening = np.tan(abs(deflection) / 2.0)
        # Where the route doubles back no arc of full radius fits: a tighter one, near the corner, is flown slowly.
        reach = min(radius_m * min(opening, 2.0), 0.499 * lengths[k - 1], 0.499 * lengths[k])
        radius = max(reach / opening, SHARPEST_M)
        count = max(8, int(np.ceil(abs(deflection) * radius / STEP_M)))
        swept = np.linspace(0.0, deflection, count + 1)
        entry = corners[k] - legs[k - 1] / lengths[k - 1] * reach
        side = np.sign(deflection)
        right = np.array([np.cos(headings[k - 1]), -np.sin(headings[k - 1])])
        middle = entry + side * radius * right
        # The radius vector from the middle turns with the heading.
        arm = headings[k - 1] + swept
        arc = middle - side * radius * np.stack([np.cos(arm), -np.sin(arm)], axis=1)
        points += [_straight(points[-1][-1], entry), arc]
        straight = len(points[-2])
        tangents += [np.full(straight, turn), turn + swept]
        radii += [np.full(straight, np.inf), np.full(len(arc), radius)]
        turn = turn + deflection
    points.append(np.vstack([_straight(points[-1][-1], corners[-1]), corners[-1:]]))
    tangents.append(np.full(len(points[-1]), turn))
    radii.append(np.full(len(points[-1]), np.inf))
    path, heading, radius_here = np.vstack(points), np.concatenate(tangents), np.concatenate(radii)
    moved = np.concatenate([[True], np.hypot(*np.diff(path, axis=0).T) > 1e-9])
    return path[moved], heading[moved], radius_here[moved]


def _straight(start: Points, end: Points) -> Points:
    """Points between two ends, without them."""
    count = max(1, int(np.ceil(np.hypot(*(end - start)) / STEP_M)))
    return start + (end - start) * (np.arange(1, count) / count)[:, None]


def _bounded_acceleration(limit: NDArray[np.float64], steps: NDArray[np.float64], most: float) -> NDArray[np.float64]:
    """The fastest speeds below the limit that never ask for more than `most` m/s² between neighbours."""
    speed = limit.copy()
    for k in range(len(steps)):
        speed[k + 1] = min(speed[k + 1], np.sqrt(speed[k] ** 2 + 2.0 * most * steps[k]))
    for k in range(len(steps) - 1, -1, -1):
        speed[k] = min(speed[k], np.sqrt(speed[k + 1] ** 2 + 2.0 * most * steps[k]))
    return speed
