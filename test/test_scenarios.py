"""Scenarios: the demo's missions, defaults, mistakes, and rasters from elsewhere."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from simulation_support import MISSION, SCENARIO, write_four_bands

from aerial_vpr_cl.errors import AerialVprError, SettingsError
from aerial_vpr_cl.mission.split import split_halves
from aerial_vpr_cl.simulation.camera import reach_m
from aerial_vpr_cl.simulation.flights import box_of, plan_flight
from aerial_vpr_cl.simulation.scenario import load_scenario
from aerial_vpr_cl.simulation.sorties import fly
from aerial_vpr_cl.simulation.world.procedural import ProceduralWorld
from aerial_vpr_cl.simulation.world.raster_world import RasterWorld

DEMO = Path(__file__).parent.parent / "config" / "scenarios" / "demo.yaml"


def test_the_demo_holds_the_missions_of_table_1():
    missions = load_scenario(DEMO).missions
    sequence = [mission for mission in missions if mission.role == "sequence"]
    held_out = [mission for mission in missions if mission.role == "held_out"]
    assert (len(missions), len(sequence), len(held_out)) == (21, 10, 11)
    assert sum(mission.frames for mission in sequence) == 2691
    assert sum(mission.frames for mission in held_out if mission.modality == "VIS") == 2146
    assert sum(mission.frames for mission in held_out if mission.modality == "IR") == 602
    assert {mission.name for mission in sequence if mission.modality == "IR"} == {"JHT-05", "TD-13-seq"}
    assert all(mission.track.kind == "out_and_back" for mission in sequence)
    assert {mission.track.kind for mission in held_out} == {"survey", "transit", "random", "out_and_back"}
    starts = [mission.start_ns for mission in missions]
    assert len(set(starts)) == 21


def test_every_demo_mission_can_be_flown_at_any_scale():
    scenario = load_scenario(DEMO)
    coarse = ProceduralWorld(dataclasses.replace(scenario.world, resolution_m=16))
    for mission in scenario.missions:
        frame = next(iter(fly(coarse, mission.scaled(0.1)))).image
        assert frame.shape[:2] == (mission.camera.height_px, mission.camera.width_px)
        assert frame.std() > 4.0


@pytest.mark.parametrize("scale", [0.2, 1.0])
def test_the_tested_half_of_a_sequence_mission_flies_over_cells_of_the_learnt_half(scale):
    scenario = load_scenario(DEMO)
    bounds = ProceduralWorld(scenario.world).bounds
    known = []
    for mission in scenario.missions:
        if mission.role == "sequence":
            track, frames = mission.track, mission.scaled(scale).frames
            box = box_of(bounds, track, reach_m(mission.camera, track.altitude_m))
            flight = plan_flight(track, box, frames, 0, np.random.default_rng(0))
            cells = np.floor(flight.positions_at(flight.stamps_ns) / 200.0).astype(int).tolist()
            learnt, tested = split_halves(frames)
            known += [cell in cells[learnt] for cell in cells[tested]]
    assert np.mean(known) > 0.75


def test_scaling_rounds_and_never_goes_below_24_frames():
    assert [dataclasses.replace(MISSION, frames=n).scaled(0.2).frames for n in (63, 348, 500)] == [24, 70, 100]


def test_mission_defaults_are_merged_key_by_key(tmp_path):
    (tmp_path / "s.yaml").write_text(SCENARIO)
    one, two = load_scenario(tmp_path / "s.yaml").missions
    assert (one.track.kind, one.track.altitude_m, one.camera.width_px) == ("random", 150.0, 64)
    assert (two.track.kind, two.modality, two.appearance.hour) == ("out_and_back", "IR", 22.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("missions: [{name: a, framse: 3}]", "s.yaml: mission a: .*unknown setting 'framse'; did you mean 'frames'"),
        ("missions: [{name: a, camera: {tilt_deg: 45}}]", "mission a: .*'tilt_deg' is 45.0; it must be 0.0 to 30.0"),
        ("missions: [{name: a, camera: 3}]", "mission a: 'camera' must be a mapping"),
        ("missions: [{frames: 3}]", "mission 1: has no name"),
        ("missions: [{name: a}, {name: a}]", "two missions are called a"),
        ("missions: {a: 1}", "'missions' must be a list"),
        ("wrold: {}", "unknown setting 'wrold'; did you mean 'world'"),
        ("world: 4", "'world' must be a mapping"),
    ],
)
def test_a_scenario_with_a_mistake_is_refused_in_words(tmp_path, text, message):
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(SettingsError, match=message):
        load_scenario(tmp_path / "s.yaml")


def test_rasters_are_found_beside_the_scenario_or_where_one_says(tmp_path):
    (tmp_path / "s.yaml").write_text("missions: [{name: a, raster: 2015.tif, bands: [4]}, {name: b, raster: /x/y.tif}]")
    beside = load_scenario(tmp_path / "s.yaml")
    assert [mission.raster for mission in beside.missions] == [tmp_path / "2015.tif", Path("/x/y.tif")]
    (tmp_path / "dates").mkdir()
    elsewhere = load_scenario(tmp_path / "s.yaml", raster=tmp_path / "dates")
    assert elsewhere.missions[0].raster == tmp_path / "dates" / "2015.tif"
    one_file = load_scenario(tmp_path / "s.yaml", raster=tmp_path / "other.tif")
    assert one_file.raster == tmp_path / "other.tif" and one_file.missions[0].raster is None
    assert one_file.missions[0].bands == (4,)
    write_four_bands(tmp_path / "other.tif")
    assert isinstance(one_file.world_of(one_file.missions[0]), RasterWorld)
    with pytest.raises(AerialVprError, match=r"2015\.tif"):
        beside.world_of(beside.missions[0])
