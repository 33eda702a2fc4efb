"""Routes as lists of waypoints, in metres, that stay inside a box and are about as long as asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.settings import setting

Points = NDArray[np.float64]
KINDS = ("survey", "transit", "random", "out_and_back")
SHORTEST_M = 20.0
"""Even two frames make a flight."""


@dataclass(frozen=True)
class TrackSettings:
    """Where and how a mission flies."""

    kind: str = setting("out_and_back", "survey lines, straight transit, random legs, or there and back", choices=KINDS)
    altitude_m: float = setting(300.0, "height above ground", low=10.0, high=5000.0)
    altitude_wander_m: float = setting(3.0, "deviation of the height in flight", low=0.0, high=100.0)
    speed_m_s: float = setting(13.0, "cruise speed", low=2.0, high=60.0)
    turn_rate_deg_s: float = setting(25.0, "fastest turn; tighter corners are flown more slowly", low=1.0, high=180.0)
    acceleration_m_s2: float = setting(2.5, "how hard it brakes and speeds up", low=0.1, high=20.0)
    spacing_m: float = setting(30.0, "distance between frames at cruise speed; gives the length of the route", low=1.0)
    leg_m: float = setting(450.0, "typical straight leg of random and out_and_back", low=50.0)
    offset_m: float = setting(35.0, "out_and_back: how far beside the way out the way back lies", low=1.0)
    line_spacing_m: float = setting(120.0, "survey: distance between lines", low=5.0)
    area: tuple[float, ...] = setting((0.0, 0.0, 1.0, 1.0), "part of the world: west, south, east, north as shares")


@dataclass(frozen=True)
class Box:
    """Where the drone may be so that its camera sees only the world."""

    low: Points  # (2,)
    high: Points  # (2,)

    @property
    def size(self) -> Points:
        return self.high - self.low

    def inset(self, margin_m: float) -> Box:
        """The box without a border; never turned inside out."""
        margin = np.minimum(margin_m, self.size / 2.0 - 1.0)
        return Box(self.low + margin, self.high - margin)

    def holds(self, point: Points) -> bool:
        return bool((point >= self.low).all() and (point <= self.high).all())

    def clip(self, points: Points) -> Points:
        return np.clip(points, self.low, self.high)


def waypoints(track: TrackSettings, box: Box, length_m: float, rng: np.random.Generator) -> Points:
    """(k, 2) corners of a route of the asked kind."""
    routes = {"survey": _survey, "transit": _transit, "random": _wander, "out_and_back": _out_and_back}
    return routes[track.kind](track, box, max(length_m, SHORTEST_M), rng)


def _transit(track: TrackSettings, box: Box, length_m: float, rng: np.random.Generator) -> Points:
    """Across the box, no longer than it is; a longer one takes its frames closer together."""
    lengthwise = int(rng.random() < box.size[0] / box.size.sum())  # 1: west to east, more often in a wide box
    axis = 1 - lengthwise
    shares = rng.uniform(0.05, 0.95, 2)
    ends = np.empty((2, 2))
    ends[:, axis], ends[:, 1 - axis] = (0.0, 1.0) if rng.random() < 0.5 else (1.0, 0.0), shares
    start, end = box.low + ends * box.size
    crossing = float(np.hypot(*(end - start)))
    share = min(1.0, length_m / crossing)
    first = start + (end - start) * rng.uniform(0.0, 1.0 - share)
    last = first + (end - start) * share
    # One gentle bend, as winds and airspaces make them.
    sideways = np.array([start[1] - end[1], end[0] - start[0]]) / crossing
    bend = first + (last - first) * rng.uniform(0.4, 0.6) + sideways * rng.normal(0.0, 0.04) * crossing
    return box.clip(np.array([first, bend, last]))


def _survey(track: TrackSettings, box: Box, length_m: float, rng: np.random.Generator) -> Points:
    """Parallel lines over a rectangle; a route longer than that goes on crosswise."""
    area = length_m * track.line_spacing_m
    sides = np.array([np.sqrt(1.4 * area), np.sqrt(area / 1.4)])
    turn = rng.uniform(0.0, np.pi)
    cos, sin = abs(np.cos(turn)), abs(np.sin(turn))
    half = np.array([sides[0] * cos + sides[1] * sin, sides[0] * sin + sides[1] * cos]) / 2.0
    shrink = min(1.0, float((box.size / 2.0 / half).min()))
    sides, half = sides * shrink, half * shrink
    centre = rng.uniform(box.low + half, np.maximum(box.high - half, box.low + half))
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    route, crosswise = np.zeros((0, 2)), False
    while _length(route) < length_m:
        along, across = (sides[1], sides[0]) if crosswise else sides
        count = max(2, 1 + int(across // track.line_spacing_m))
        lines = np.linspace(-across / 2.0, across / 2.0, count)
        ends = np.array(
            [(-along / 2.0, along / 2.0) if k % 2 == 0 else (along / 2.0, -along / 2.0) for k in range(count)]
        )
        local = np.stack([ends, np.repeat(lines[:, None], 2, axis=1)], axis=2).reshape(-1, 2)
        local = local[:, ::-1] if crosswise else local
        # Begin the crosswise pass at the corner where the last pass ended.
        variants = [local * [i, j] for i in (1, -1) for j in (1, -1)]
        passes = [centre + variant @ rotation.T for variant in variants]
        nearest = min(passes, key=lambda p: 0.0 if not len(route) else float(np.hypot(*(p[0] - route[-1]))))
        skip = 1 if len(route) and np.hypot(*(nearest[0] - route[-1])) < 1.0 else 0
        route = np.vstack([route, nearest[skip:]])
        crosswise = not crosswise
    return box.clip(_truncate(route, length_m))


def _wander(track: TrackSettings, box: Box, length_m: float, rng: np.random.Generator) -> Points:
    """Legs of varying length and mostly gentle turns."""
    route = [rng.uniform(box.low, box.high)]
    heading, flown = rng.uniform(0.0, 2.0 * np.pi), 0.0
    while flown < length_m:
        leg = track.leg_m * rng.uniform(0.6, 1.4)
        for widest_deg in (60.0,) * 8 + (100.0,) * 12 + (150.0,) * 30:
            turned = heading + np.radians(rng.uniform(-widest_deg, widest_deg))
            end = route[-1] + leg * np.array([np.sin(turned), np.cos(turned)])
            if box.holds(end):
                break
            leg *= 0.97
        else:  # cornered: towards the middle
            end = (box.low + box.high) / 2.0 + rng.uniform(-0.2, 0.2, 2) * box.size
            turned = float(np.arctan2(*(end - route[-1])))
        flown += float(np.hypot(*(end - route[-1])))
        route.append(end)
        heading = turned
    return _truncate(np.array(route), length_m)


def _out_and_back(track: TrackSettings, box: Box, length_m: float, rng: np.random.Generator) -> Points:
    """A way out and, beside it, the way back: both halves of the mission see the same cells, from opposite sides."""
    way_m = max((length_m - track.offset_m) / 2.0, SHORTEST_M)
    out = _wander(track, box.inset(1.5 * track.offset_m), way_m, rng)
    side = track.offset_m if rng.random() < 0.5 else -track.offset_m
    steps = np.diff(out, axis=0)
    normals = np.stack([steps[:, 1], -steps[:, 0]], axis=1) / np.hypot(*steps.T)[:, None]
    before, after = np.vstack([normals[:1], normals]), np.vstack([normals, normals[-1:]])
    mitre = (before + after) / np.maximum(1.0 + (before * after).sum(axis=1), 0.35)[:, None]
    return box.clip(np.vstack([out, (out + side * mitre)[::-1]]))


def _length(route: Points) -> float:
    return float(np.hypot(*np.diff(route, axis=0).T).sum()) if len(route) > 1 else 0.0


def _truncate(route: Points, length_m: float) -> Points:
    """The beginning of a route, cut where it reaches the length."""
    flown = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(route, axis=0).T))])
    last = int(np.searchsorted(flown, length_m))
    if last >= len(route):
        return route
    share = (length_m - flown[last - 1]) / (flown[last] - flown[last - 1])
    end = route[last - 1] + share * (route[last] - route[last - 1])
    return np.vstack([route[:last], end])
