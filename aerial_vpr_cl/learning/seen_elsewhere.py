"""Whether a flight was seen elsewhere than its GNSS says: for drones with a camera alone, whose track is unproven.

A network that is wrong is wrong in other directions over other ground, though it errs alike over the same. Where it
sees many pieces of ground of one flight the same way off, the drone flew there, and the receiver was shifted. Where
what it sees holds together as a flight, and hardly anything of it is where the receiver says, that is a lie of another
kind, such as another track.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

APART_CELLS = 0.3
"""Way between frames that are judged, by GNSS: closer ones show the same ground, and the network errs alike there."""
PIECE = 32
"""Such frames that are judged together: few enough that a growing drift hardly grows."""
FEWEST = 15
"""Frames of a piece below which nothing is said."""
SHARE, LEAST = 0.25, 7
"""Of the frames of a piece that must be seen the same way off, and how many at least."""
FAR_CELLS = 2.0
"""An honest receiver and a right answer are not as far apart."""
AHEAD = 4
"""Frames between two answers that are compared: beyond the ground over which a network errs alike."""
TOGETHER = 0.3
"""Share of such pairs as near each other as the drone can have flown, from which on a network sees one flight."""
NEAR_CELLS, BORNE_OUT = 1.5, 0.5
"""A network is right as often as the root of that share says, and sees an honest receiver as often so near: at least in
half of these frames."""
CELLS = 3
"""Cells that must be named in turn: one that all frames are taken for proves nothing."""


def shift_seen_m(
    told: NDArray[np.float64], seen: NDArray[np.float64], cell_side_m: float
) -> NDArray[np.float64] | None:
    """(2,) east and north from where (n, 2) GNSS says a flight was to where (n, 2) the network saw it.

    None where they do not contradict each other: most often, and wherever the network sees nothing that holds together.
    NaN stands for frames without an answer.
    """
    answered = np.flatnonzero(np.isfinite(told).all(axis=1) & np.isfinite(seen).all(axis=1))
    frames = answered[_apart(told[answered], APART_CELLS * cell_side_m)]
    pieces = np.array_split(frames, max(1, round(len(frames) / PIECE)))
    pieces = [piece for piece in pieces if len(piece) >= FEWEST]
    shifts = [judge(told[piece], seen[piece], cell_side_m) for piece in pieces for judge in (_shift_of, _way_off)]
    found = [shift for shift in shifts if shift is not None]
    return max(found, key=lambda shift: float(np.hypot(*shift))) if found else None


def _shift_of(told: NDArray[np.float64], seen: NDArray[np.float64], cell_side_m: float) -> NDArray[np.float64] | None:
    """Of one piece: the most common way off, if it is common enough and GNSS itself is not."""
    off = seen - told
    alike = np.linalg.norm(off[:, None] - off[None], axis=2) <= cell_side_m
    votes = alike.sum(axis=1)
    members = alike[int(np.argmax(votes))]
    shift = np.median(off[members], axis=0)
    borne_out = int((np.hypot(*off.T) <= FAR_CELLS * cell_side_m).sum())
    cells = len(np.unique(seen[members], axis=0))
    elsewhere = np.hypot(*shift) > FAR_CELLS * cell_side_m and cells >= CELLS
    return shift if elsewhere and members.sum() >= max(SHARE * len(off), LEAST, 2 * borne_out) else None


def _way_off(told: NDArray[np.float64], seen: NDArray[np.float64], cell_side_m: float) -> NDArray[np.float64] | None:
    """Of one piece: how far off it was seen, if it was seen as one flight that is not the told one."""
    way = np.linalg.norm(told[AHEAD:] - told[:-AHEAD], axis=1)
    together = float((np.linalg.norm(seen[AHEAD:] - seen[:-AHEAD], axis=1) <= way + cell_side_m).mean())
    off = seen - told
    distances = np.hypot(*off.T)
    there = float((distances <= NEAR_CELLS * cell_side_m).mean())
    one_flight = together >= TOGETHER and len(np.unique(seen, axis=0)) >= CELLS
    if not one_flight or there >= BORNE_OUT * together**0.5:
        return None
    return np.asarray(np.median(off[distances > NEAR_CELLS * cell_side_m], axis=0))


def _apart(points: NDArray[np.float64], distance_m: float) -> list[int]:
    """Rows of (n, 2) points along a track, each so far from the one chosen before it."""
    chosen: list[int] = []
    for row, point in enumerate(points):
        if not chosen or np.hypot(*(point - points[chosen[-1]])) >= distance_m:
            chosen.append(row)
    return chosen
