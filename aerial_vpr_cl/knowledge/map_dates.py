"""Other dates of a map's ground, beside its raster: what changes from date to date is no landmark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from aerial_vpr_cl.errors import MapError
from aerial_vpr_cl.files import read_manifest, write_manifest
from aerial_vpr_cl.knowledge.map_folder import DATE_PREFIX, NOT_FACTS, MapFolder, open_map, source_of
from aerial_vpr_cl.progress import Progress, silent
from aerial_vpr_cl.satellite.map_file import store_raster
from aerial_vpr_cl.satellite.raster import SatelliteMap

Bounds = tuple[float, float, float, float]

LEAST_SHARED = 0.1
"""Share of the map below which another raster is no date of its ground."""


def add_dates(
    store: Path,
    rasters: Sequence[str | Path],
    *,
    bands: Sequence[int] | None = None,
    link: bool = False,
    progress: Progress = silent,
) -> MapFolder:
    """Give the map of a store other dates of its ground, of any extent and resolution; what was learnt stays."""
    for raster in rasters:
        folder = open_map(store)
        date = SatelliteMap.open(raster, bands=bands, epsg=folder.grid.epsg)
        source = source_of(raster, date)
        if source in [asdict(known.source) for known in folder.facts.dates]:
            continue
        if (share := _shared(folder.satellite.bounds, date.bounds)) < LEAST_SHARED:
            raise MapError(f"{raster}: shows {share:.0%} of the map only; give a date of the same ground")
        name = f"{DATE_PREFIX}{len(folder.facts.dates) + 2}.tif"
        files, stored_bands = store_raster(raster, folder.path, date.bands, link=link, progress=progress, name=name)
        entry = {"file": name, "bands": stored_bands, "value_range": date.value_range, "source": source}
        manifest = read_manifest(folder.path)
        facts = {fact: value for fact, value in manifest.items() if fact not in NOT_FACTS}
        dates = [*facts.pop("dates", []), entry]
        write_manifest(folder.path, {*manifest["files"], *files}, dates=dates, **facts)
    return open_map(store)


def _shared(area: Bounds, other: Bounds) -> float:
    """Share of an area (west, south, east, north) that lies in another."""
    width = min(area[2], other[2]) - max(area[0], other[0])
    height = min(area[3], other[3]) - max(area[1], other[1])
    return max(0.0, width) * max(0.0, height) / ((area[2] - area[0]) * (area[3] - area[1]))
