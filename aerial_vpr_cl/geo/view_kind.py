"""The kind of view: which way up, and how exactly so, the images are that a network knows."""

from __future__ import annotations

from dataclasses import dataclass

NORTH_UP, AS_SEEN = "north_up", "as_seen"


@dataclass(frozen=True)
class ViewKind:
    """Part of a network's identity: one that was trained north up has never seen ground the other way round."""

    kind: str = NORTH_UP
    # A magnetometer's 3° beside a bias of up to 5° (3° sigma); a height's few per cent, lens and relief.
    heading_sigma_deg: float = 5.0
    zoom_sigma: float = 0.05

    @property
    def is_north_up(self) -> bool:
        """Whether headings mean something to it."""
        return self.kind == NORTH_UP

    def __str__(self) -> str:
        if not self.is_north_up:
            return "as seen, any heading"
        return f"north up, heading σ {self.heading_sigma_deg:g}°, scale σ {self.zoom_sigma:.0%}"


PAPER_VIEW = ViewKind(AS_SEEN, 0.0, 0.0)
"""Frames as they come, any heading and scale."""
