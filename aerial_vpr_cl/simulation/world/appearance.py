"""How the ground looks on one day: season, hour, sun, and what has changed since the map was made."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.settings import setting
from aerial_vpr_cl.simulation.world.layers import Ground, Layers

SEASONS = ("spring", "summer", "autumn", "winter", "snow")
CROPS = ("wheat", "maize", "rape", "grass", "beet", "fallow")
DAY_OF_YEAR = {"spring": 115, "summer": 190, "autumn": 285, "winter": 20, "snow": 20}


@dataclass(frozen=True)
class Appearance:
    """One day over the procedural world."""

    season: str = setting("summer", "colours, leaves, crops, snow", choices=SEASONS)
    hour: float = setting(11.0, "local solar time: gives the sun's place and the ground's temperatures", low=0, high=24)
    sun_azimuth_deg: float | None = setting(None, "azimuth of the sun; by default from the hour", low=0, high=360)
    sun_elevation_deg: float | None = setting(None, "elevation of the sun; by default from the hour", low=-90, high=90)
    haze: float = setting(0.05, "share of contrast lost in the air", low=0.0, high=0.9)
    change: float = setting(0.0, "share of buildings, fields and stands that differ from the map", low=0.0, high=1.0)
    change_seed: int = setting(0, "which of them differ", low=0)


@dataclass(frozen=True)
class Sun:
    """Direction towards the sun."""

    azimuth_deg: float
    elevation_deg: float

    @property
    def is_up(self) -> bool:
        return self.elevation_deg > 0.0


def sun_of(appearance: Appearance, latitude: float) -> Sun:
    """The sun's place from season, hour and latitude, unless the appearance sets it."""
    declination = np.radians(-23.44 * np.cos(2.0 * np.pi * (DAY_OF_YEAR[appearance.season] + 10) / 365.0))
    turn, lat = np.radians(15.0 * (appearance.hour - 12.0)), np.radians(latitude)
    up = np.sin(lat) * np.sin(declination) + np.cos(lat) * np.cos(declination) * np.cos(turn)
    east = -np.cos(declination) * np.sin(turn)
    north = np.cos(lat) * np.sin(declination) - np.sin(lat) * np.cos(declination) * np.cos(turn)
    azimuth, elevation = np.degrees(np.arctan2(east, north)) % 360.0, np.degrees(np.arcsin(up))
    if appearance.sun_azimuth_deg is not None:
        azimuth = appearance.sun_azimuth_deg
    if appearance.sun_elevation_deg is not None:
        elevation = appearance.sun_elevation_deg
    return Sun(float(azimuth), float(elevation))


@dataclass(frozen=True)
class Scene:
    """The layers on one day, after change: what both sensors are rendered from."""

    ground: NDArray[np.uint8]
    field: NDArray[np.int32]  # (H, W) id of what carries one crop: a parcel or half of one
    crop: NDArray[np.uint8]  # (2P,) by field id, index into CROPS
    building: NDArray[np.int32]  # only those that stand
    tree_m: NDArray[np.float32]
    shadow: NDArray[np.float32]  # (H, W) 0 in the sun, 1 in the shade


def scene_of(layers: Layers, appearance: Appearance, sun: Sun, resolution_m: float, world_seed: int) -> Scene:
    """Apply structural change to the layers and cast the shadows of the day."""
    base = np.random.default_rng([world_seed, 1])
    changed = np.random.default_rng([world_seed, 2, appearance.change_seed])
    n_parcels, n_buildings = len(layers.parcel_use), len(layers.building_spare)
    crop = np.repeat(base.integers(0, len(CROPS), n_parcels), 2)
    rotated = changed.random(2 * n_parcels) < appearance.change
    sown = np.where(rotated, changed.integers(0, len(CROPS), 2 * n_parcels), crop).astype(np.uint8)
    divided = changed.random(n_parcels) < appearance.change
    felled = changed.random(n_parcels) < 0.5 * appearance.change
    turned = changed.random(n_buildings) < appearance.change
    stands = layers.building_spare == turned  # an ordinary building goes, a spare one comes
    stands[0] = False
    if appearance.change > 0.0:
        divided_here = divided[layers.parcel] & layers.second_half
        cleared = felled[layers.parcel] & (layers.ground == Ground.FOREST)
        ground = np.where(cleared, np.uint8(Ground.TRACK), layers.ground)
        tree_m = np.where(cleared, np.float32(0.0), layers.tree_m)
    else:
        divided_here, ground, tree_m = np.zeros(layers.parcel.shape, bool), layers.ground, layers.tree_m
    building = np.where(stands[layers.building], layers.building, 0)
    height = np.maximum(tree_m, np.where(building > 0, layers.building_height_m[building], 0.0).astype(np.float32))
    return Scene(
        ground, 2 * layers.parcel + divided_here, sown, building, tree_m, cast_shadows(height, sun, resolution_m)
    )


def cast_shadows(height_m: NDArray[np.float32], sun: Sun, resolution_m: float) -> NDArray[np.float32]:
    """(H, W) 1 where something higher stands between the ground and the sun."""
    if not sun.is_up:
        return np.zeros(height_m.shape, np.float32)
    slope = np.tan(np.radians(max(sun.elevation_deg, 8.0)))
    east, north = np.sin(np.radians(sun.azimuth_deg)), np.cos(np.radians(sun.azimuth_deg))
    reach_px = int(np.ceil(float(height_m.max(initial=0.0)) / slope / resolution_m))
    shadow = np.zeros(height_m.shape, bool)
    size = height_m.shape[1], height_m.shape[0]
    for step in range(1, reach_px + 1):
        # What stands `step` pixels towards the sun, moved here and lowered by the ray's rise.
        move = np.array([[1.0, 0.0, -east * step], [0.0, 1.0, north * step]])
        towards = cv2.warpAffine(height_m, move, size, flags=cv2.INTER_NEAREST)
        shadow |= towards - np.float32(step * resolution_m * slope) > height_m
    return np.asarray(cv2.GaussianBlur(shadow.astype(np.float32), (0, 0), 0.6), np.float32)
