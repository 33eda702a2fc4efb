"""What a tracker is doing, and when it changes its mind: with hysteresis, and with words for the operator."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

SEARCHING = "searching"
TRACKING = "tracking"
UNSURE = "unsure"
LOST = "lost"
OFF_MAP = "off the map"

STATES = {
    SEARCHING: "no place stands out yet",
    TRACKING: "the views fit the track",
    UNSURE: "the views stopped to fit the track, or the position became too vague",
    LOST: "the views do not fit where the drone was thought to be; the whole map is searched",
    OFF_MAP: "the drone seems to be beside the map",
}
"""What each state means."""


LEAST_LOST_S = 2.0
"""A track is not given up for what lasts a moment, however many frames it has."""
SUPPORT = 2.0
"""Log fit above which a view speaks for the track."""
MISFIT = -1.0
"""Log fit below which a view speaks against the track, whatever was usual."""
MISFIT_SHARE, MISFIT_MOST = 0.25, 1.5
"""Share of the usual fit below which it does, and the fit from which on it never does: a likelihood ratio is one on
average on wrong ground, and far below on most of it."""


class UsualFit:
    """How well the views of this flight fit the map where the track is right, by how much structure they have."""

    def __init__(self, memory: int = 20, least: int = 3) -> None:
        self._least = least
        self._shares: deque[float] = deque(maxlen=memory)

    def reset(self) -> None:
        """Expect nothing."""
        self._shares.clear()

    def add(self, fit: float, structure: float) -> None:
        """A view that fitted; `structure` is what it would score on ground that looks the same."""
        self._shares.append(fit / max(structure, 1e-6))

    def is_misfit(self, fit: float, structure: float) -> bool:
        """Whether a view of so much structure should have fitted better."""
        usual = float(np.median(self._shares)) * structure if len(self._shares) >= self._least else 0.0
        return fit < (min(MISFIT_MOST, MISFIT_SHARE * usual) if usual > 0.0 else MISFIT)


@dataclass(frozen=True)
class Signs:
    """What one frame leaves behind: all that a change of state depends on."""

    sure: bool  # enough of the belief lies close enough together
    support: bool | None  # whether the view speaks for the belief; None: it told nothing
    misfit: bool | None  # whether the view speaks against the belief; None: it told nothing
    off_map: float  # belief in being beside the map
    weight: float = (
        1.0  # of the view as a confirmation: less if it overlaps the one before and proves nothing by itself
    )
    seconds: float = math.inf  # since the frame before


@dataclass
class StateMachine:
    """The state and the counts behind it."""

    confirmations: int = 2  # sure frames in a row before a position is given, each by its weight
    surprises: int = 2  # misfits in a row before it is withheld
    lost_after: int = 4  # misfits, or unsure frames, in a row before the track is given up
    state: str = SEARCHING
    _sure: float = 0.0
    _misfits: int = 0
    _unsure: int = 0
    _unsure_s: float = 0.0

    def reset(self, state: str = SEARCHING) -> None:
        """Begin anew."""
        self.state, self._sure, self._misfits, self._unsure, self._unsure_s = state, 0.0, 0, 0, 0.0

    @property
    def misfits(self) -> int:
        """Views in a row that did not fit."""
        return self._misfits

    def advance(self, signs: Signs) -> str:
        """The state after one more frame."""
        if signs.misfit is not None:
            self._misfits = self._misfits + 1 if signs.misfit else 0
        fitting = signs.sure and self._misfits == 0
        if not fitting or (signs.support is False and self.state != TRACKING):
            self._sure = 0.0
        elif signs.support or self.state == TRACKING:
            # Where it was a moment ago, a drone need not prove itself anew.
            self._sure += 1.0 if self.state in (TRACKING, UNSURE) else signs.weight
        self._unsure, self._unsure_s = (0, 0.0) if fitting else (self._unsure + 1, self._unsure_s + signs.seconds)
        if signs.off_map > (0.3 if self.state == OFF_MAP else 0.5):
            self.state = OFF_MAP
        elif self.state == OFF_MAP:
            self.reset()
        elif self._sure >= self.confirmations:
            self.state = TRACKING
        elif self.state == TRACKING and (not signs.sure or self._misfits >= self.surprises):
            self.state, self._unsure, self._unsure_s = UNSURE, 1, signs.seconds
        elif self.state == UNSURE and self._unsure > self.lost_after and self._unsure_s >= LEAST_LOST_S:
            self.state = LOST
        return self.state
