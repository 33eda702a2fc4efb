"""Virtual satellite patches: a sliding window at evenly spaced headings, kept as rows and read on demand."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.errors import MapError, SettingsError
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.geo.view_kind import AS_SEEN, NORTH_UP, PAPER_VIEW, ViewKind
from aerial_vpr_cl.progress import Progress, silent
from aerial_vpr_cl.satellite.pyramid import Geometry
from aerial_vpr_cl.satellite.raster import SatelliteMap
from aerial_vpr_cl.satellite.raster_source import no_data_only
from aerial_vpr_cl.settings import setting

SAMPLES_PER_SIDE = 64
"""Points per side of a window at which its valid share is measured."""

MOST_PLACES = 2_000_000
"""Places on the largest map: 140 km a side at the usual 100 m. A drone flies over less, and memory ends soon after."""

BATCH_PLACES = 64
STRIP_PLACES = 20_000
"""Places measured at a time, to bound memory: heading by heading, and by sums over a strip of the map."""

FOOTPRINT_CELLS = 1.5
STRIDE_CELLS = {AS_SEEN: 0.5, NORTH_UP: 0.25}
HEADINGS = {AS_SEEN: 12, NORTH_UP: 1}
"""With 12 headings none is more than 15° from a stored one. North up needs one, and more places instead."""


@dataclass(frozen=True)
class PatchSettings:
    """How the map is cut into cells and windows. Footprint and stride given as 0 follow the cell side."""

    cell_side_m: float = setting(200.0, "side of a grid cell in metres (paper: 200)", low=1.0)
    modulus: int = setting(
        2, "N: cells are shared out to N² classifier groups so that neighbours differ", low=1, high=16
    )
    footprint_m: float = setting(
        0.0,
        "ground side of a patch in metres; best what the camera sees in flight. 0: 1.5 cells, so that a patch centred "
        "anywhere in a cell shows most of it",
        low=0.0,
    )
    stride_m: float = setting(
        0.0,
        "distance between patch centres in metres. 0: a quarter of a cell north up, half a cell as seen: 16 places a "
        "cell or 4",
        low=0.0,
    )
    rotations: int = setting(
        0, "headings per place, evenly over the circle. 0: one north up, 12 as seen", low=0, high=360
    )
    max_nodata: float = setting(0.05, "largest share of no-data pixels in a patch", low=0.0, high=0.99)
    view: str = setting(
        NORTH_UP,
        "north_up: frames are turned, levelled and scaled by what the drone knows; as_seen: taken as they come, any "
        "heading and scale, as in the paper",
        choices=(NORTH_UP, AS_SEEN),
    )
    heading_sigma_deg: float = setting(
        ViewKind.heading_sigma_deg, "north_up: error of headings in flight that is trained for", low=0.0, high=45.0
    )
    zoom_sigma: float = setting(
        ViewKind.zoom_sigma, "north_up: relative error of scale in flight that is trained for", low=0.0, high=0.5
    )

    @property
    def view_kind(self) -> ViewKind:
        """Which views a network of this map is trained on."""
        if self.view == AS_SEEN:
            return PAPER_VIEW
        return ViewKind(self.view, self.heading_sigma_deg, self.zoom_sigma)

    def __post_init__(self) -> None:
        if not self.footprint_m:
            object.__setattr__(self, "footprint_m", FOOTPRINT_CELLS * self.cell_side_m)
        if not self.stride_m:
            object.__setattr__(self, "stride_m", STRIDE_CELLS[self.view] * self.cell_side_m)
        if not self.rotations:
            object.__setattr__(self, "rotations", HEADINGS[self.view])
        if self.rotations > 1 and self.view_kind.is_north_up:
            raise SettingsError(
                f"{self.rotations} headings per place make no north-up views; leave rotations out, or choose as_seen"
            )
        if self.stride_m > self.cell_side_m:
            raise SettingsError(
                f"stride_m is {self.stride_m:g}; it must be at most the cell side of {self.cell_side_m:g} m, "
                "or cells would be left without patches"
            )


@dataclass(frozen=True, eq=False)
class PatchTable:
    """D_sat of the paper as rows over the raster: where each patch lies, which way is up, and which class it is."""

    centres: NDArray[np.float64]  # (n, 2) easting, northing
    angles_deg: NDArray[np.float64]  # (n,) heading of the patch's top, clockwise from north
    labels: NDArray[np.int64]  # (n,) class of the cell that holds the centre
    footprint_m: float

    def __len__(self) -> int:
        return len(self.labels)


def lay_patches(
    satellite: SatelliteMap, settings: PatchSettings, progress: Progress = silent
) -> tuple[Grid, PatchTable]:
    """The grid of a map and its patches, ordered by place (west to east, then south to north) and heading.

    Window centres lie at (k + ½)·stride in the map's metres, whatever the raster's origin, so that the dates of one
    place share their cells. Windows with too much no-data (outside the map included) are left out.
    """
    width_m, height_m = satellite.size_m
    if settings.footprint_m > min(width_m, height_m):
        raise MapError(
            f"{satellite.path}: a footprint of {settings.footprint_m:g} m is larger than the map of "
            f"{width_m:.0f} × {height_m:.0f} m; give a smaller footprint_m or a larger map"
        )
    n_places = width_m / settings.stride_m * (height_m / settings.stride_m)
    if not n_places <= MOST_PLACES:
        raise MapError(
            f"{satellite.path}: {n_places:.3g} places, every {settings.stride_m:g} m of {width_m / 1000:.0f} × "
            f"{height_m / 1000:.0f} km, are too many; cut the map to where you fly (gdalwarp -te), or give a larger "
            "stride_m"
        )
    coverage, geometry = satellite.coverage(settings.footprint_m / SAMPLES_PER_SIDE, progress)
    if not coverage.any():
        raise no_data_only(satellite.path)
    places = _lattice(satellite.bounds, settings.stride_m)
    angles = np.arange(settings.rotations, dtype=np.float64) * (360.0 / settings.rotations)
    kept = _acceptable(coverage, geometry, places, angles, settings, progress)
    if not kept.any():
        raise MapError(
            f"{satellite.path}: no window of {settings.footprint_m:g} m has at most {settings.max_nodata:.0%} no-data; "
            "give a smaller footprint_m, a larger max_nodata or a map with fewer holes"
        )
    place_rows, angle_rows = np.nonzero(kept)
    centres = places[place_rows]
    grid = Grid.over_points(centres, epsg=satellite.epsg, cell_side_m=settings.cell_side_m, modulus=settings.modulus)
    return grid, PatchTable(centres, angles[angle_rows], grid.class_of(centres), settings.footprint_m)


def _lattice(bounds: tuple[float, float, float, float], stride_m: float) -> NDArray[np.float64]:
    """(n, 2) points (k + ½)·stride inside the bounds; so no centre lies on the border of two cells."""
    west, south, east, north = bounds
    eastings = (np.arange(np.floor(west / stride_m), np.ceil(east / stride_m)) + 0.5) * stride_m
    northings = (np.arange(np.floor(south / stride_m), np.ceil(north / stride_m)) + 0.5) * stride_m
    return np.stack(np.meshgrid(eastings, northings, indexing="ij"), axis=-1).reshape(-1, 2)


def _acceptable(
    coverage: NDArray[np.uint8],
    geometry: Geometry,
    places: NDArray[np.float64],
    angles_deg: NDArray[np.float64],
    settings: PatchSettings,
    progress: Progress,
) -> NDArray[np.bool_]:
    """Whether the rotated window (places, angles) around each place has little enough no-data."""
    side_m = settings.footprint_m
    area_px = side_m**2 / (geometry.pixel_width_m * geometry.pixel_height_m)
    # Two looks settle most places for all headings at once: every rotation lies inside a square of √2 sides and holds
    # one of 1/√2 sides. Only places near the border of valid ground are measured heading by heading.
    whole = _missing_px(coverage, geometry, places, side_m * np.sqrt(2.0)) == 0.0
    hopeless = (
        _missing_px(coverage, geometry, places, side_m / np.sqrt(2.0), inner=True) > settings.max_nodata * area_px
    )
    accepted = np.repeat(whole[:, None], len(angles_deg), axis=1)
    offsets = [_window_points(angle, side_m) for angle in angles_deg]
    undecided = np.flatnonzero(~whole & ~hopeless)
    for first in range(0, len(undecided), BATCH_PLACES):
        rows = undecided[first : first + BATCH_PLACES]
        for column, window in enumerate(offsets):
            points = (places[rows, None] + window).reshape(-1, 2)
            shares = _coverage_at(coverage, geometry, points).reshape(len(rows), -1).mean(axis=1) / 255.0
            accepted[rows, column] = shares >= 1.0 - settings.max_nodata
        progress("laying patches", first + len(rows), len(undecided))
    return accepted


def _missing_px(
    coverage: NDArray[np.uint8], geometry: Geometry, places: NDArray[np.float64], side_m: float, inner: bool = False
) -> NDArray[np.float64]:
    """No-data pixels in the upright square around each place: of all pixels it touches, or of those inside it."""
    half = np.array([side_m / geometry.pixel_width_m, side_m / geometry.pixel_height_m]) / 2.0
    pixels = _pixel_coordinates(geometry, places)
    down, up = (np.ceil, np.floor) if inner else (np.floor, np.ceil)
    low, high = down(pixels - half).astype(np.int64), up(pixels + half).astype(np.int64)
    size = np.array([geometry.width, geometry.height])
    (left, top), (right, bottom) = low.clip(0, size).T, high.clip(0, size).T
    outside = (high - low).clip(0).prod(axis=1) - (right - left).clip(0) * (bottom - top).clip(0)
    missing = np.empty(len(places))
    for start in range(0, len(places), STRIP_PLACES):
        part = slice(start, start + STRIP_PLACES)
        x, x_end, y, y_end = left[part], right[part], top[part], bottom[part]
        first, last = min(x.min(), x_end.min()), max(x.max(), x_end.max())
        sums = cv2.integral(255 - coverage[:, first : max(last, first + 1)], sdepth=cv2.CV_64F)
        missing[part] = (
            sums[y_end, x_end - first] - sums[y, x_end - first] - sums[y_end, x - first] + sums[y, x - first]
        )
    return outside + missing / 255.0


def _coverage_at(coverage: NDArray[np.uint8], geometry: Geometry, points: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Coverage of the pixel under each point; 0 outside the map."""
    columns, rows = np.floor(_pixel_coordinates(geometry, points)).astype(int).T
    inside = (columns >= 0) & (rows >= 0) & (columns < geometry.width) & (rows < geometry.height)
    return np.where(inside, coverage[np.where(inside, rows, 0), np.where(inside, columns, 0)], 0)


def _pixel_coordinates(geometry: Geometry, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, 2) column and row, rounded so that a point on the border of two pixels is the same one on every computer."""
    columns = (points[:, 0] - geometry.west) / geometry.pixel_width_m
    rows = (geometry.north - points[:, 1]) / geometry.pixel_height_m
    return np.asarray(np.round(np.stack([columns, rows], axis=1), 6), np.float64)


def _window_points(angle_deg: float, footprint_m: float) -> NDArray[np.float64]:
    """Offsets (m, 2), east and north, of points evenly over a window whose top points along the angle."""
    along = ((np.arange(SAMPLES_PER_SIDE, dtype=np.float64) + 0.5) / SAMPLES_PER_SIDE - 0.5) * footprint_m
    right, up = np.meshgrid(along, along)
    cos, sin = math.cos(math.radians(angle_deg)), math.sin(math.radians(angle_deg))
    return np.stack([right * cos + up * sin, up * cos - right * sin], axis=-1).reshape(-1, 2)
