"""Flights over a simulated world, learnt without GNSS or with a false one: the labels are true or there are none."""

from dataclasses import replace

import numpy as np
import pytest
from world_support import FLIGHT, small_world, world_store

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.geo.terrain import Terrain
from aerial_vpr_cl.images import encode_jpeg
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.knowledge import load_knowledge
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.learning.adapt_settings import AdaptSettings
from aerial_vpr_cl.learning.labelled_mission import can_be_followed, labelled, read_whole
from aerial_vpr_cl.mission.mission import read_flight, read_mission
from aerial_vpr_cl.mission.situation import Situation
from aerial_vpr_cl.satellite.terrain_file import save_terrain
from aerial_vpr_cl.simulation.gnss import GnssSettings
from aerial_vpr_cl.simulation.sensors import InstrumentSettings
from aerial_vpr_cl.simulation.sorties import simulate_mission


@pytest.fixture(scope="module")
def world():
    return small_world()


@pytest.fixture(scope="module")
def known(world, tmp_path_factory):
    return load_knowledge(GenerationStore(world_store(world, tmp_path_factory.mktemp("labels"))))


@pytest.fixture(scope="module")
def as_seen(world, tmp_path_factory):
    return load_knowledge(GenerationStore(world_store(world, tmp_path_factory.mktemp("as_seen"), "as_seen")))


def learnt_from(path, known, **settings):
    settings = AdaptSettings(**settings)
    return labelled(read_whole(path, known, settings), known, settings)


def flown_and_labelled(world, known, path, gnss, instruments=FLIGHT.sensors, **settings):
    """The mission as it is learnt, and the errors of its labels in metres."""
    simulate_mission(world, replace(FLIGHT, gnss=gnss, sensors=instruments), path)
    mission, sources = learnt_from(path, known, **settings)
    truth = {frame.stamp_ns: frame.position for frame in read_mission(path, known.map.grid, positions="truth").frames}
    return sources, np.array([np.hypot(*(frame.position - truth[frame.stamp_ns])) for frame in mission.frames])


def test_a_flight_with_gnss_is_labelled_by_it(world, known, tmp_path):
    sources, errors = flown_and_labelled(world, known, tmp_path / "bag", GnssSettings())
    assert sources["gnss"] >= 24
    assert np.median(errors) < 5.0


def test_a_flight_that_was_jammed_from_start_to_end_is_labelled_by_its_track(world, known, tmp_path):
    sources, errors = flown_and_labelled(world, known, tmp_path / "bag", GnssSettings(jammed=True))
    assert set(sources) == {"track"}
    assert len(errors) >= 20
    assert errors.max() < 80.0


@pytest.mark.parametrize("spoofing", ["offset", "drift", "backwards", "replayed"])
def test_a_spoofed_flight_is_never_learnt_from_the_lie(world, known, tmp_path, spoofing):
    gnss = GnssSettings(spoofing=spoofing, spoofing_m=400.0)
    sources, errors = flown_and_labelled(world, known, tmp_path / "bag", gnss)
    assert errors.max() < 100.0  # half a cell
    assert sources["track"] >= 5
    _, believed = flown_and_labelled(world, known, tmp_path / "believed", gnss, labels="gnss")
    assert believed.max() > 200.0  # which is what would have been learnt


@pytest.mark.parametrize("spoofing", ["drift", "replayed"])
def test_an_odometry_that_follows_a_false_gnss_proves_no_lie(world, known, tmp_path, spoofing):
    """That of an autopilot does. What it says of the way is then the receiver's word once more."""
    sensors = replace(FLIGHT.sensors, odometry_follows_gnss=True)
    simulate_mission(world, replace(FLIGHT, gnss=GnssSettings(spoofing=spoofing), sensors=sensors), tmp_path / "bag")
    truth = read_mission(tmp_path / "bag", known.map.grid, positions="truth")
    places = dict(zip(truth.stamps_ns, truth.positions))
    try:
        mission, _ = learnt_from(tmp_path / "bag", known)
    except MissionError:
        return  # refused as a whole
    assert all(np.hypot(*(frame.position - places[frame.stamp_ns])) < 100.0 for frame in mission.frames)


@pytest.mark.parametrize("gnss", [GnssSettings(jammed=True), GnssSettings(spoofing="offset", spoofing_m=400.0)])
def test_frames_that_are_learnt_as_seen_are_proven_too_where_the_drone_knew_attitude_and_height(
    world, as_seen, tmp_path, gnss
):
    sources, errors = flown_and_labelled(world, as_seen, tmp_path / "bag", gnss)
    assert sources["track"] >= 5 and errors.max() < 100.0


@pytest.mark.parametrize("spoofing", ["none", "offset"])
def test_a_drone_without_a_compass_learns_no_lie_either(world, as_seen, tmp_path, spoofing):
    gnss = GnssSettings(spoofing=spoofing, spoofing_m=400.0)
    sensors = replace(FLIGHT.sensors, compass_outages=8, outage_s=100.0)
    _, errors = flown_and_labelled(world, as_seen, tmp_path / "bag", gnss, sensors)
    assert len(errors) >= 10 and errors.max() < 100.0


def test_as_seen_a_drone_with_camera_and_gnss_alone_is_labelled_as_in_the_paper(world, as_seen, tmp_path):
    nothing = InstrumentSettings(imu=False, height=False, odometry=False, camera_info=False)
    sources, errors = flown_and_labelled(world, as_seen, tmp_path / "bag", GnssSettings(), nothing)
    assert set(sources) == {"gnss"} and len(errors) >= 24


def test_instruments_that_fail_in_flight_do_not_make_gnss_credible(world, as_seen, tmp_path):
    simulate_mission(world, FLIGHT, tmp_path / "bag")
    flight = read_flight(tmp_path / "bag", as_seen.map.grid)
    blind = [replace(frame, situation=Situation()) for frame in flight.frames]
    assert can_be_followed(replace(flight, frames=(*flight.frames[:1], *blind[1:])))
    assert not can_be_followed(replace(flight, frames=tuple(blind)))


def test_over_hills_views_are_learnt_at_the_height_above_the_ground_beneath_them(world, tmp_path):
    """Flat where the drone flies and 80 m higher elsewhere: before it has a place, a drone is as high as over both."""
    store = world_store(world, tmp_path)
    sortie = simulate_mission(world, replace(FLIGHT, sensors=replace(FLIGHT.sensors, height=False)), tmp_path / "bag")
    west, south, east, north = open_map(store).satellite.bounds
    step_m = 30.0
    columns, rows = np.arange(west, east, step_m) + step_m / 2, np.arange(north, south, -step_m) - step_m / 2
    places = np.stack(np.meshgrid(columns, rows), axis=-1)
    near = np.min([np.hypot(*(places - place).transpose(2, 0, 1)) for place in sortie.positions()], axis=0) < 150.0
    terrain = Terrain(west, north, step_m, np.where(near, 0.0, 80.0).astype(np.float32))
    save_terrain(terrain, open_map(store).path, open_map(store).grid.epsg)
    known = load_knowledge(GenerationStore(store))
    mission, _ = learnt_from(tmp_path / "bag", known)
    altitudes = sortie.flight.altitudes_m_at(mission.stamps_ns)
    heights = np.array([frame.situation.height_m for frame in mission.frames])
    assert len(mission) >= 10 and np.abs(heights - altitudes).max() < 25.0
    assert mission.begins_ns == read_flight(tmp_path / "bag", known.map.grid).frames[0].stamp_ns


@pytest.mark.parametrize("spoofing", ["none", "offset", "replayed"])
def test_a_flight_over_other_ground_is_refused_and_says_why(known, tmp_path, spoofing):
    gnss = GnssSettings(spoofing=spoofing, spoofing_m=400.0)
    simulate_mission(small_world(seed=77), replace(FLIGHT, frames=8, gnss=gnss), tmp_path / "bag")
    with pytest.raises(MissionError, match=r"no frame has a position that is proven: .*GNSS not proven"):
        learnt_from(tmp_path / "bag", known)


def test_a_flight_that_was_hardly_proven_waits_for_a_network_that_proves_more(world, known, tmp_path):
    """What is learnt is deleted: a flight of which six frames fit the map would be lost but for these."""
    simulate_mission(world, replace(FLIGHT, frames=90, gnss=GnssSettings(jammed=True)), tmp_path / "bag")
    settings = AdaptSettings()
    flight = read_whole(tmp_path / "bag", known, settings)
    mirrored = [encode_jpeg(np.ascontiguousarray(frame.decode()[:, ::-1]), 90) for frame in flight.frames]
    frames = [frame if row < 6 else replace(frame, image=mirrored[row]) for row, frame in enumerate(flight.frames)]
    with pytest.raises(MissionError, match=r"only [1-8] of 90 frames have a position that is proven"):
        labelled(replace(flight, frames=tuple(frames)), known, settings)
