"""The temporal split of a mission: the first half to learn from, the second to test on (paper, section 5.1.1)."""

from __future__ import annotations

GAP_FRAMES = 5
"""Frames dropped on each side of the boundary, so that no test frame shows what a training frame shows."""


def split_halves(n: int, gap: int = GAP_FRAMES) -> tuple[slice, slice]:
    """Slices of the training and the test frames among `n` in acquisition order.

    The boundary is Python's round(n / 2); `gap` frames on each side of it belong to neither. A mission too short for
    the gap gives empty halves.
    """
    if n < 0 or gap < 0:
        raise ValueError(f"a mission of {n} frames cannot be split with a gap of {gap}")
    boundary = round(n / 2)
    return slice(0, max(0, boundary - gap)), slice(min(n, boundary + gap), n)
