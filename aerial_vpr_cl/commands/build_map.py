"""aerial-vpr build-map: lay the grid over a raster and start a store."""

from __future__ import annotations

import argparse
from pathlib import Path

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
    print(describe(built, sum(map(raster_bytes, [args.raster, *args.also]))))
    if built.terrain is not None:
        low, high = np.nanmin(built.terrain.elevation_m), np.nanmax(built.terrain.elevation_m)
        print(f"terrain  {low:.0f} to {high:.0f} m")
    print(f"picture  {picture}")


def describe(built: MapFolder, source_bytes: int) -> str:
    """A few lines about a map: where, how large, how many classes, and what it costs on disk."""
    width_m, height_m = built.satellite.size_m
    latitude, longitude = built.grid.projection.to_wgs84(built.grid.centres.mean(axis=0))
    stored = sum(path.lstat().st_size for path in built.path.iterdir() if path.suffix != ".png")
    ratio = f", {stored / source_bytes:.2f} × the raster" if source_bytes else ""
    settings = built.settings
    return "\n".join(
        [
            f"map      {built.path}",
            f"place    {latitude:.5f}, {longitude:.5f}; EPSG:{built.grid.epsg} ({built.grid.projection.crs.name})",
            f"datum    {_degrees(built)}: where the frame map begins",
            f"size     {width_m / 1000:.2f} × {height_m / 1000:.2f} km, {built.satellite.resolution_m:.2f} m per pixel"
            f", bands {', '.join(map(str, built.satellite.bands))}",
            f"grid     {built.grid.n_classes} cells of {settings.cell_side_m:g} m in {built.grid.n_groups} groups, "
            f"hash {built.grid.hash[:12]}",
            f"views    {settings.view_kind}",
            f"patches  {len(built.patches)} of {settings.footprint_m:g} m, every {settings.stride_m:g} m, "
            f"{settings.rotations} headings",
            f"storage  {stored / 1e6:.1f} MB{ratio}",
        ]
    )


def _degrees(built: MapFolder) -> str:
    """The datum as robot_localization takes it."""
    latitude, longitude = built.grid.projection.to_wgs84((built.datum.easting_m, built.datum.northing_m))
    return f"{latitude:.7f}, {longitude:.7f}"
