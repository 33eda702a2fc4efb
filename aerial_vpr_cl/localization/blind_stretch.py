"""Stretches over which views tell nothing: a town that was built, a harvest, fog and snow do not come frame by frame.

To take each view that fits nowhere for a surprise of its own would refute any track over such ground within a few
frames. Whether the drone is on such a stretch is a hidden state of its own, and two states are followed here.
"""

from __future__ import annotations

import math

USUAL = 0.05
"""Share of the way that lies on such stretches."""
LASTING = 4.0
"""Their length, in half footprints of new ground."""


class BlindStretch:
    """Probability that the next view tells nothing."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Know no more than what is usual."""
        self.probability = USUAL

    def move(self, news: float) -> None:
        """The next view shows this share of new ground: the more, the less is known of it."""
        self.probability = USUAL + (self.probability - USUAL) * math.exp(-news / LASTING)

    def see(self, evidence: float) -> None:
        """A view was so many times as likely, with all that is believed, as one of which nothing is known."""
        blind = self.probability
        self.probability = blind / (blind + (1.0 - blind) * max(evidence, 0.0)) if blind else 0.0
