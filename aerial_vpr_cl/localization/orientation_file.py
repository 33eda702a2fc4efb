"""The map's orientation channel beside the map: made once, read tile by tile, made again when the map is another."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np

from aerial_vpr_cl.errors import StoreError
from aerial_vpr_cl.files import new_file
from aerial_vpr_cl.knowledge.map_folder import MapFolder
from aerial_vpr_cl.localization.likelihood import MatchLikelihood
from aerial_vpr_cl.localization.map_orientation import (
    TILE_PX,
    UNKNOWN,
    MapOrientation,
    OrientationLevel,
    Tile,
    TileSource,
    tiles_of,
)
from aerial_vpr_cl.localization.match_fit import fit_likelihood
from aerial_vpr_cl.progress import Progress, silent
from aerial_vpr_cl.satellite.raster import SatelliteMap

logger = logging.getLogger(__name__)

ORIENTATION_FILE = "map.orientation.h5"
FORMAT = 2
CHUNK_PX = 128
CHECKED = {"fletcher32": True, "compression": "gzip", "compression_opts": 4, "shuffle": True}

KEPT_FROM = 1.5
"""Levels this many times as coarse as the raster are kept; finer ones would double the map, and cost little to make."""


def open_orientation(folder: MapFolder, progress: Progress = silent) -> MapOrientation:
    """The channel of a store's map, from its file; made and kept if that is missing, damaged or of another map."""
    path, key = folder.path / ORIENTATION_FILE, _key(folder)
    rasters = folder.dates
    found = _load(path, key, rasters)
    if found is not None:
        return found
    made = make_orientation(rasters, progress)
    try:
        _save(path, key, made, rasters[0].resolution_m, progress)
    except (OSError, StoreError) as error:
        logger.warning("%s: cannot be kept, it is made again at every start: %s", path, error)
        return made
    return _load(path, key, rasters) or made


def make_orientation(rasters: Sequence[SatelliteMap], progress: Progress = silent) -> MapOrientation:
    """The channel of one or several dates, with what a match on it is worth."""
    bare = MapOrientation.of(rasters)
    levels = []
    for done, level in enumerate(bare.levels, start=1):
        levels.append(dataclasses.replace(level, likelihood=fit_likelihood(level, rasters[0])))
        progress("judging matches on the map", done, len(bare.levels))
    return MapOrientation(tuple(levels))


def _key(folder: MapFolder) -> str:
    """Changes with everything the channel depends on."""
    text = json.dumps([FORMAT, folder.grid.epsg, dataclasses.asdict(folder.facts)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _save(path: Path, key: str, channel: MapOrientation, resolution_m: float, progress: Progress) -> None:
    with new_file(path) as temporary, h5py.File(temporary, "w") as file:
        file.attrs.update(key=key, levels=len(channel.levels))
        for number, level in enumerate(channel.levels):
            group = file.create_group(str(number))
            place = {name: getattr(level, name) for name in ("step_m", "west", "north", "height", "width")}
            group.attrs.update(**place, likelihood=json.dumps(dataclasses.asdict(level.likelihood)))
            group.create_dataset("covariance", data=level.covariance.astype(np.float16), **CHECKED, chunks=True)
            if level.step_m >= KEPT_FROM * resolution_m:
                _save_tiles(group, level, progress)


def _save_tiles(group: h5py.Group, level: OrientationLevel, progress: Progress) -> None:
    n_rows, n_columns = level.tiles
    tiles = group.create_dataset(
        "tiles",
        (n_rows * TILE_PX, n_columns * TILE_PX, 2),
        np.int8,
        chunks=(CHUNK_PX, CHUNK_PX, 2),
        **CHECKED,
        fillvalue=UNKNOWN,
    )
    for row in range(n_rows):
        for column in range(n_columns):
            tile = level.source(row, column)
            if (tile != UNKNOWN).any():  # chunks that are never written take no room
                height, width = level.height - row * TILE_PX, level.width - column * TILE_PX
                inside = tile[:height, :width]
                top, left = row * TILE_PX, column * TILE_PX
                tiles[top : top + inside.shape[0], left : left + inside.shape[1]] = inside
        progress("drawing the map's edges", row + 1, n_rows)


def _load(path: Path, key: str, rasters: Sequence[SatelliteMap]) -> MapOrientation | None:
    """The channel from its file; None where the file is not this map's, or not readable."""
    try:
        file = h5py.File(path, "r")
        if file.attrs["key"] != key:
            return None
        return MapOrientation(tuple(_load_level(file[str(n)], rasters) for n in range(file.attrs["levels"])))
    except FileNotFoundError:
        return None
    except (OSError, KeyError, TypeError, ValueError) as error:
        logger.warning("%s: damaged, made again: %s", path, error)
        return None


def _load_level(group: h5py.Group, rasters: Sequence[SatelliteMap]) -> OrientationLevel:
    step_m, west, north = (float(group.attrs[name]) for name in ("step_m", "west", "north"))
    source = tiles_of(rasters, step_m, west, north)
    if "tiles" in group:
        source = _stored_tiles(group["tiles"], source)
    values = json.loads(group.attrs["likelihood"])
    return OrientationLevel(
        step_m,
        west,
        north,
        int(group.attrs["height"]),
        int(group.attrs["width"]),
        source,
        group["covariance"][:].astype(np.float32),
        MatchLikelihood(**{**values, "rho": tuple(values["rho"])}),
    )


def _stored_tiles(tiles: h5py.Dataset, raster: TileSource) -> TileSource:
    """Tiles of the file; one that is damaged is made from the raster."""

    def read(row: int, column: int) -> Tile:
        try:
            return tiles[row * TILE_PX : (row + 1) * TILE_PX, column * TILE_PX : (column + 1) * TILE_PX]
        except OSError as error:
            logger.warning("%s: a tile is damaged and made again: %s", tiles.file.filename, error)
            return raster(row, column)

    return read
