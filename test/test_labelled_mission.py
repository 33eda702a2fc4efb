"""Flights over a simulated world, learnt without GNSS or with a false one: the labels are true or there are none."""

from dataclasses import replace

import numpy as np
import pytest
from store_support import commit_generation

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.knowledge import add_to_map, load_knowledge
from aerial_vpr_cl.knowledge.map_folder import build_map, open_map
from aerial_vpr_cl.learning.adapt_settings import AdaptSettings
from aerial_vpr_cl.learning.labelled_mission import read_labelled
from aerial_vpr_cl.mission.mission import read_mission
from aerial_vpr_cl.model.network import Network, NetworkSettings
from aerial_vpr_cl.satellite.exemplars import ExemplarMemory
from aerial_vpr_cl.satellite.patches import PatchSettings
from aerial_vpr_cl.simulation.camera import CameraSettings
from aerial_vpr_cl.simulation.gnss import GnssSettings
from aerial_vpr_cl.simulation.scenario import MissionSpec
from aerial_vpr_cl.simulation.sorties import simulate_mission
from aerial_vpr_cl.simulation.tracks import TrackSettings
from aerial_vpr_cl.simulation.world.appearance import Appearance
from aerial_vpr_cl.simulation.world.procedural import procedural_world
from aerial_vpr_cl.simulation.world.terrain import WorldSettings

FLIGHT = MissionSpec(
    name="flight",
    frames=30,
    appearance=Appearance(season="autumn", hour=14.0, change=0.05, change_seed=1),
    camera=CameraSettings(width_px=200, height_px=200, hfov_deg=62.0),
    track=TrackSettings(kind="random", altitude_m=330.0, spacing_m=30.0),
)


@pytest.fixture(scope="module")
def world():
    return procedural_world(WorldSettings(seed=5, width_m=1800, height_m=1800, resolution_m=3))


@pytest.fixture(scope="module")
def known(world, tmp_path_factory):
    """A north-up store of the world in summer, with a network that knows nothing: the labels do not need it."""
    root = tmp_path_factory.mktemp("labels")
    world.write_map(root / "map.tif", Appearance(season="summer", hour=10.5))
    store = GenerationStore.create(root / "store")
    build_map(root / "map.tif", store.root, PatchSettings(cell_side_m=200.0, footprint_m=380.0))
    folder = open_map(store.root)
    wanted = NetworkSettings(backbone="tf_efficientnet_lite0", input_size=32, view=folder.settings.view_kind)
    network = Network.build(wanted, folder.grid, weights="random")
    rows = np.arange(0, len(folder.patches), 7)
    add_to_map(folder, network, ExemplarMemory.choose(folder.patches, rows))
    commit_generation(store.root, network, temperature=1.0)
    return load_knowledge(store)


def labelled(world, known, path, gnss, **settings):
    """The mission as it is learnt, and the errors of its labels in metres."""
    simulate_mission(world, replace(FLIGHT, gnss=gnss), path)
    mission, sources = read_labelled(path, known, AdaptSettings(**settings))
    truth = {frame.stamp_ns: frame.position for frame in read_mission(path, known.map.grid, positions="truth").frames}
    return sources, np.array([np.hypot(*(frame.position - truth[frame.stamp_ns])) for frame in mission.frames])


def test_a_flight_with_gnss_is_labelled_by_it(world, known, tmp_path):
    sources, errors = labelled(world, known, tmp_path / "bag", GnssSettings())
    assert sources["gnss"] >= 24
    assert np.median(errors) < 5.0


def test_a_flight_that_was_jammed_from_start_to_end_is_labelled_by_its_track(world, known, tmp_path):
    sources, errors = labelled(world, known, tmp_path / "bag", GnssSettings(jammed=True))
    assert set(sources) == {"track"}
    assert len(errors) >= 20
    assert errors.max() < 80.0


@pytest.mark.parametrize("spoofing", ["offset", "drift", "backwards"])
def test_a_spoofed_flight_is_never_learnt_from_the_lie(world, known, tmp_path, spoofing):
    gnss = GnssSettings(spoofing=spoofing, spoofing_m=400.0)
    sources, errors = labelled(world, known, tmp_path / "bag", gnss)
    assert errors.max() < 100.0  # half a cell
    assert sources["track"] >= 5
    _, believed = labelled(world, known, tmp_path / "believed", gnss, labels="gnss")
    assert believed.max() > 200.0  # which is what would have been learnt


def test_a_flight_over_other_ground_is_refused_and_says_why(known, tmp_path):
    elsewhere = procedural_world(WorldSettings(seed=77, width_m=1800, height_m=1800, resolution_m=3))
    simulate_mission(elsewhere, replace(FLIGHT, frames=8), tmp_path / "bag")
    with pytest.raises(MissionError, match=r"no frame has a position that is proven: .*GNSS not proven"):
        read_labelled(tmp_path / "bag", known, AdaptSettings())
