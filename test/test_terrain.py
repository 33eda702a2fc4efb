"""Altitude over terrain is a height above ground, as sure as altitude and terrain allow."""

import math

import numpy as np
import pytest
from mission_support import GRID, ORIGIN, jpeg, place, stamp
from synthetic_rasters import NORTH, WEST, write_raster

from aerial_vpr_cl import cli
from aerial_vpr_cl.errors import MapError
from aerial_vpr_cl.geo.terrain import MODEL_SIGMA_M, Near, Terrain
from aerial_vpr_cl.knowledge.map_folder import add_terrain, build_map, open_map
from aerial_vpr_cl.mission.bag_writer import MissionWriter
from aerial_vpr_cl.mission.mission import read_flight, read_mission
from aerial_vpr_cl.mission.readings import ABOVE_HOME, AltitudeReading, HeightReading
from aerial_vpr_cl.mission.sensor_settings import SensorSettings
from aerial_vpr_cl.mission.sensors import FlightSensors
from aerial_vpr_cl.satellite.patches import PatchSettings
from aerial_vpr_cl.satellite.terrain_file import load_terrain, read_terrain, save_terrain

SLOPE = Terrain(0.0, 1000.0, 100.0, np.arange(10, dtype=np.float32) * np.ones((10, 1), np.float32) * 10.0)
"""Rises by 10 m every 100 m to the east, from 0 to 90 m."""


def test_terrain_is_known_here_around_and_as_a_whole():
    middle, sigma = SLOPE.under(Near(np.array([550.0, 500.0]), 0.0))
    assert middle == pytest.approx(50.0, abs=10.0) and sigma < 12.0
    mean, sigma = SLOPE.under()
    assert mean == pytest.approx(45.0) and sigma == pytest.approx(math.hypot(28.7, MODEL_SIGMA_M), abs=0.1)
    _, wide = SLOPE.under(Near(np.array([550.0, 500.0]), 300.0))
    assert 10.0 < wide < sigma
    assert SLOPE.under(Near(np.array([5000.0, 500.0]), 100.0)) is None
    assert SLOPE.under(Near(np.array([-5000.0, -500.0]), 100.0)) is None
    assert SLOPE.under(Near(np.array([np.nan, 500.0]), 100.0)) == SLOPE.under()


def test_altitude_stands_in_for_a_range_finder_and_gives_way_to_it():
    sensors = FlightSensors(terrain=SLOPE)
    sensors.add(AltitudeReading(stamp(0), 245.0))
    unsure, _ = sensors.at(stamp(0))
    assert unsure.height_m == pytest.approx(200.0) and unsure.height_sigma_m > 28.0
    here, _ = sensors.at(stamp(0), near=Near(np.array([950.0, 500.0]), 0.0))
    assert here.height_m == pytest.approx(155.0, abs=6.0) and here.height_sigma_m < 14.0
    outside, _ = sensors.at(stamp(0), near=Near(np.array([9000.0, 500.0]), 10.0))
    assert outside.height_m == pytest.approx(200.0) and not sensors.problems
    sensors.add(HeightReading(stamp(0), 180.0, 3.0))
    assert sensors.at(stamp(0))[0].height_m == 180.0
    sensors.add(AltitudeReading(stamp(5), 245.0))
    assert sensors.at(stamp(5))[0].height_m == pytest.approx(200.0)
    assert "altitude and terrain are used" in sensors.problems["height"]


def test_an_altitude_below_the_terrain_is_named_and_a_constant_used_instead():
    sensors = FlightSensors(SensorSettings(height_m=90.0), terrain=SLOPE)
    sensors.add(AltitudeReading(stamp(0), 12.0))
    assert sensors.at(stamp(0))[0].height_m == 90.0
    assert "below the terrain" in sensors.problems["height"] and "--dem-offset-m" in sensors.problems["height"]
    sensors.add(AltitudeReading(stamp(10), math.nan))
    assert sensors.at(stamp(10))[0].height_m == 90.0


def test_altitude_over_terrain_goes_before_a_height_above_home():
    above_home = HeightReading(stamp(0), 120.0, 3.0, kind=ABOVE_HOME)
    sensors = FlightSensors(terrain=SLOPE)
    sensors.add(above_home)
    assert sensors.at(stamp(0))[0].height_m == 120.0  # no altitude yet
    sensors.add(AltitudeReading(stamp(0), 245.0))
    assert sensors.at(stamp(0))[0].height_m == pytest.approx(200.0) and not sensors.problems
    sensors.add(HeightReading(stamp(0), 180.0, 3.0))
    assert sensors.at(stamp(0))[0].height_m == 180.0
    flat = FlightSensors()
    flat.add(above_home)
    flat.add(AltitudeReading(stamp(0), 245.0))
    assert flat.at(stamp(0))[0].height_m == 120.0 and not flat.problems


def test_without_terrain_an_altitude_says_nothing():
    sensors = FlightSensors()
    sensors.add(AltitudeReading(stamp(0), 245.0))
    assert sensors.at(stamp(0))[0].height_m is None and not sensors.problems


def test_frames_of_a_bag_have_their_height_over_the_terrain_under_them_but_what_is_tested_knows_no_place(tmp_path):
    with MissionWriter(tmp_path / "bag") as writer:
        for second in range(10):
            writer.write_fix(stamp(second), *place(second), 500.0)
            writer.write_truth(stamp(second), *place(second), 7.0)
            writer.write_image(stamp(second), jpeg(second))
    columns = np.arange(30, dtype=np.float32)  # rises from 100 m by 10 m every 20 m
    elevation = (100.0 + 10.0 * columns) * np.ones((20, 1), np.float32)
    terrain = Terrain(ORIGIN[0], ORIGIN[1] + 200.0, 20.0, elevation.astype(np.float32))
    learnt = [frame.situation for frame in read_mission(tmp_path / "bag", GRID, terrain=terrain).frames]
    assert [round(s.height_m, -1) for s in learnt[1:]] == pytest.approx([400 - 10 * k for k in range(1, 10)], abs=10)
    assert all(situation.height_sigma_m < 20.0 for situation in learnt)
    flight = read_flight(tmp_path / "bag", GRID, terrain=terrain)
    for mission in (flight, flight.over(GRID)):
        heights = {frame.situation.height_m for frame in mission.frames}
        assert len(heights) == 1 and heights.pop() == pytest.approx(500.0 - 245.0)
        assert mission.frames[0].situation.height_sigma_m > 80.0


# Files


@pytest.fixture
def store(tmp_path):
    rng = np.random.default_rng(0)
    raster = write_raster(tmp_path / "a.tif", rng.integers(1, 255, (600, 800, 3), np.uint8))
    build_map(raster, tmp_path / "store", PatchSettings(rotations=1))
    return tmp_path / "store"


def slope(path, pixel=30.0, epsg=32614, west=WEST - 500.0, nodata=None, dtype=np.float32):
    """An elevation model that rises by a metre every 10 m to the east, wider than the map."""
    size = math.ceil(2000.0 / pixel)
    east = west + (np.arange(size) + 0.5) * pixel
    heights = np.repeat(((east - WEST) / 10.0 + 300.0)[None], size, axis=0)
    return write_raster(
        path, heights.astype(dtype), epsg=epsg, west=west, north=NORTH + 500.0, pixel=pixel, nodata=nodata
    )


def test_a_map_keeps_the_part_of_an_elevation_model_that_lies_under_it(store, tmp_path):
    assert open_map(store).terrain is None
    add_terrain(store, slope(tmp_path / "dem.tif"), offset_m=45.0)
    terrain = open_map(store).terrain
    assert (terrain.west, terrain.north, terrain.step_m) == (WEST, NORTH, 30.0)
    assert terrain.elevation_m.shape == (20, 27)
    middle = terrain.under(Near(np.array([WEST + 400.0, NORTH - 300.0]), 0.0))[0]
    assert middle == pytest.approx(300.0 + 40.0 + 45.0, abs=4.0)
    add_terrain(store, slope(tmp_path / "finer.tif", pixel=10.0, dtype=np.int16))  # another one, of whole metres
    assert open_map(store).terrain.under()[0] == pytest.approx(340.0, abs=3.0)


def test_a_map_that_has_terrain_is_still_the_same_map(store, tmp_path):
    add_terrain(store, slope(tmp_path / "dem.tif"))
    built = build_map(tmp_path / "a.tif", store, PatchSettings(rotations=1))
    assert built.terrain is not None


@pytest.mark.parametrize(
    ("options", "words"),
    [({"west": WEST + 50_000.0}, "gives the height of 0% of the map only"), ({"epsg": None}, "no coordinate system")],
)
def test_an_elevation_model_that_does_not_fit_is_refused_and_the_old_one_kept(store, tmp_path, options, words):
    add_terrain(store, slope(tmp_path / "dem.tif"))
    with pytest.raises(MapError, match=words):
        add_terrain(store, slope(tmp_path / "other.tif", **options))
    assert open_map(store).terrain is not None


def test_no_data_is_not_a_height_and_survives_the_file(tmp_path):
    dem = slope(tmp_path / "dem.tif", nodata=350.0)
    terrain = read_terrain(dem, (WEST, NORTH - 900.0, WEST + 900.0, NORTH), 32614)
    save_terrain(Terrain(0.0, 0.0, 30.0, np.array([[np.nan, 5.0]], np.float32)), tmp_path, 32614)
    again = load_terrain(tmp_path)
    assert np.isnan(again.elevation_m[0, 0]) and again.under()[0] == 5.0
    assert np.isfinite(terrain.under()[0])


def test_build_map_takes_an_elevation_model(tmp_path, capsys):
    rng = np.random.default_rng(0)
    raster = write_raster(tmp_path / "a.tif", rng.integers(1, 255, (600, 800, 3), np.uint8))
    argv = ["build-map", str(raster), "--out", str(tmp_path / "store"), "--rotations", "1"]
    assert cli.main([*argv, "--dem", str(slope(tmp_path / "dem.tif")), "--dem-offset-m", "10"]) == 0
    assert "terrain" in capsys.readouterr().out
    assert open_map(tmp_path / "store").terrain.under()[0] == pytest.approx(350.0, abs=3.0)
