"""The map's orientation channel is kept beside the map, and what is kept equals what is made."""

import logging

import numpy as np
import pytest
from registration_support import PIXEL_M, look_down, painted_ground
from synthetic_rasters import NORTH, WEST, write_raster

from aerial_vpr_cl.errors import MapError
from aerial_vpr_cl.knowledge.map_dates import add_dates
from aerial_vpr_cl.knowledge.map_folder import build_map, open_map
from aerial_vpr_cl.localization import match_fit
from aerial_vpr_cl.localization.map_orientation import TILE_PX, MapOrientation
from aerial_vpr_cl.localization.open_tracker import registering
from aerial_vpr_cl.localization.orientation_file import ORIENTATION_FILE, open_orientation
from aerial_vpr_cl.satellite.patches import PatchSettings
from aerial_vpr_cl.satellite.raster import SatelliteMap
from aerial_vpr_cl.satellite.raster_source import RasterSource

SETTINGS = PatchSettings(cell_side_m=200.0, rotations=1)


@pytest.fixture(autouse=True)
def a_rough_fit_is_enough(monkeypatch):
    monkeypatch.setattr(match_fit, "CROPS", 12)


@pytest.fixture
def store(tmp_path):
    build_map(write_raster(tmp_path / "a.tif", painted_ground(), pixel=PIXEL_M), tmp_path / "store", SETTINGS)
    return tmp_path / "store"


def whole(level):
    return level.window(-3, -3, level.height + 6, level.width + 6)


def test_the_kept_channel_equals_the_made_one(store):
    first, again = open_orientation(open_map(store)), open_orientation(open_map(store))
    made = MapOrientation.of([open_map(store).satellite])
    assert [level.step_m for level in again.levels] == [level.step_m for level in made.levels] == [10.0, 5.0]
    for kept, fresh, fitted in zip(again.levels, made.levels, first.levels):
        assert np.array_equal(whole(kept).planes, whole(fresh).planes)
        assert np.array_equal(whole(kept).known, whole(fresh).known)
        assert np.allclose(kept.covariance, fresh.covariance, rtol=2e-3, atol=1e-4)
        assert kept.likelihood == fitted.likelihood


def test_a_channel_of_another_map_or_a_damaged_one_is_made_again(store, tmp_path, caplog):
    first = open_orientation(open_map(store))
    other = write_raster(tmp_path / "b.tif", painted_ground(seed=7), pixel=PIXEL_M)
    build_map(other, store, SETTINGS)  # nothing was learnt yet, so the raster may be replaced
    second = open_orientation(open_map(store))
    assert not np.array_equal(whole(first.levels[1]).planes, whole(second.levels[1]).planes)
    path = store / "map" / ORIENTATION_FILE
    path.write_bytes(path.read_bytes()[:3000])
    with caplog.at_level(logging.WARNING):
        third = open_orientation(open_map(store))
    assert "damaged" in caplog.text
    assert np.array_equal(whole(third.levels[0]).planes, whole(second.levels[0]).planes)


def test_a_store_that_cannot_be_written_still_has_a_channel(store, caplog):
    path = store / "map" / ORIENTATION_FILE
    path.mkdir()  # cannot be replaced by a file, whoever runs this
    with caplog.at_level(logging.WARNING):
        channel = open_orientation(open_map(store))
    assert "made again at every start" in caplog.text
    assert whole(channel.levels[0]).known.any()


def test_tiles_meet_without_a_seam_and_few_are_held(tmp_path):
    """A map of many tiles, at their joints: the same as one tile laid across."""
    image = np.tile(painted_ground(), (4, 3, 1))
    satellite = SatelliteMap.open(write_raster(tmp_path / "a.tif", image, pixel=PIXEL_M))
    level = MapOrientation.of([satellite]).levels[1]
    assert level.tiles == (3, 3)
    across = level.window(TILE_PX - 40, TILE_PX - 40, 80, 80)
    # The ground repeats every 340 × 420 pixels, so the same window lies there again inside a tile.
    inside = level.window(TILE_PX - 40 - 340, TILE_PX - 40 - 420, 80, 80)
    assert np.allclose(across.planes, inside.planes, atol=0.021)


def test_a_map_takes_other_dates_at_any_time_and_looks_at_all_of_them(store, tmp_path):
    before = open_orientation(open_map(store))
    later = painted_ground()
    later[50:120, 60:200] = 90
    (tmp_path / "later").mkdir()
    path = write_raster(tmp_path / "later" / "a.tif", later[:300], pixel=PIXEL_M)
    for _ in range(2):  # giving it again changes nothing
        folder = add_dates(store, [path])
        assert [date.file for date in folder.facts.dates] == ["map.date2.tif"]
    expected = MapOrientation.of([folder.satellite, SatelliteMap.open(path)])
    after = open_orientation(folder)
    assert np.array_equal(whole(after.levels[0]).planes, whole(expected.levels[0]).planes)
    assert not np.array_equal(whole(after.levels[0]).planes, whole(before.levels[0]).planes)
    assert whole(after.levels[0]).known.sum() == whole(before.levels[0]).known.sum()
    build_map(tmp_path / "a.tif", store, SETTINGS)  # the map is still the same map
    assert len(open_map(store).dates) == 2


def test_a_raster_of_other_ground_is_no_date_of_the_map(store, tmp_path):
    path = write_raster(tmp_path / "b.tif", painted_ground(), pixel=PIXEL_M, west=WEST + 2000.0)
    with pytest.raises(MapError, match=r"b\.tif: shows 5% of the map only"):
        add_dates(store, [path])
    assert open_map(store).facts.dates == ()


def test_the_mean_of_two_dates_keeps_what_both_show(tmp_path):
    """Edges that only one date has fade to half; what one date does not know is taken from the other."""
    one = painted_ground()
    two = one.copy()
    two[100:160, 100:160] = 120  # a wood that was felled, say
    two[200:300, 200:300] = 0
    dates = [
        SatelliteMap.open(write_raster(tmp_path / f"{n}.tif", image, pixel=PIXEL_M, nodata=0))
        for n, image in enumerate([one, two])
    ]
    alone, both = (MapOrientation.of(rasters).levels[1] for rasters in (dates[:1], dates))
    felled = [np.abs(level.window(110, 110, 40, 40).planes).mean() for level in (alone, both)]
    assert felled[1] == pytest.approx(felled[0] / 2, rel=0.05)
    assert np.allclose(alone.window(210, 210, 80, 80).planes, both.window(210, 210, 80, 80).planes, atol=0.011)
    assert both.window(200, 200, 100, 100).known.all()


def test_a_track_reads_the_ground_beneath_it_and_not_the_whole_raster(tmp_path, monkeypatch):
    raster = write_raster(tmp_path / "wide.tif", np.tile(painted_ground(), (5, 5, 1)), pixel=PIXEL_M)
    open_orientation(build_map(raster, tmp_path / "store", SETTINGS))
    folder, read, pixels = open_map(tmp_path / "store"), RasterSource.read, []

    def watched(self, factor, rows, columns):
        pixels.append((rows[1] - rows[0]) * (columns[1] - columns[0]))
        return read(self, factor, rows, columns)

    monkeypatch.setattr(RasterSource, "read", watched)
    place = np.array([WEST + 700.0, NORTH - 700.0])
    view = look_down(SatelliteMap.open(raster, memory_budget_mb=0), place)
    pixels.clear()
    near = (place[0] - 100.0, place[1] - 100.0, place[0] + 100.0, place[1] + 100.0)
    peak = registering(folder)(view, [near]).peak
    assert np.hypot(*(peak.position - place)) < 10.0
    assert 0 < sum(pixels) < folder.satellite.geometry.width * folder.satellite.geometry.height / 4
