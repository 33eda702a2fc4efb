"""The grid over a map, its virtual patches, and the map folder of a store."""

import cv2
import numpy as np
import pytest
import rasterio.shutil
from pyproj import Transformer
from synthetic_rasters import NORTH, WEST, noise_image, write_raster

from aerial_vpr_cl.cli import main
from aerial_vpr_cl.errors import MapError, SettingsError, StoreError
from aerial_vpr_cl.knowledge import map_folder
from aerial_vpr_cl.knowledge.map_folder import build_map, open_map
from aerial_vpr_cl.satellite import patches
from aerial_vpr_cl.satellite.map_file import raster_bytes
from aerial_vpr_cl.satellite.patches import PatchSettings, lay_patches
from aerial_vpr_cl.satellite.raster import SatelliteMap
from aerial_vpr_cl.settings import load_settings

SETTINGS = PatchSettings(cell_side_m=50.0, footprint_m=60.0, rotations=8, view="as_seen")


@pytest.fixture
def raster(tmp_path):
    return write_raster(tmp_path / "ground.tif", noise_image(200, 300), pixel=2.0)


def test_footprint_and_stride_follow_the_cell_unless_given():
    north_up, paper = PatchSettings(view="north_up"), PatchSettings(view="as_seen")
    assert (north_up.footprint_m, north_up.stride_m, north_up.rotations) == (300.0, 50.0, 1)
    assert (paper.footprint_m, paper.stride_m, paper.rotations) == (300.0, 100.0, 12)
    with pytest.raises(SettingsError, match="north-up"):
        PatchSettings(rotations=12, view="north_up")
    given = load_settings(PatchSettings, {"cell_side_m": 250, "footprint_m": 560, "view": "north_up"})
    assert (given.footprint_m, given.stride_m) == (560.0, 62.5)
    with pytest.raises(SettingsError, match="at most the cell side"):
        PatchSettings(cell_side_m=100.0, stride_m=120.0)


def test_labels_are_the_cells_of_the_centres_and_headings_go_round(raster):
    grid, table = lay_patches(SatelliteMap.open(raster), SETTINGS)
    cells = np.floor(table.centres / 50.0).astype(int)
    assert np.array_equal(grid.cells[table.labels], cells)
    assert set(table.labels) == set(range(grid.n_classes))
    assert np.array_equal(np.unique(table.angles_deg), np.arange(8) * 45.0)
    assert np.array_equal(np.unique(table.centres % 25.0), [12.5])


@pytest.mark.parametrize("places", [1, 7, 100])
def test_a_large_map_is_measured_strip_by_strip(tmp_path, monkeypatch, places):
    image = noise_image(200, 300)
    image[60:130, 90:240] = 0
    holed = SatelliteMap.open(write_raster(tmp_path / "holed.tif", image, pixel=2.0, nodata=0))
    grid, whole = lay_patches(holed, SETTINGS)
    monkeypatch.setattr(patches, "STRIP_PLACES", places)
    again, in_strips = lay_patches(holed, SETTINGS)
    assert again.hash == grid.hash and len(whole) < 8 * 24 * 16
    assert np.array_equal(in_strips.centres, whole.centres)
    assert np.array_equal(in_strips.angles_deg, whole.angles_deg)


def test_a_whole_map_has_every_window_that_fits(raster):
    """600 × 400 m: upright windows of 60 m reach 30 m, turned ones up to 42.4 m."""
    _, table = lay_patches(SatelliteMap.open(raster), PatchSettings(50.0, 2, 60.0, 25.0, 1, 0.0))
    inside = table.centres - [WEST, NORTH - 400]
    assert len(table) == 22 * 14
    assert inside.min(axis=0).tolist() == [37.5, 37.5]
    assert inside.max(axis=0).tolist() == [562.5, 362.5]


def test_kept_windows_are_those_with_little_no_data(tmp_path):
    image = noise_image(220, 260)
    cv2.circle(image, (130, 110), 40, (0, 0, 0), -1)
    image[:60, :90] = 0
    satellite = SatelliteMap.open(write_raster(tmp_path / "a.tif", image, pixel=2.0, nodata=0))
    settings = PatchSettings(40.0, 2, 70.0, 20.0, rotations=6, view="as_seen")
    _, table = lay_patches(satellite, settings)
    kept = {(*centre, angle) for centre, angle in zip(table.centres.tolist(), table.angles_deg.tolist())}
    east, north = np.meshgrid(np.arange(WEST + 10, WEST + 520, 20), np.arange(NORTH - 430, NORTH, 20))
    for angle in np.arange(6) * 60.0:
        centres = np.stack([east.ravel(), north.ravel()], axis=1)
        _, valid = satellite.read_patches(centres, angle, 70.0, 70)
        for centre, share in zip(centres.tolist(), valid):
            if abs(share - 0.95) > 0.015:  # two ways to measure the same share
                assert ((*centre, angle) in kept) == (share > 0.95)


def test_the_lattice_does_not_depend_on_noise_of_the_origin(tmp_path):
    """Dates of one place whose origins differ by metres share their windows, but for some at the very edge."""
    inner = []
    for number, (east, north) in enumerate([(0, 0), (1.7, -2.3), (-2.9, 0.4)]):
        path = tmp_path / f"{number}.tif"
        write_raster(path, noise_image(210, 310), west=WEST + east, north=NORTH + north, pixel=2.0)
        _, table = lay_patches(SatelliteMap.open(path), SETTINGS)
        away_from_edge = (np.abs(table.centres - [WEST + 310, NORTH - 210]) < [260, 160]).all(axis=1)
        inner.append(table.centres[away_from_edge])
    assert len(inner[0]) > 1000
    assert np.array_equal(inner[0], inner[1]) and np.array_equal(inner[0], inner[2])


def test_cells_of_a_map_in_degrees_are_right_against_pyproj(tmp_path):
    """0.03° × 0.02° at 47° N, -99.15°: corners, count and centres computed by hand from the projected outline."""
    west, north, step = -99.165, 47.03, 1e-4
    path = write_raster(tmp_path / "a.tif", noise_image(200, 300), epsg=4326, west=west, north=north, pixel=step)
    satellite = SatelliteMap.open(path)
    grid, table = lay_patches(satellite, PatchSettings(200.0, 2, 300.0, 100.0, rotations=1))
    assert grid.epsg == 32614
    to_utm = Transformer.from_crs("EPSG:4326", "EPSG:32614", always_xy=True)
    back = Transformer.from_crs("EPSG:32614", "EPSG:4326", always_xy=True)
    # By hand: lattice points (k + ½)·100 m whose 300 m window lies at least 95 % inside the outline in degrees.
    eastings, northings = to_utm.transform([west, west + 0.03] * 2, [north, north, north - 0.02, north - 0.02])
    east, up = np.meshgrid(
        np.arange(min(eastings) // 100 * 100 + 50, max(eastings), 100),
        np.arange(min(northings) // 100 * 100 + 50, max(northings), 100),
    )
    places = np.stack([east.ravel(), up.ravel()], axis=1)
    spread = np.stack(np.meshgrid(*[np.linspace(-149, 149, 50)] * 2), axis=-1).reshape(-1, 2)
    longitude, latitude = back.transform(*np.moveaxis(places[:, None] + spread, -1, 0))
    share = ((longitude > west) & (longitude < west + 0.03) & (latitude < north) & (latitude > north - 0.02)).mean(
        axis=1
    )
    assert not np.any(np.abs(share - 0.95) < 0.005)
    expected = places[share > 0.95]
    assert {tuple(centre) for centre in table.centres} == {tuple(place) for place in expected}
    cells = sorted({(int(e // 200), int(n // 200)) for e, n in expected})
    assert grid.cells.tolist() == [list(cell) for cell in cells]
    assert np.allclose(grid.centres, (np.array(cells) + 0.5) * 200.0)
    longitude, latitude = back.transform(*grid.centres[0])
    assert grid.class_of(grid.projection.to_utm(latitude, longitude)) == 0


def test_maps_that_cannot_hold_a_patch_are_refused(tmp_path, raster):
    with pytest.raises(MapError, match=r"ground\.tif: a footprint of 450 m is larger than the map of 600 × 400 m"):
        lay_patches(SatelliteMap.open(raster), PatchSettings(300.0, 2, 450.0))
    black = write_raster(tmp_path / "black.tif", np.zeros((100, 100, 3), np.uint8), nodata=0)
    with pytest.raises(MapError, match=r"black\.tif: every pixel is no-data"):
        lay_patches(SatelliteMap.open(black), PatchSettings(20.0))
    sparse = noise_image(100, 100)
    sparse[::10] = 0
    holes = write_raster(tmp_path / "holes.tif", sparse, nodata=0)
    with pytest.raises(MapError, match="larger max_nodata"):
        lay_patches(SatelliteMap.open(holes), PatchSettings(20.0))


def test_a_map_folder_opens_as_it_was_built(tmp_path, raster):
    built = build_map(raster, tmp_path / "store", SETTINGS, bands=[3, 2, 1])
    opened = open_map(tmp_path / "store")
    grid, table = lay_patches(SatelliteMap.open(raster, bands=[3, 2, 1]), SETTINGS)
    assert opened.grid.hash == built.grid.hash == grid.hash
    assert opened.settings == SETTINGS
    assert opened.satellite.bands == (3, 2, 1)
    assert np.array_equal(opened.patches.centres, table.centres)
    assert np.array_equal(opened.patches.labels, table.labels)
    assert (built.path / "map.tif").read_bytes() == raster.read_bytes()
    assert sum(path.stat().st_size for path in built.path.iterdir()) <= 1.2 * raster.stat().st_size


def test_building_the_same_map_again_changes_nothing(tmp_path, raster):
    folder = build_map(raster, tmp_path / "store", SETTINGS).path
    before = {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in folder.iterdir()}
    build_map(raster, tmp_path / "store", SETTINGS)
    assert {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in folder.iterdir()} == before


def test_another_grid_is_refused_by_both_names(tmp_path, raster):
    first = build_map(raster, tmp_path / "store", SETTINGS).grid
    other = PatchSettings(cell_side_m=40.0, footprint_m=60.0, rotations=8, view="as_seen")
    second, _ = lay_patches(SatelliteMap.open(raster), other)
    with pytest.raises(MapError, match="another store") as caught:
        build_map(raster, tmp_path / "store", other)
    assert first.hash[:12] in str(caught.value) and second.hash[:12] in str(caught.value)
    assert open_map(tmp_path / "store").grid.hash == first.hash


def test_other_rotations_are_taken_until_something_was_learnt(tmp_path, raster):
    build_map(raster, tmp_path / "store", SETTINGS)
    more = PatchSettings(cell_side_m=50.0, footprint_m=60.0, rotations=16, view="as_seen")
    assert build_map(raster, tmp_path / "store", more).settings == more
    (tmp_path / "store" / "map" / "exemplars.h5").write_bytes(b"learnt")
    with pytest.raises(MapError, match="was learnt from"):
        build_map(raster, tmp_path / "store", SETTINGS)
    assert open_map(tmp_path / "store").settings == more


def test_an_unfinished_map_is_no_map_and_is_built_again(tmp_path, raster):
    store = tmp_path / "store"
    with pytest.raises(MapError, match=r"aerial-vpr build-map RASTER --out .*store"):
        open_map(store)
    build_map(raster, store, SETTINGS)
    (store / "map" / "manifest.json").unlink()
    (store / "map" / ".tmp-0123-map.tif").write_bytes(b"half a raster")
    with pytest.raises(StoreError, match="never finished"):
        open_map(store)
    build_map(raster, store, SETTINGS)
    assert sorted(path.name for path in (store / "map").iterdir()) == ["grid.json", "manifest.json", "map.tif"]


def test_a_flipped_bit_in_the_grid_is_noticed(tmp_path, raster):
    path = build_map(raster, tmp_path / "store", SETTINGS).path / "grid.json"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r"grid\.json: damaged"):
        open_map(tmp_path / "store")
    with pytest.raises(MapError, match="build the map again"):
        build_map(raster, tmp_path / "store", SETTINGS)


def test_a_flipped_bit_in_the_raster_is_noticed_also_by_a_process_that_knew_it_whole(tmp_path, raster, monkeypatch):
    build_map(raster, tmp_path / "store", PatchSettings(cell_side_m=100.0))
    copy = tmp_path / "store" / "map" / "map.tif"
    whole = copy.read_bytes()
    open_map(tmp_path / "store")
    middle = len(whole) // 2
    copy.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    with pytest.raises(StoreError, match=r"map\.tif: damaged, its SHA-256"):
        open_map(tmp_path / "store")
    monkeypatch.setattr(map_folder, "LARGEST_HASHED_BYTES", len(whole) - 1)
    open_map(tmp_path / "store")  # a raster that takes minutes is compared by size
    copy.write_bytes(whole[:-1])
    with pytest.raises(StoreError, match=r"map\.tif: damaged, it has"):
        open_map(tmp_path / "store")


def test_a_link_costs_nothing_and_reads_the_same(tmp_path, raster):
    built = build_map(raster, tmp_path / "store", SETTINGS, link=True)
    assert (built.path / "map.tif").is_symlink()
    copied = build_map(raster, tmp_path / "copy", SETTINGS)
    assert np.array_equal(built.satellite.overview(100), copied.satellite.overview(100))


def test_side_files_travel_with_the_raster(tmp_path):
    """A raster whose mask stands beside it keeps it."""
    source = write_raster(tmp_path / "ground.tif", noise_image(200, 300), pixel=2.0)
    mask = np.ones((200, 300), bool)
    mask[:100] = False
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=False), rasterio.open(source, "r+") as file:
        file.write_mask(mask)
    assert (tmp_path / "ground.tif.msk").exists()
    built = build_map(source, tmp_path / "store", SETTINGS)
    assert (built.path / "map.tif.msk").exists()
    assert built.patches.centres[:, 1].max() < NORTH - 200


def test_a_virtual_raster_is_written_out_and_reads_the_same(tmp_path):
    deep = (noise_image(200, 300, 4).astype(np.uint16) * 37) + 100
    deep[:, :40] = 0
    write_raster(tmp_path / "deep.tif", deep, pixel=2.0, nodata=0)
    virtual = tmp_path / "deep.vrt"
    rasterio.shutil.copy(tmp_path / "deep.tif", virtual, driver="VRT")
    build_map(virtual, tmp_path / "store", SETTINGS, bands=[4, 2, 1])
    built = open_map(tmp_path / "store")
    source = SatelliteMap.open(tmp_path / "deep.tif", bands=[4, 2, 1])
    assert built.satellite.bands == (1, 2, 3)
    assert built.satellite.value_range == source.value_range
    expected = source.read_patches(built.patches.centres, built.patches.angles_deg, 60.0, 16)
    found = built.satellite.read_patches(built.patches.centres, built.patches.angles_deg, 60.0, 16)
    assert np.array_equal(found[0], expected[0]) and np.array_equal(found[1], expected[1])
    assert (built.path / "map.tif").stat().st_size <= 1.2 * raster_bytes(virtual)
    with pytest.raises(MapError, match="only a plain file can be linked"):
        build_map(virtual, tmp_path / "linked", SETTINGS, bands=[4, 2, 1], link=True)


def test_the_command_builds_draws_and_tells(tmp_path, raster, capsys):
    store = tmp_path / "store"
    assert main(["build-map", str(raster), "--out", str(store), "--cell-side-m", "50"]) == 0
    told = capsys.readouterr().out
    built = open_map(store)
    assert f"{built.grid.n_classes} cells of 50 m in 4 groups" in told
    assert f"{len(built.patches)} of 75 m" in told
    assert "EPSG:32614" in told and "0.60 × 0.40 km" in told
    picture = cv2.imread(str(store / "map" / "map.png"))
    assert picture is not None and picture.shape[1] > 800
