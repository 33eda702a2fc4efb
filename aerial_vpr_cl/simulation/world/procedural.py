"""The procedural world as something to fly over, and as the satellite map of it."""

from __future__ import annotations

from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.transform import from_origin

from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.files import new_file
from aerial_vpr_cl.geo.projection import Projection
from aerial_vpr_cl.simulation.world.appearance import Appearance, scene_of, sun_of
from aerial_vpr_cl.simulation.world.ground import ArrayGround
from aerial_vpr_cl.simulation.world.infrared import render_infrared
from aerial_vpr_cl.simulation.world.layers import Layers
from aerial_vpr_cl.simulation.world.terrain import WorldSettings, make_layers
from aerial_vpr_cl.simulation.world.visible import render_visible

LOWEST_SUN_DEG = 5.0
"""Below this a visible camera sees little."""


class ProceduralWorld:
    """Semantic layers made once, rendered for any day and sensor."""

    def __init__(self, settings: WorldSettings | None = None) -> None:
        self.settings = settings or WorldSettings()
        self.projection = Projection(self.settings.epsg)

    @cached_property
    def layers(self) -> Layers:
        """What stands where."""
        return make_layers(self.settings)

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """West, south, east, north in metres."""
        world = self.settings
        return world.west, world.south, world.west + world.width_m, world.south + world.height_m

    def ground(self, appearance: Appearance, modality: str = "VIS") -> ArrayGround:
        """The world on one day as one sensor sees it, ready for the camera."""
        west, _, _, north = self.bounds
        return ArrayGround(self.render(appearance, modality), west, north, self.settings.resolution_m, self.projection)

    def render(self, appearance: Appearance, modality: str = "VIS") -> NDArray[np.uint8]:
        """(H, W, 3) RGB, north up; of modality "IR" the three channels are equal."""
        west, south, east, north = self.bounds
        latitude, _ = self.projection.to_wgs84(np.array([(west + east) / 2.0, (south + north) / 2.0]))
        sun = sun_of(appearance, float(latitude))
        if modality == "VIS" and sun.elevation_deg < LOWEST_SUN_DEG:
            raise SettingsError(
                f"hour {appearance.hour:g} in {appearance.season}: the sun stands at {sun.elevation_deg:.0f}°, too "
                "low for a visible camera; choose an hour of daylight, set sun_elevation_deg, or fly modality IR"
            )
        resolution_m, seed = self.settings.resolution_m, self.settings.seed
        scene = scene_of(self.layers, appearance, sun, resolution_m, seed)
        render = render_infrared if modality == "IR" else render_visible
        return render(self.layers, scene, appearance, sun, resolution_m, seed)

    def write_map(self, path: Path, appearance: Appearance) -> None:
        """Write one rendering as the satellite GeoTIFF that `build-map` takes."""
        image = self.render(appearance)
        west, _, _, north = self.bounds
        profile = {
            "driver": "GTiff",
            "width": image.shape[1],
            "height": image.shape[0],
            "count": 3,
            "dtype": "uint8",
            "crs": f"EPSG:{self.settings.epsg}",
            "transform": from_origin(west, north, self.settings.resolution_m, self.settings.resolution_m),
            "compress": "deflate",
            "predictor": 2,
            "tiled": min(image.shape[:2]) >= 256,
            "photometric": "rgb",
        }
        if profile["tiled"]:
            profile |= {"blockxsize": 256, "blockysize": 256}
        path.parent.mkdir(parents=True, exist_ok=True)
        with new_file(path) as temporary, rasterio.open(temporary, "w", **profile) as raster:
            raster.write(np.moveaxis(image, 2, 0))
            raster.update_tags(TIFFTAG_IMAGEDESCRIPTION=f"simulated world {self.settings.seed}, {appearance.season}")


@lru_cache(maxsize=2)
def procedural_world(settings: WorldSettings) -> ProceduralWorld:
    """The world of these settings; a second request shares the layers of the first."""
    return ProceduralWorld(settings)
