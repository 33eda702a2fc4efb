"""What the parts of bench.py share: rows of the report, how long is measured, and a network to measure with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.model.network import Network, NetworkSettings

LITE, VIT = "tf_efficientnet_lite0", "vit_base_patch14_dinov2"


@dataclass(frozen=True)
class Row:
    """One line of the report."""

    what: str
    hold: str  # empty: a comparison, nothing to hold
    found: str  # ratio first
    detail: str
    held: bool | None = None  # None where nothing is to be held
    record: str = ""  # the committed file it is quoted from; empty: measured


@dataclass(frozen=True)
class Effort:
    """How long is measured, and on what."""

    scratch: Path
    repeats: int = 20
    steps: int = 6
    rasters: Path | None = None  # dated GeoTIFFs of naip_nd
    vit: bool = False


class NotHere(Exception):
    """Why a part cannot be measured on this machine."""


def network_of(classes: int) -> Network:
    """An EfficientNet-Lite0 with random weights over a square of cells."""
    side = round(classes**0.5)
    cells = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)
    grid = Grid.over_points((cells + 0.5) * 200.0, epsg=32650, cell_side_m=200.0, modulus=2)
    return Network.build(NetworkSettings(backbone=LITE), grid, weights="random")
