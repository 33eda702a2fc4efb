"""The map of a store: grid and raster in <store>/map, complete when its manifest is there."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from aerial_vpr_cl.errors import MapError, StoreError
from aerial_vpr_cl.files import (
    MANIFEST,
    TEMPORARY_PREFIX,
    read_manifest,
    replace_file,
    sha256_of,
    verify_manifest,
    write_manifest,
)
from aerial_vpr_cl.geo.datum import Datum, rounded_middle
from aerial_vpr_cl.geo.grid import NO_CLASS, Grid
from aerial_vpr_cl.geo.terrain import Terrain
from aerial_vpr_cl.geo.view_kind import AS_SEEN
from aerial_vpr_cl.knowledge.facts import MapFacts
from aerial_vpr_cl.progress import Progress, silent
from aerial_vpr_cl.satellite.map_file import MAP_FILE, store_raster
from aerial_vpr_cl.satellite.patches import PatchSettings, PatchTable, lay_patches
from aerial_vpr_cl.satellite.raster import SatelliteMap
from aerial_vpr_cl.satellite.terrain_file import TERRAIN_FILE, load_terrain, read_terrain, save_terrain
from aerial_vpr_cl.settings import load_settings

logger = logging.getLogger(__name__)

MAP_FOLDER = "map"
GRID_FILE = "grid.json"
TRUNK_FILE, EXEMPLARS_FILE = "trunk.safetensors", "exemplars.h5"
"""What base training adds: the frozen part of the network, and the exemplar memory."""
OWN_PREFIXES = ("map.", TEMPORARY_PREFIX)
"""First letters of the raster's files and of leftovers; everything else in the folder was learnt from the map."""

DATE_PREFIX = "map.date"
NOT_FACTS = ("files", "sha256", "format")
"""What a manifest says beside its facts."""

LARGEST_HASHED_BYTES = 2 << 30
"""A raster up to this size is read through when a process first opens it: some seconds. Larger ones take too long."""
_hashed: set[tuple[str, int, int, int]] = set()  # versions of rasters that this process has read through


@dataclass(frozen=True, eq=False)
class MapFolder:
    """An opened map. The raster is opened, and the patches laid, when first asked for."""

    path: Path
    grid: Grid
    settings: PatchSettings
    facts: MapFacts
    memory_budget_mb: int = 2048
    opened: SatelliteMap | None = None  # where it is open already: a large raster is not read twice
    laid: PatchTable | None = None

    @cached_property
    def satellite(self) -> SatelliteMap:
        """The raster, seen exactly as it was when the map was built."""
        return self.opened or SatelliteMap.open(
            self.path / MAP_FILE,
            epsg=self.grid.epsg,
            bands=self.facts.bands,
            memory_budget_mb=self.memory_budget_mb,
            value_range=self.facts.value_range,
        )

    @cached_property
    def dates(self) -> list[SatelliteMap]:
        """The raster and all other dates of the same ground."""
        others = [
            SatelliteMap.open(
                self.path / date.file,
                epsg=self.grid.epsg,
                bands=date.bands,
                memory_budget_mb=self.memory_budget_mb,
                value_range=date.value_range,
            )
            for date in self.facts.dates
        ]
        return [self.satellite, *others]

    @cached_property
    def datum(self) -> Datum:
        """Where the frame `map` begins; of maps that do not note it, as it would be noted now."""
        return Datum.at(self.facts.datum or rounded_middle(self.grid), self.grid.projection)

    @cached_property
    def terrain(self) -> Terrain | None:
        """How high the ground lies; none if the map was built without an elevation model."""
        return load_terrain(self.path)

    @cached_property
    def patches(self) -> PatchTable:
        """The virtual satellite patches, labelled with the classes of the stored grid."""
        if self.laid is not None:
            return self.laid
        grid, table = lay_patches(self.satellite, self.settings)
        if grid.hash == self.grid.hash:
            return table
        # Another GDAL may reproject the map's edge a pixel apart. The stored grid is the one that counts.
        labels = self.grid.class_of(table.centres)
        kept = labels != NO_CLASS
        if not kept.any():
            raise MapError(f"{self.path}: the raster does not belong to the grid; build the map again")
        logger.warning("%s: %d patches at the edge of the map lie in no cell", self.path, (~kept).sum())
        return PatchTable(table.centres[kept], table.angles_deg[kept], labels[kept], table.footprint_m)


def build_map(
    raster: str | Path,
    store: Path,
    settings: PatchSettings,
    *,
    bands: Sequence[int] | None = None,
    epsg: int | None = None,
    link: bool = False,
    progress: Progress = silent,
) -> MapFolder:
    """Lay the grid over a raster and keep both in <store>/map. Building the same map again changes nothing.

    A folder that holds another grid is refused, and so is another raster or other settings once something has been
    learnt from the map: what was learnt would no longer mean the same ground.
    """
    if file := next((path for path in (store, *store.parents) if path.exists() and not path.is_dir()), None):
        raise MapError(f"{file}: is a file; a store is a directory: give the name of a new one")
    satellite = SatelliteMap.open(raster, bands=bands, epsg=epsg)
    grid, patches = lay_patches(satellite, settings, progress)
    facts = {
        "grid_hash": grid.hash,
        "settings": asdict(settings),
        "value_range": satellite.value_range,
        "source": source_of(raster, satellite),
    }
    folder = Path(store) / MAP_FOLDER
    if (folder / MANIFEST).exists() and _holds_already(folder, json.loads(json.dumps(facts))):
        return open_map(store)
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in [*folder.glob(f"{TEMPORARY_PREFIX}*"), *folder.glob(f"{DATE_PREFIX}*")]:
        leftover.unlink()
    # Until the manifest is written again the folder counts as unfinished.
    (folder / MANIFEST).unlink(missing_ok=True)
    files, stored_bands = store_raster(raster, folder, satellite.bands, link=link, progress=progress)
    replace_file(folder / GRID_FILE, json.dumps(grid.to_dict()).encode())
    write_manifest(folder, [GRID_FILE, *files], bands=stored_bands, datum=rounded_middle(grid), **facts)
    return replace(open_map(store), opened=satellite, laid=patches)


def source_of(raster: str | Path, satellite: SatelliteMap) -> dict[str, Any]:
    """What is noted of where a raster came from."""
    local = Path(raster).is_file()
    return {
        "name": Path(raster).name,
        "sha256": sha256_of(Path(raster)) if local else None,
        "bands": satellite.bands,
    }


def add_terrain(store: Path, dem: str | Path, offset_m: float = 0.0) -> Terrain:
    """Give the map of a store an elevation model, or another one; everything that was learnt stays."""
    folder = open_map(store)
    terrain = read_terrain(dem, folder.satellite.bounds, folder.grid.epsg, offset_m)
    if TERRAIN_FILE in read_manifest(folder.path)["files"]:
        remove_files(store, [TERRAIN_FILE])
    save_terrain(terrain, folder.path, folder.grid.epsg)
    add_files(store, [TERRAIN_FILE])
    return terrain


def open_map(store: Path, *, memory_budget_mb: int = 2048) -> MapFolder:
    """Open the map of a store, verified by hash; rasters beyond LARGEST_HASHED_BYTES by size."""
    folder = Path(store) / MAP_FOLDER
    if not folder.is_dir():
        raise MapError(f"{store}: holds no map; make one: aerial-vpr build-map RASTER --out {store}")
    rasters = {path: _version_of(path) for path in folder.glob("map.*") if path.is_file()}
    too_large = [path.name for path in rasters if path.stat().st_size > LARGEST_HASHED_BYTES]
    seen = [path.name for path, version in rasters.items() if version in _hashed]
    manifest = verify_manifest(folder, size_only=[*too_large, *seen])
    _hashed.update(rasters.values())
    grid = Grid.from_dict(json.loads((folder / GRID_FILE).read_text()))
    if grid.hash != manifest["grid_hash"]:
        raise MapError(f"{folder / GRID_FILE}: its grid is not the one of the manifest; build the map again")
    try:
        facts = MapFacts.from_dict(manifest)
    except StoreError as error:
        raise MapError(f"{folder / MANIFEST}: {error}; build the map again") from None
    # Maps that were built before there was a choice are as the paper has them.
    settings = load_settings(PatchSettings, {"view": AS_SEEN, **manifest["settings"]})
    return MapFolder(folder, grid, settings, facts, memory_budget_mb)


def _version_of(raster: Path) -> tuple[str, int, int, int]:
    """What changes whenever somebody writes to a file."""
    status = raster.stat()
    return str(raster.resolve()), status.st_size, status.st_mtime_ns, status.st_ctime_ns


def add_files(store: Path, names: Sequence[str]) -> None:
    """List files that base training put into the map folder in its manifest, so that damage to them is noticed."""
    folder = Path(store) / MAP_FOLDER
    _relist(folder, {*read_manifest(folder)["files"], *names})


def remove_files(store: Path, names: Sequence[str]) -> None:
    """Take files out of the manifest, then delete them: a kill in between leaves a map that opens."""
    folder = Path(store) / MAP_FOLDER
    _relist(folder, set(read_manifest(folder)["files"]) - set(names))
    for name in names:
        (folder / name).unlink(missing_ok=True)


def _relist(folder: Path, names: set[str]) -> None:
    manifest = read_manifest(folder)
    if names != set(manifest["files"]):
        facts = {name: value for name, value in manifest.items() if name not in NOT_FACTS}
        write_manifest(folder, names, **facts)


def _holds_already(folder: Path, facts: dict[str, Any]) -> bool:
    """Whether the folder holds this very map, whole; MapError where it must not be replaced."""
    manifest = read_manifest(folder)
    remedy = "build it into another store, or delete this one if nothing in it is needed"
    if manifest["grid_hash"] != facts["grid_hash"]:
        raise MapError(
            f"{folder}: holds the grid {manifest['grid_hash'][:12]}…, this raster and these settings give "
            f"{facts['grid_hash'][:12]}…; {remedy}"
        )
    if all(manifest.get(name) == value for name, value in facts.items()):
        try:
            verify_manifest(folder)
        except StoreError as error:
            raise MapError(f"{error}; delete {folder} and build the map again") from None
        return True
    own = (GRID_FILE, MANIFEST, TERRAIN_FILE)
    learnt = [path.name for path in folder.iterdir() if path.name not in own and not path.name.startswith(OWN_PREFIXES)]
    if learnt or any((folder.parent / "generations").glob("[0-9]*")):
        raise MapError(f"{folder}: was learnt from with another raster or other settings; {remedy}")
    return False
