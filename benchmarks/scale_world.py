"""A country to measure on: procedural worlds of 10 km² side by side, drawn one at a time, so any size fits in memory.

Each world is used eight times, turned and mirrored: registration takes none of these for another, and drawing takes an
eighth of the time. Roads and rivers end where one tile meets the next; nothing that is measured here depends on that.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.transform import from_origin
from rasterio.windows import Window

from aerial_vpr_cl.files import new_file
from aerial_vpr_cl.simulation.world.appearance import Appearance
from aerial_vpr_cl.simulation.world.procedural import ProceduralWorld
from aerial_vpr_cl.simulation.world.terrain import WorldSettings

TILE_M = 3200.0
PIXEL_M = 5.0
SIDE_PX = round(TILE_M / PIXEL_M)
WEST, SOUTH = 480_000.0, 4_000_000.0
VARIANTS = 8


@dataclass(frozen=True)
class Training:
    """How the network of a country is trained."""

    steps: int
    begin_with: str | None = None  # store of another map whose tail it begins with
    imprint: int | None = None


@dataclass(frozen=True)
class Country:
    """`tiles` × `tiles` tiles, counted from the south-west, row by row."""

    tiles: int

    @property
    def km2(self) -> float:
        """Its area."""
        return (self.tiles * TILE_M / 1e3) ** 2

    @property
    def upright(self) -> range:
        """Tiles that are worlds as they are: those that can be flown over on any day."""
        return range(0, self.tiles**2, VARIANTS)

    def world(self, tile: int) -> WorldSettings:
        """The world of an upright tile, at its place."""
        row, column = divmod(tile, self.tiles)
        place = {"west": WEST + column * TILE_M, "south": SOUTH + row * TILE_M}
        seed = 1 + tile // VARIANTS
        return WorldSettings(seed=seed, width_m=TILE_M, height_m=TILE_M, resolution_m=PIXEL_M, **place)

    def write_map(self, path: Path) -> None:
        """All of it on a summer's day as one GeoTIFF."""
        profile = {
            "driver": "GTiff",
            "width": self.tiles * SIDE_PX,
            "height": self.tiles * SIDE_PX,
            "count": 3,
            "dtype": "uint8",
            "crs": f"EPSG:{WorldSettings().epsg}",
            "transform": from_origin(WEST, SOUTH + self.tiles * TILE_M, PIXEL_M, PIXEL_M),
            "compress": "deflate",
            "predictor": 2,
            "photometric": "rgb",
            "tiled": True,
            "blockxsize": 128,
            "blockysize": 128,
        }
        with new_file(path) as temporary, rasterio.open(temporary, "w", **profile) as raster:
            for tile in range(self.tiles**2):
                if tile % VARIANTS == 0:
                    upright = ProceduralWorld(self.world(tile)).render(Appearance())
                row, column = divmod(tile, self.tiles)
                window = Window(column * SIDE_PX, (self.tiles - 1 - row) * SIDE_PX, SIDE_PX, SIDE_PX)
                raster.write(np.moveaxis(_variant(upright, tile % VARIANTS), 2, 0), window=window)


def _variant(image: NDArray[np.uint8], number: int) -> NDArray[np.uint8]:
    """The image turned by quarters, and mirrored from the fifth on."""
    return np.rot90(image[:, ::-1] if number >= VARIANTS // 2 else image, number % (VARIANTS // 2))
