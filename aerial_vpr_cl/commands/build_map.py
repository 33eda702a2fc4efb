"""aerial-vpr build-map: lay the grid over a raster and start a store."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aerial_vpr_cl.knowledge.map_dates import add_dates
from aerial_vpr_cl.knowledge.map_folder import MapFolder, add_terrain, build_map
from aerial_vpr_cl.localization.orientation_file import open_orientation
from aerial_vpr_cl.progress import ProgressBar
from aerial_vpr_cl.satellite.map_file import raster_bytes
from aerial_vpr_cl.satellite.patches import PatchSettings
from aerial_vpr_cl.satellite.picture import draw_map
from aerial_vpr_cl.settings import add_arguments as add_setting_arguments
from aerial_vpr_cl.settings import from_arguments

HELP = """Lay the grid over a GeoTIFF, COG or VRT (any CRS) and keep both in STORE/map.

Writes grid.json, map.tif, its edges (map.orientation.h5), manifest.json and the picture map.png.
The grid is fixed for the life of the store."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of build-map."""
    parser.add_argument("raster", metavar="RASTER", help="georeferenced raster of the ground to be flown over")
    parser.add_argument("--out", type=Path, required=True, metavar="STORE", help="directory of the store to make")
    parser.add_argument("--settings", type=Path, metavar="YAML", help="file with any of the settings below")
    parser.add_argument(
        "--bands", type=int, nargs="+", metavar="N", help="band numbers for red, green, blue, or one for grey"
    )
    parser.add_argument("--epsg", type=int, metavar="CODE", help="metric CRS of the grid (default: the UTM zone)")
    parser.add_argument("--link", action="store_true", help="link to the raster instead of copying it")
    parser.add_argument(
        "--also",
        nargs="+",
        default=[],
        metavar="RASTER",
        help="other dates of the same ground, any extent and resolution: views are laid on what all of them show. May "
        "be given later",
    )
    parser.add_argument(
        "--dem",
        metavar="RASTER",
        help="elevation model in metres: turns the altitude of fixes into a height above ground where there is no "
        "range finder. May be given later, or another one",
    )
    parser.add_argument(
        "--dem-offset-m",
        type=float,
        default=0.0,
        metavar="X",
        help="added to its heights: how far sea level lies above the ellipsoid there, if the receiver counts from the "
        "ellipsoid and the model from sea level (default: 0)",
    )
    add_setting_arguments(parser, PatchSettings)


def run(args: argparse.Namespace) -> None:
    """Build the map, draw it, and say what was built."""
    settings = from_arguments(args, PatchSettings, args.settings)
    bar = ProgressBar()
    try:
        built = build_map(
            args.raster, args.out, settings, bands=args.bands, epsg=args.epsg, link=args.link, progress=bar
        )
        if args.also:
            built = add_dates(args.out, args.also, bands=args.bands, link=args.link, progress=bar)
        open_orientation(built, bar)
    finally:
        bar.close()
    if args.dem is not None:
        add_terrain(args.out, args.dem, args.dem_offset_m)
    picture = built.path / "map.png"
    draw_map(built.satellite, built.grid, picture)
    figures = figures_of(built, sum(map(raster_bytes, [args.raster, *args.also])))
    print(describe(figures))
    print(f"picture  {picture}")
    args.json.write({**figures, "picture": picture})


def figures_of(built: MapFolder, source_bytes: int) -> dict[str, Any]:
    """A map in figures: where, how large, how many classes, and what it costs on disk."""
    width_m, height_m = built.satellite.size_m
    latitude, longitude = built.grid.projection.to_wgs84(built.grid.centres.mean(axis=0))
    datum = built.grid.projection.to_wgs84((built.datum.easting_m, built.datum.northing_m))
    heights = built.terrain.elevation_m if built.terrain is not None else None
    return {
        "map": str(built.path),
        "latitude": float(latitude),
        "longitude": float(longitude),
        "datum": [float(degrees) for degrees in datum],  # as robot_localization takes it
        "epsg": built.grid.epsg,
        "crs": built.grid.projection.crs.name,
        "width_m": width_m,
        "height_m": height_m,
        "resolution_m": built.satellite.resolution_m,
        "bands": list(built.satellite.bands),
        "cells": built.grid.n_classes,
        "cell_side_m": built.settings.cell_side_m,
        "groups": built.grid.n_groups,
        "grid_hash": built.grid.hash,
        "views": str(built.settings.view_kind),
        "patches": len(built.patches),
        "footprint_m": built.settings.footprint_m,
        "stride_m": built.settings.stride_m,
        "rotations": built.settings.rotations,
        "stored_bytes": sum(path.lstat().st_size for path in built.path.iterdir() if path.suffix != ".png"),
        "source_bytes": source_bytes,
        "terrain_m": None if heights is None else [float(np.nanmin(heights)), float(np.nanmax(heights))],
    }


def describe(figures: Mapping[str, Any]) -> str:
    """The figures of a map in a few lines."""
    found = argparse.Namespace(**figures)
    ratio = f", {found.stored_bytes / found.source_bytes:.2f} × the raster" if found.source_bytes else ""
    lines = [
        f"map      {found.map}",
        f"place    {found.latitude:.5f}, {found.longitude:.5f}; EPSG:{found.epsg} ({found.crs})",
        f"datum    {found.datum[0]:.7f}, {found.datum[1]:.7f}: where the frame map begins",
        f"size     {found.width_m / 1000:.2f} × {found.height_m / 1000:.2f} km, {found.resolution_m:.2f} m per pixel"
        f", bands {', '.join(map(str, found.bands))}",
        f"grid     {found.cells} cells of {found.cell_side_m:g} m in {found.groups} groups"
        f", hash {found.grid_hash[:12]}",
        f"views    {found.views}",
        f"patches  {found.patches} of {found.footprint_m:g} m, every {found.stride_m:g} m, {found.rotations} headings",
        f"storage  {found.stored_bytes / 1e6:.1f} MB{ratio}",
    ]
    if found.terrain_m is not None:
        lines.append(f"terrain  {found.terrain_m[0]:.0f} to {found.terrain_m[1]:.0f} m")
    return "\n".join(lines)
