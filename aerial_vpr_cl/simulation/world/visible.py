"""The visible sensor: colours by class, parcel, season and light."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.simulation.world.appearance import Appearance, Scene, Sun
from aerial_vpr_cl.simulation.world.layers import FLAT_ROOF, Ground, Layers
from aerial_vpr_cl.simulation.world.noise import smooth_noise

Colour = tuple[int, int, int]

CROP_COLOURS: dict[str, tuple[Colour, ...]] = {  # in the order of CROPS
    "spring": ((88, 120, 58), (140, 116, 90), (190, 178, 60), (104, 136, 70), (122, 100, 80), (136, 126, 92)),
    "summer": ((192, 168, 110), (66, 100, 50), (152, 142, 94), (112, 132, 72), (80, 122, 58), (144, 130, 94)),
    "autumn": ((164, 142, 102), (152, 130, 82), (98, 116, 64), (106, 118, 68), (86, 112, 62), (104, 84, 66)),
    "winter": ((116, 120, 78), (112, 96, 76), (98, 108, 66), (112, 114, 78), (106, 90, 72), (98, 86, 70)),
}
GROUND_COLOURS: dict[str, dict[Ground, Colour]] = {
    "spring": {
        Ground.MEADOW: (108, 130, 70),
        Ground.FOREST: (84, 92, 56),
        Ground.WATER: (78, 86, 74),
        Ground.YARD: (112, 120, 84),
    },
    "summer": {
        Ground.MEADOW: (118, 126, 74),
        Ground.FOREST: (62, 74, 44),
        Ground.WATER: (50, 70, 70),
        Ground.YARD: (116, 118, 84),
    },
    "autumn": {
        Ground.MEADOW: (120, 114, 72),
        Ground.FOREST: (96, 82, 52),
        Ground.WATER: (62, 74, 72),
        Ground.YARD: (122, 112, 82),
    },
    "winter": {
        Ground.MEADOW: (118, 112, 80),
        Ground.FOREST: (92, 84, 68),
        Ground.WATER: (66, 74, 78),
        Ground.YARD: (116, 108, 88),
    },
}
BUILT_COLOURS: dict[Ground, Colour] = {
    Ground.FIELD: (120, 120, 80),
    Ground.ROAD: (110, 110, 112),
    Ground.TRACK: (158, 140, 112),
    Ground.PAVED: (142, 138, 132),
    Ground.RAIL: (106, 96, 88),
}
LEAF_COLOURS: dict[str, Colour] = {
    "spring": (82, 110, 54),
    "summer": (54, 82, 42),
    "autumn": (138, 98, 46),
    "winter": (98, 88, 76),
}
CONIFER: Colour = (40, 60, 42)
ROOF_COLOURS: tuple[Colour, ...] = (
    (156, 84, 64),
    (84, 84, 92),
    (154, 152, 148),
    (208, 210, 210),
    (84, 114, 156),
    (120, 94, 76),
)

# Share by which fine and coarse noise vary the brightness of each class.
TEXTURE = {
    Ground.MEADOW: (0.05, 0.10),
    Ground.FIELD: (0.035, 0.06),
    Ground.FOREST: (0.08, 0.10),
    Ground.WATER: (0.015, 0.05),
    Ground.ROAD: (0.03, 0.03),
    Ground.TRACK: (0.06, 0.06),
    Ground.YARD: (0.11, 0.10),
    Ground.PAVED: (0.06, 0.07),
    Ground.RAIL: (0.07, 0.03),
}
# Snow stays where little melts or sweeps it: share of the class that is white on a snowy day.
SNOW = {
    Ground.MEADOW: 0.85,
    Ground.FIELD: 0.8,
    Ground.FOREST: 0.75,
    Ground.TRACK: 0.6,
    Ground.YARD: 0.65,
    Ground.RAIL: 0.5,
    Ground.PAVED: 0.35,
    Ground.ROAD: 0.12,
}
SNOW_COLOUR = np.array([226, 230, 236], np.float32)


def render_visible(
    layers: Layers, scene: Scene, appearance: Appearance, sun: Sun, resolution_m: float, world_seed: int
) -> NDArray[np.uint8]:
    """(H, W, 3) RGB of the whole world on one day."""
    shape = scene.ground.shape
    rng = np.random.default_rng([world_seed, 3])
    fine = smooth_noise(shape, 1.6, rng)
    coarse = smooth_noise(shape, 50.0 / resolution_m, rng, octaves=3)
    season = "winter" if appearance.season == "snow" else appearance.season
    image = _ground_colours(layers, scene, season, rng)
    amounts = np.array([TEXTURE[kind] for kind in Ground], np.float32)
    brightness = 1.0 + amounts[:, 0][scene.ground] * fine + amounts[:, 1][scene.ground] * coarse
    brightness += _furrows(layers, scene, resolution_m)
    image *= brightness[:, :, None]
    if appearance.season == "snow":
        _cover_with_snow(image, scene, coarse, fine)
    _plant_trees(image, scene, appearance.season, sun, coarse, rng)
    _roof(image, layers, scene, appearance.season, sun, fine, rng)
    _light(image, scene, sun, appearance.haze)
    return image.clip(0.0, 255.0).astype(np.uint8)


def _ground_colours(layers: Layers, scene: Scene, season: str, rng: np.random.Generator) -> NDArray[np.float32]:
    """Colour by class; of fields by crop; every parcel a little its own."""
    table = np.array([{**GROUND_COLOURS[season], **BUILT_COLOURS}[kind] for kind in Ground], np.float32)
    image = table[scene.ground]
    n_fields = len(scene.crop)
    tint = 1.0 + rng.normal(0.0, 0.035, (n_fields, 3)) + rng.normal(0.0, 0.10, (n_fields, 1))
    of_field = np.array(CROP_COLOURS[season], np.float32)[scene.crop] * tint.astype(np.float32)
    is_field = scene.ground == Ground.FIELD
    image[is_field] = of_field[scene.field[is_field]]
    varied = np.isin(scene.ground, (Ground.MEADOW, Ground.YARD, Ground.PAVED))
    image[varied] *= tint.astype(np.float32)[2 * layers.parcel[varied]]
    return image


def _furrows(layers: Layers, scene: Scene, resolution_m: float) -> NDArray[np.float32]:
    """Rows of the plough along each field's longer side, deeper on bare soil; no finer than the pixels can show."""
    n_fields = len(scene.crop)
    rng = np.random.default_rng([n_fields, 4])
    angle = np.radians(np.repeat(layers.parcel_furrow_deg, 2))
    period = np.maximum(rng.uniform(7.0, 18.0, n_fields), 3.0 * resolution_m)
    depth = np.array([0.05, 0.07, 0.03, 0.02, 0.06, 0.09])[scene.crop] * rng.uniform(0.5, 1.5, n_fields)
    # The phase runs across the rows; x east, y north.
    per_x = (-np.sin(angle) * 2.0 * np.pi * resolution_m / period).astype(np.float32)
    per_y = (np.cos(angle) * 2.0 * np.pi * resolution_m / period).astype(np.float32)
    rows, columns = np.nonzero(scene.ground == Ground.FIELD)
    field = scene.field[rows, columns]
    furrows = np.zeros(scene.ground.shape, np.float32)
    phase = per_x[field] * columns.astype(np.float32) - per_y[field] * rows.astype(np.float32)
    furrows[rows, columns] = depth.astype(np.float32)[field] * np.sin(phase)
    return furrows


def _cover_with_snow(
    image: NDArray[np.float32], scene: Scene, coarse: NDArray[np.float32], fine: NDArray[np.float32]
) -> None:
    share = np.array([SNOW.get(kind, 0.0) for kind in Ground], np.float32)[scene.ground]
    # Noise of unit deviation is below this limit for about the wanted share of the class.
    limit = np.where(share > 0.0, 2.6 * (share - 0.5), -9.0).astype(np.float32)
    cover = np.clip((limit - (0.9 * coarse + 0.3 * fine)) * 2.0 + 0.5, 0.0, 0.92)
    image += cover[:, :, None] * (SNOW_COLOUR * (1.0 + 0.02 * fine[:, :, None]) - image)


def _plant_trees(
    image: NDArray[np.float32],
    scene: Scene,
    season: str,
    sun: Sun,
    coarse: NDArray[np.float32],
    rng: np.random.Generator,
) -> None:
    """Crowns over the ground: leafless in winter, lit on the side of the sun."""
    leaves = np.array(LEAF_COLOURS["winter" if season == "snow" else season], np.float32)
    conifers = np.clip(coarse * 2.5 - 1.2 + rng.normal(0.0, 0.3, scene.ground.shape), 0.0, 1.0).astype(np.float32)
    opacity = np.clip(scene.tree_m / 5.0, 0.0, 1.0)
    opacity *= (0.55 if season in ("winter", "snow") else 0.95) * (1.0 - conifers) + 0.95 * conifers
    gain = 1.0 + 0.05 * relief(scene.tree_m, sun) + 0.08 * np.float32(rng.standard_normal()) * coarse
    colour = leaves + conifers[:, :, None] * (np.array(CONIFER, np.float32) - leaves)
    if season == "snow":
        colour = colour + 0.35 * (SNOW_COLOUR - colour)
    image += opacity[:, :, None] * (colour * gain[:, :, None] - image)


def relief(height_m: NDArray[np.float32], sun: Sun) -> NDArray[np.float32]:
    """How much a surface leans towards the sun, in metres of height per pixel."""
    east = cv2.Sobel(height_m, cv2.CV_32F, 1, 0, scale=1.0 / 8.0)
    south = cv2.Sobel(height_m, cv2.CV_32F, 0, 1, scale=1.0 / 8.0)
    azimuth = np.radians(sun.azimuth_deg)
    return np.clip(-east * np.float32(np.sin(azimuth)) + south * np.float32(np.cos(azimuth)), -6.0, 6.0)


def _roof(
    image: NDArray[np.float32],
    layers: Layers,
    scene: Scene,
    season: str,
    sun: Sun,
    fine: NDArray[np.float32],
    rng: np.random.Generator,
) -> None:
    n_buildings = len(layers.building_material)
    colours = np.array(ROOF_COLOURS, np.float32)[layers.building_material]
    colours *= (1.0 + rng.normal(0.0, 0.1, (n_buildings, 1)) + rng.normal(0.0, 0.03, (n_buildings, 3))).astype(
        np.float32
    )
    if season == "snow":
        cover = rng.uniform(0.1, 0.9, (n_buildings, 1)).astype(np.float32)
        colours += cover * (SNOW_COLOUR - colours)
    here = scene.building > 0
    shade = 1.0 + 0.3 * slope_to_sun(layers.roof_aspect[here], sun) * np.float32(np.cos(np.radians(sun.elevation_deg)))
    image[here] = colours[scene.building[here]] * (shade + 0.03 * fine[here])[:, None]


def slope_to_sun(aspect: NDArray[np.uint8], sun: Sun) -> NDArray[np.float32]:
    """1 where a roof faces the sun's azimuth, −1 where it looks away, 0 where it is flat."""
    azimuth = aspect.astype(np.float32) * np.float32(2.0 * np.pi / 254.0)
    facing = np.cos(azimuth - np.float32(np.radians(sun.azimuth_deg)))
    return np.where(aspect == FLAT_ROOF, np.float32(0.0), facing)


def _light(image: NDArray[np.float32], scene: Scene, sun: Sun, haze: float) -> None:
    """Direct light is warmer and weaker the lower the sun; shade keeps the blue light of the sky."""
    height = np.sin(np.radians(max(sun.elevation_deg, 5.0)))
    direct = np.array([1.0, 0.8 + 0.2 * height**0.4, 0.62 + 0.38 * height**0.4]) * (0.80 + 0.27 * height**0.5)
    sky = np.array([0.40, 0.45, 0.52])
    shade = scene.shadow[:, :, None]
    image *= (direct + shade * (sky - direct)).astype(np.float32)
    image += np.float32(haze) * (np.array([168, 176, 188], np.float32) - image)
