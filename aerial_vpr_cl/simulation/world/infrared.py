"""The infrared sensor: temperatures by class, hour and season, not a grey copy of the visible."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.simulation.world.appearance import Appearance, Scene, Sun
from aerial_vpr_cl.simulation.world.layers import Ground, Layers
from aerial_vpr_cl.simulation.world.noise import smooth_noise
from aerial_vpr_cl.simulation.world.visible import relief, slope_to_sun

# Mean above the air in °C, daily swing in °C, hour of the maximum: water hardly changes, dark dry matter swings.
DAILY = {
    Ground.MEADOW: (-0.5, 7.0, 13.3),
    Ground.FIELD: (0.0, 9.0, 13.5),
    Ground.FOREST: (-0.5, 3.2, 13.8),
    Ground.WATER: (1.5, 0.8, 16.5),
    Ground.ROAD: (3.0, 11.0, 14.6),
    Ground.TRACK: (1.0, 10.0, 13.8),
    Ground.YARD: (0.3, 6.0, 13.6),
    Ground.PAVED: (2.3, 9.0, 14.3),
    Ground.RAIL: (1.0, 12.0, 13.6),
}
CROP_SWING_C = (6.5, 5.0, 7.0, 6.0, 5.5, 13.0)  # in the order of CROPS: leaves transpire, bare soil heats
# By roof material: metal sees the cold sky and shows it; concrete keeps the day's heat.
ROOF_MEAN_C = (1.0, 1.5, 3.0, -4.0, -3.0, 1.0)
ROOF_SWING_C = (13.0, 17.0, 11.0, 7.0, 10.0, 13.0)
SEASON_SWING = {"spring": 0.8, "summer": 1.0, "autumn": 0.65, "winter": 0.4, "snow": 0.3}
AIR_C = {"spring": 14.0, "summer": 27.0, "autumn": 14.0, "winter": 2.0, "snow": -4.0}
WATER_C = {"spring": 13.0, "summer": 26.0, "autumn": 16.0, "winter": 4.0, "snow": 1.0}


def render_infrared(
    layers: Layers, scene: Scene, appearance: Appearance, sun: Sun, resolution_m: float, world_seed: int
) -> NDArray[np.uint8]:
    """(H, W, 3) grey of the whole world, warm is bright, scaled to the scene's range as a thermal camera does."""
    celsius = temperatures(layers, scene, appearance, sun, resolution_m, world_seed)
    sample = np.sort(celsius[::3, ::3], axis=None)
    low, high = np.percentile(sample, (0.5, 99.5))
    linear = ((celsius - low) / max(high - low, 1.0)).clip(0.0, 1.0)
    # Half by rank: a few hot or cold roofs must not leave the rest of the picture flat.
    levels = np.linspace(0.0, 1.0, 129)
    equalised = np.interp(celsius, np.quantile(sample, levels), levels).astype(np.float32)
    grey = 0.5 * linear + 0.5 * equalised
    return cv2.cvtColor((grey * 235.0 + 10.0).astype(np.uint8), cv2.COLOR_GRAY2RGB)


def temperatures(
    layers: Layers, scene: Scene, appearance: Appearance, sun: Sun, resolution_m: float, world_seed: int
) -> NDArray[np.float32]:
    """(H, W) apparent surface temperature in °C."""
    shape, hour = scene.ground.shape, appearance.hour
    rng = np.random.default_rng([world_seed, 5])
    moisture = smooth_noise(shape, 70.0 / resolution_m, rng, octaves=3)
    fine = smooth_noise(shape, 2.5, rng)
    vigour = SEASON_SWING[appearance.season]

    def at_hour(mean: NDArray, swing: NDArray, peak: NDArray | float) -> NDArray[np.float32]:
        return np.asarray(mean + vigour * swing * np.cos(2.0 * np.pi * (hour - peak) / 24.0), np.float32)

    mean, swing, peak = np.array([DAILY[kind] for kind in Ground]).T
    mean = mean.copy()
    mean[Ground.WATER] += WATER_C[appearance.season] - AIR_C[appearance.season]
    celsius = at_hour(mean, swing, peak)[scene.ground]
    swing_here = (vigour * swing).astype(np.float32)[scene.ground]

    # Objects of one class differ: crops by their leaves, parcels by their soil.
    n_fields = len(scene.crop)
    own = rng.normal(0.0, 1.0, n_fields)
    of_field = at_hour(own, np.array(CROP_SWING_C)[scene.crop] * (1.0 + 0.12 * own), 13.5)
    is_field = scene.ground == Ground.FIELD
    celsius[is_field] = of_field[scene.field[is_field]]
    varied = np.isin(scene.ground, (Ground.MEADOW, Ground.YARD, Ground.PAVED))
    celsius[varied] += (0.8 * own).astype(np.float32)[2 * layers.parcel[varied]]
    natural = np.isin(scene.ground, (Ground.MEADOW, Ground.FIELD, Ground.FOREST, Ground.YARD))
    celsius += np.where(natural, 0.65, 0.25).astype(np.float32) * moisture * (0.4 + 0.6 * vigour) + 0.25 * fine

    # Crowns stay near the temperature of the air, by day cooler and by night warmer than the open ground.
    crown = at_hour(np.array(-0.3), np.array(3.0), 13.8) + 0.12 * relief(scene.tree_m, sun) * (
        1.0 if sun.is_up else 0.0
    )
    cover = np.clip(scene.tree_m / 6.0, 0.0, 0.95)
    celsius += cover * (crown + 0.25 * fine + 0.15 * moisture - celsius)
    celsius -= 0.4 * swing_here * scene.shadow

    n_buildings = len(layers.building_material)
    mean_roof = np.array(ROOF_MEAN_C)[layers.building_material] + rng.normal(0.0, 1.6, n_buildings)
    # Heated houses leak in the cold.
    mean_roof += max(0.0, 15.0 - AIR_C[appearance.season]) * 0.12 * rng.uniform(0.0, 1.0, n_buildings)
    swing_roof = np.array(ROOF_SWING_C)[layers.building_material] * rng.uniform(0.8, 1.2, n_buildings)
    here = scene.building > 0
    roof = at_hour(mean_roof, swing_roof, 13.2)[scene.building[here]]
    if sun.is_up:
        lean = slope_to_sun(layers.roof_aspect[here], sun) * np.float32(np.cos(np.radians(sun.elevation_deg)))
        roof += 0.35 * (vigour * swing_roof).astype(np.float32)[scene.building[here]] * lean
    celsius[here] = roof + 0.3 * fine[here]
    # Heat spreads and thermal optics are soft.
    return cv2.GaussianBlur(celsius + np.float32(AIR_C[appearance.season]), (0, 0), max(0.6, 1.6 / resolution_m))
