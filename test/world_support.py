"""A small simulated world, a store of its map with a network that knows nothing, and a flight over it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from store_support import commit_generation

from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.knowledge import add_to_map
from aerial_vpr_cl.knowledge.map_folder import build_map, open_map
from aerial_vpr_cl.model.network import Network, NetworkSettings
from aerial_vpr_cl.satellite.exemplars import ExemplarMemory
from aerial_vpr_cl.satellite.patches import PatchSettings
from aerial_vpr_cl.simulation.camera import CameraSettings
from aerial_vpr_cl.simulation.scenario import MissionSpec
from aerial_vpr_cl.simulation.tracks import TrackSettings
from aerial_vpr_cl.simulation.world.appearance import Appearance
from aerial_vpr_cl.simulation.world.procedural import ProceduralWorld, procedural_world
from aerial_vpr_cl.simulation.world.terrain import WorldSettings

FLIGHT = MissionSpec(
    name="flight",
    frames=30,
    appearance=Appearance(season="autumn", hour=14.0, change=0.05, change_seed=1),
    camera=CameraSettings(width_px=200, height_px=200, hfov_deg=62.0),
    track=TrackSettings(kind="random", altitude_m=330.0, spacing_m=30.0),
)


def small_world(seed: int = 5) -> ProceduralWorld:
    """3.2 km² of fields, roads and houses."""
    return procedural_world(WorldSettings(seed=seed, width_m=1800, height_m=1800, resolution_m=3))


def world_store(world: ProceduralWorld, root: Path, view: str = "north_up") -> Path:
    """A store of the world in summer; what is found over it is found without the network's help."""
    world.write_map(root / "map.tif", Appearance(season="summer", hour=10.5))
    store = GenerationStore.create(root / "store")
    build_map(root / "map.tif", store.root, PatchSettings(cell_side_m=200.0, footprint_m=380.0, view=view))
    folder = open_map(store.root)
    wanted = NetworkSettings(backbone="tf_efficientnet_lite0", input_size=32, view=folder.settings.view_kind)
    network = Network.build(wanted, folder.grid, weights="random")
    add_to_map(folder, network, ExemplarMemory.choose(folder.patches, np.arange(0, len(folder.patches), 7)))
    commit_generation(store.root, network, temperature=1.0)
    return store.root
