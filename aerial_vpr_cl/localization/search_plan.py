"""Where a view is laid on the map: near the track, in the network's cells, or everywhere, and with which headings."""

from __future__ import annotations

import numpy as np

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.localization.belief import Belief
from aerial_vpr_cl.localization.lattice import Bounds
from aerial_vpr_cl.localization.modes import joined, likely_windows
from aerial_vpr_cl.localization.proposal import Proposal
from aerial_vpr_cl.localization.registration import Peak
from aerial_vpr_cl.localization.view import View

SEARCH_SHARE = 0.999
"""Share of the belief that is looked at while tracking."""
SEARCH_CELLS = 6000
"""Belief spread over more cells than this is no track."""
PROVEN = 0.5
"""Proof of a single registration that is worth something."""
WIDEN_AFTER, WIDEN_EVERY = 6, 4
"""Registrations without proof in a row before all headings are tried, and how often then: it takes long."""
EVERYTHING_AFTER, EVERYTHING_EVERY, EVERYTHING_KM2 = 3, 4, 1500.0
"""Searches in vain in the network's cells before the whole of a large map is searched, how often then, and on which
maps: a thousand km² take a few seconds. Never together with all headings."""
WORTH_A_SEARCH = 0.5
"""Share of new ground in a view that makes another search worth while after many in vain."""


class SearchPlan:
    """Counts the searches in vain."""

    def __init__(self, grid: Grid, map_km2: float, search_km2: float, top_cells: int) -> None:
        self._grid, self._top_cells = grid, top_cells
        self._whole, self._bearable = map_km2 <= search_km2, map_km2 <= EVERYTHING_KM2
        self.reset()

    def reset(self) -> None:
        """Nothing was searched in vain."""
        self._in_vain = 0

    @property
    def any_heading(self) -> bool:
        """Whether it is time to try all headings: now and then, when long nothing was found with the compass's."""
        return self._in_vain >= WIDEN_AFTER and (self._in_vain - WIDEN_AFTER) % WIDEN_EVERY == 0

    @property
    def _everything(self) -> bool:
        """Whether it is time to look where the network does not: now and then, when its cells held nothing."""
        beyond = self._in_vain - EVERYTHING_AFTER
        return self._bearable and beyond >= 0 and beyond % EVERYTHING_EVERY == 0

    def is_worth_while(self, news: float) -> bool:
        """Whether to search with a view of which this share is new ground."""
        return self._in_vain < WIDEN_AFTER or news >= WORTH_A_SEARCH

    def count(self, is_searching: bool, peak: Peak | None, is_borne_out: bool) -> None:
        """A view was looked at, while searching or not; `is_borne_out`: it speaks for what is believed most."""
        if not is_searching or is_borne_out or (peak is not None and peak.proof >= PROVEN):
            self._in_vain = 0
        elif peak is not None:
            self._in_vain += 1

    def windows(self, view: View, proposal: Proposal | None, belief: Belief, is_followed: bool) -> list[Bounds] | None:
        """Windows worth laying the view on, around the track if it is followed; None: the whole map."""
        margin_m = 2.0 * view.offset_sigma_m + 60.0
        windows = likely_windows(belief, SEARCH_SHARE, margin_m, SEARCH_CELLS)
        if windows is not None and is_followed:
            return windows
        if self._whole or proposal is None or (self._everything and not self.any_heading):
            return None
        best = np.argsort(-np.asarray(proposal.probabilities, float), kind="stable")[: self._top_cells]
        reach = 1.5 * self._grid.cell_side_m
        boxes = [(e - reach, n - reach, e + reach, n + reach) for e, n in self._grid.centres[best] - proposal.offset_m]
        return joined([*boxes, *(windows or [])])
