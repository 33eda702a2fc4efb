"""The simulated world, and how it looks in every season, at any hour and in infrared."""

import dataclasses

import cv2
import numpy as np
import pytest
import rasterio
from simulation_support import SMALL

from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.simulation.world.appearance import SEASONS, Appearance, scene_of, sun_of
from aerial_vpr_cl.simulation.world.infrared import temperatures
from aerial_vpr_cl.simulation.world.layers import Ground
from aerial_vpr_cl.simulation.world.procedural import ProceduralWorld
from aerial_vpr_cl.simulation.world.terrain import WorldSettings


@pytest.fixture(scope="module")
def world():
    return ProceduralWorld(SMALL)


def test_the_same_seed_makes_the_same_world_and_another_seed_another(world):
    again, other = ProceduralWorld(SMALL), ProceduralWorld(dataclasses.replace(SMALL, seed=6))
    assert np.array_equal(world.render(Appearance()), again.render(Appearance()))
    assert (world.layers.ground != other.layers.ground).mean() > 0.3


def test_a_world_has_everything_one_sees_from_above():
    layers = ProceduralWorld(WorldSettings(seed=3, resolution_m=8)).layers
    shares = np.bincount(layers.ground.ravel(), minlength=len(Ground)) / layers.ground.size
    for kind in (Ground.FIELD, Ground.FOREST, Ground.WATER, Ground.ROAD, Ground.YARD, Ground.PAVED):
        assert shares[kind] > 0.01, kind
    assert len(layers.building_spare) > 300
    assert 0.02 < (layers.building > 0).mean() < 0.3
    assert (layers.tree_m > 0).mean() > 0.05


def test_places_of_the_world_differ_from_each_other(world):
    image = world.render(Appearance())
    cells = [image[r : r + 50, c : c + 50].astype(float) for r in range(0, 200, 50) for c in range(0, 250, 50)]
    flat = np.stack([cv2.GaussianBlur(cell, (0, 0), 2.0).ravel() for cell in cells])
    flat = (flat - flat.mean(axis=1, keepdims=True)) / flat.std(axis=1, keepdims=True)
    likeness = flat @ flat.T / flat.shape[1]
    assert (likeness - np.eye(len(cells))).max() < 0.8


@pytest.mark.parametrize("season", [season for season in SEASONS if season != "summer"])
def test_every_season_looks_different_from_summer(world, season):
    image, map_image = world.render(Appearance(season=season, hour=12)), world.render(Appearance(hour=12))
    assert image.shape == (250, 300, 3) and image.dtype == np.uint8
    assert np.abs(image.astype(int) - map_image).mean() > 8.0
    assert 40 < image.mean() < 215


def test_change_alters_the_share_of_buildings_it_says_and_its_seed_decides_which(world):
    def buildings(**options):
        day = Appearance(**options)
        scene = scene_of(world.layers, day, sun_of(day, 36.0), SMALL.resolution_m, SMALL.seed)
        return set(np.unique(scene.building)) - {0}

    then, now, elsewhere = buildings(), buildings(change=0.3), buildings(change=0.3, change_seed=1)
    drawn = np.unique(world.layers.building)[1:]
    assert then == {number for number in drawn if not world.layers.building_spare[number]}
    assert 0.15 < len(then ^ now) / len(drawn) < 0.45
    assert now - then  # something new was built, too
    assert now != elsewhere


def test_shadows_fall_away_from_the_sun():
    layers = ProceduralWorld(dataclasses.replace(SMALL, town_share=0.0, wood_share=0.0)).layers
    ground = np.full((60, 60), Ground.MEADOW, np.uint8)
    building = np.zeros((60, 60), np.int32)
    building[28:32, 28:32] = 1
    layers = dataclasses.replace(
        layers,
        ground=ground,
        parcel=np.zeros((60, 60), np.int32),
        second_half=np.zeros((60, 60), bool),
        building=building,
        tree_m=np.zeros((60, 60), np.float32),
        building_height_m=np.array([0.0, 20.0], np.float32),
        building_spare=np.zeros(2, bool),
    )
    day = Appearance(sun_azimuth_deg=90.0, sun_elevation_deg=45.0)
    shadow = scene_of(layers, day, sun_of(day, 36.0), 2.0, 1).shadow
    assert shadow[30, 20:27].mean() > 0.8  # 20 m to the west
    assert shadow[30, :16].max() < 0.05 and shadow[30, 33:].max() < 0.05 and shadow[:24].max() < 0.05


def test_the_sun_stands_in_the_south_at_noon_and_in_the_east_in_the_morning():
    noon, morning = sun_of(Appearance(hour=12), 36.0), sun_of(Appearance(hour=7), 36.0)
    assert noon.azimuth_deg == pytest.approx(180.0) and noon.elevation_deg == pytest.approx(76.4, abs=1.0)
    assert 60 < morning.azimuth_deg < 100 and morning.elevation_deg < 35
    assert not sun_of(Appearance(hour=0), 36.0).is_up


def test_a_visible_camera_at_night_is_refused(world):
    with pytest.raises(SettingsError, match=r"hour 23 in summer.*choose an hour of daylight"):
        world.render(Appearance(hour=23))


def test_water_is_warm_at_night_and_cool_by_day_and_roads_the_other_way(world):
    def mean_by_class(hour):
        day = Appearance(hour=hour)
        sun = sun_of(day, 36.0)
        scene = scene_of(world.layers, day, sun, SMALL.resolution_m, SMALL.seed)
        celsius = temperatures(world.layers, scene, day, sun, SMALL.resolution_m, SMALL.seed)
        return {kind: float(celsius[(scene.ground == kind) & (scene.tree_m == 0)].mean()) for kind in Ground}

    night, noon = mean_by_class(3), mean_by_class(14)
    assert night[Ground.WATER] > night[Ground.FIELD] + 2 and night[Ground.WATER] > night[Ground.MEADOW] + 2
    assert noon[Ground.WATER] < noon[Ground.FIELD] - 2
    assert noon[Ground.ROAD] > noon[Ground.MEADOW] + 2


def test_infrared_is_no_grey_copy_of_the_visible(world):
    infrared = world.render(Appearance(hour=22), "IR")
    grey = cv2.cvtColor(world.render(Appearance(hour=10)), cv2.COLOR_RGB2GRAY)
    assert np.array_equal(infrared[..., 0], infrared[..., 1]) and np.array_equal(infrared[..., 0], infrared[..., 2])
    assert abs(np.corrcoef(infrared[..., 0].ravel(), grey.ravel())[0, 1]) < 0.6
    by_day = world.render(Appearance(hour=14), "IR")
    assert np.corrcoef(infrared[..., 0].ravel(), by_day[..., 0].ravel())[0, 1] < 0.8
    assert infrared.std() > 25


def test_the_satellite_map_lies_where_the_world_lies(world, tmp_path):
    path = tmp_path / "maps" / "world.tif"
    world.write_map(path, Appearance())
    with rasterio.open(path) as raster:
        assert raster.crs.to_epsg() == 32650
        assert tuple(raster.bounds) == world.bounds == (804_000, 4_022_000, 805_200, 4_023_000)
        assert raster.res == (4.0, 4.0)
        assert np.array_equal(np.moveaxis(raster.read(), 0, 2), world.render(Appearance()))
