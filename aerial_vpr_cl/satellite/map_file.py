"""The raster in the store: the user's own file, byte for byte, wherever that is one; else a GeoTIFF of its bands."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rasterio
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.windows import Window

from aerial_vpr_cl.errors import MapError
from aerial_vpr_cl.files import new_file
from aerial_vpr_cl.progress import Progress
from aerial_vpr_cl.satellite.raster_source import open_raster, validity

MAP_FILE = "map.tif"
BLOCK_PX = 512


def store_raster(
    raster: str | Path, folder: Path, bands: Sequence[int], *, link: bool, progress: Progress, name: str = MAP_FILE
) -> tuple[list[str], tuple[int, ...]]:
    """Bring a raster into the map folder; returns the names of its files there and its band numbers there.

    A plain local file is copied with its side files (masks, overviews, world file), or linked. What exists only as a
    description or on a server (VRT, /vsicurl/) is written out as tiled, losslessly compressed GeoTIFF.
    """
    with open_raster(raster) as dataset:
        companions = _companions(dataset, raster, name)
        if companions is None:
            if link:
                raise MapError(f"{raster}: only a plain file can be linked, not a {dataset.driver}; leave out link")
            _write_bands(dataset, folder / name, bands, progress)
            return [name], tuple(range(1, len(bands) + 1))
    for part, source in companions.items():
        with new_file(folder / part) as temporary:
            if link:
                temporary.symlink_to(source.resolve())
            else:
                shutil.copyfile(source, temporary)
    return list(companions), tuple(bands)


def raster_bytes(raster: str | Path) -> int:
    """Bytes on this computer of all the files a raster is made of; 0 for one on a server."""
    with open_raster(raster) as dataset:
        return sum(Path(name).stat().st_size for name in dataset.files if Path(name).is_file())


def _companions(dataset: Any, raster: str | Path, name: str) -> dict[str, Path] | None:
    """Name in the store of every file of a plain local raster; None when the raster is not one."""
    main = Path(raster)
    if dataset.driver == "VRT" or not main.is_file():
        return None
    names = {name: main}
    for path in map(Path, dataset.files):
        if path.name.startswith(main.name) and path.name != main.name:
            names[name + path.name[len(main.name) :]] = path  # a.tif.ovr, a.tif.msk, a.tif.aux.xml
        elif path.stem == main.stem and path.suffix != main.suffix:
            names[Path(name).stem + path.suffix] = path  # a.tfw
        elif path.name != main.name:
            return None
    return names


def _write_bands(dataset: Any, path: Path, bands: Sequence[int], progress: Progress) -> None:
    kind = dataset.dtypes[bands[0] - 1]
    profile = {
        "driver": "GTiff",
        "dtype": kind,
        "count": len(bands),
        "width": dataset.width,
        "height": dataset.height,
        "crs": dataset.crs,
        "transform": dataset.transform,
        "nodata": dataset.nodata,
        "tiled": True,
        "blockxsize": BLOCK_PX,
        "blockysize": BLOCK_PX,
        "compress": "deflate",
        "predictor": 3 if kind.startswith("float") else 2,
        "interleave": "pixel",
        "bigtiff": "if_safer",
    }
    masked = any(MaskFlags.all_valid not in flags for flags in dataset.mask_flag_enums)
    masked = masked or ColorInterp.alpha in dataset.colorinterp
    with (
        new_file(path) as temporary,
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
        rasterio.open(temporary, "w", **profile) as target,
    ):
        if len(bands) == 3:
            target.colorinterp = (ColorInterp.red, ColorInterp.green, ColorInterp.blue)
        for top in range(0, dataset.height, BLOCK_PX):
            rows = min(BLOCK_PX, dataset.height - top)
            window = Window(0, top, dataset.width, rows)
            target.write(dataset.read(bands, window=window), window=window)
            if masked:
                target.write_mask(validity(dataset, window=window), window=window)
            progress("writing the map", top + rows, dataset.height)
