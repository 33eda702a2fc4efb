"""Rasters of every kind are read as patches at the right place, heading and scale."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import rasterio
from hypothesis import given, settings
from hypothesis import strategies as st
from pyproj import Transformer
from rasterio.enums import ColorInterp
from rasterio.transform import Affine
from synthetic_rasters import NORTH, WEST, noise_image, position_image, write_raster

from aerial_vpr_cl.errors import MapError
from aerial_vpr_cl.satellite.pyramid import halve
from aerial_vpr_cl.satellite.raster import SatelliteMap


def patch(satellite, east, north, angle=0.0, footprint=20.0, size=20):
    """One patch, placed by metres from the raster's north-west corner (south is negative)."""
    images, valid = satellite.read_patches([[WEST + east, NORTH + north]], angle, footprint, size)
    return images[0], valid[0]


@pytest.fixture(scope="module")
def position_map(tmp_path_factory):
    return SatelliteMap.open(write_raster(tmp_path_factory.mktemp("maps") / "position.tif", position_image(240, 250)))


def test_a_patch_with_heading_north_is_the_raster_itself(tmp_path):
    image = noise_image(100, 120)
    satellite = SatelliteMap.open(write_raster(tmp_path / "a.tif", image))
    found, valid = patch(satellite, 50, -40)
    assert np.array_equal(found, image[30:50, 40:60])
    assert valid == 1.0


@pytest.mark.parametrize(("heading", "quarter_turns"), [(90, 1), (180, 2), (270, 3), (-90, 3), (360, 0)])
def test_the_top_of_a_patch_points_along_its_heading(tmp_path, heading, quarter_turns):
    image = noise_image(100, 120)
    satellite = SatelliteMap.open(write_raster(tmp_path / "a.tif", image))
    found, _ = patch(satellite, 50, -40, heading)
    assert np.abs(found.astype(int) - np.rot90(image[30:50, 40:60], quarter_turns)).max() <= 8  # cv2 rounds to 1/32 px


@settings(max_examples=60, deadline=None)
@given(
    st.floats(80, 170), st.floats(80, 160), st.floats(-400, 400), st.floats(10, 100), st.sampled_from([8, 17, 32, 64])
)
def test_every_pixel_of_a_patch_shows_its_own_place(position_map, column, row, heading, footprint, size):
    found, valid = patch(position_map, column, -row, heading, footprint, size)
    steps = (np.arange(size) - (size - 1) / 2) * footprint / size
    right, up = np.meshgrid(steps, -steps)
    angle = np.radians(heading)
    east = column + right * np.cos(angle) + up * np.sin(angle)
    south = row - (up * np.cos(angle) - right * np.sin(angle))
    assert np.abs(found[..., 0] - (east - 0.5)).max() <= 1.6
    assert np.abs(found[..., 1] - (south - 0.5)).max() <= 1.6
    assert valid == 1.0


def test_pixels_need_not_be_square(tmp_path):
    image = position_image(100, 200)
    satellite = SatelliteMap.open(write_raster(tmp_path / "a.tif", image, pixel=(1.0, 2.0)))
    found, _ = patch(satellite, 100, -100, 0.0, 40.0, 40)
    assert np.abs(found[20, :, 0] - np.arange(80, 120)).max() <= 1
    assert np.abs(found[:, 20, 1] - np.arange(80, 120) / 2).max() <= 1


def test_shrinking_a_checkerboard_gives_even_grey(tmp_path):
    board = (np.indices((512, 512)).sum(axis=0) % 2 * 255).astype(np.uint8)
    satellite = SatelliteMap.open(write_raster(tmp_path / "a.tif", board))
    for heading in (0, 30, 45):
        found, _ = patch(satellite, 256, -256, heading, 256, 40)
        assert found.min() >= 120 and found.max() <= 136


def test_halving_ignores_no_data_in_colours_and_counts_it_in_alpha():
    rgba = np.zeros((3, 2, 4), np.uint8)
    rgba[0, 0] = (100, 50, 10, 255)
    rgba[1, 1] = (200, 150, 30, 255)
    half = halve(rgba)
    assert half.shape == (2, 1, 4)
    assert half[0, 0].tolist() == [150, 100, 20, 128]
    assert half[1, 0].tolist() == [0, 0, 0, 0]


# Overviews of a file know only whole no-data pixels: along a hole their colours differ from those of our halvings.
@pytest.mark.parametrize(("overviews", "hole"), [((), True), ((2, 4), False)])
@pytest.mark.parametrize("budget_mb", [0, 1])
def test_patches_from_disk_equal_patches_from_memory(tmp_path, budget_mb, overviews, hole):
    rng = np.random.default_rng(1)
    image = noise_image(700, 900)
    if hole:
        image[200:330, 300:555] = 0
    path = write_raster(tmp_path / "a.tif", image, nodata=0, overviews=overviews)
    centres = rng.uniform((WEST, NORTH - 700), (WEST + 900, NORTH), (60, 2))
    angles, footprints = rng.uniform(0, 360, 60), rng.uniform(20, 600, 60)
    memory, disk = SatelliteMap.open(path), SatelliteMap.open(path, memory_budget_mb=budget_mb)
    assert memory._pyramid.first_in_memory == 0 < disk._pyramid.first_in_memory
    for size in (16, 64):
        expected, expected_valid = memory.read_patches(centres, angles, footprints, size)
        found, valid = disk.read_patches(centres, angles, footprints, size)
        assert np.abs(found.astype(int) - expected).max() <= 3
        assert np.abs(valid - expected_valid).max() < 0.01
    assert np.abs(disk.overview(100).astype(int) - memory.overview(100)).max() <= 3


def test_threads_may_read_from_disk_at_once(tmp_path):
    path = write_raster(tmp_path / "a.tif", noise_image(300, 300))
    satellite = SatelliteMap.open(path, memory_budget_mb=0)
    centres = np.random.default_rng(0).uniform((WEST + 50, NORTH - 250), (WEST + 250, NORTH - 50), (40, 2))
    expected, _ = satellite.read_patches(centres, 20.0, 60.0, 32)
    barrier = threading.Barrier(4)

    def read(_):
        barrier.wait()
        return satellite.read_patches(centres, 20.0, 60.0, 32)[0]

    with ThreadPoolExecutor(4) as pool:
        assert all(np.array_equal(found, expected) for found in pool.map(read, range(4)))


def test_a_patch_past_the_edge_is_black_there_and_says_so(tmp_path):
    satellite = SatelliteMap.open(write_raster(tmp_path / "a.tif", noise_image(100, 100)))
    found, valid = patch(satellite, 0, -50)
    assert valid == pytest.approx(0.5, abs=0.03)
    assert not found[:, :9].any() and found[:, 11:].all()
    _, valid = patch(satellite, -500, 900)
    assert valid == 0.0


@pytest.mark.parametrize("heading", [0.0, 27.0])
def test_the_colour_of_no_data_makes_no_edges(tmp_path, heading):
    """Beside a hole, and beside the map's border, ground keeps its own colour however it is resampled."""
    image = np.full((100, 100, 3), (90, 140, 200), np.uint8)
    image[30:50, 40:60] = 0
    satellite = SatelliteMap.open(write_raster(tmp_path / "a.tif", image, nodata=0))
    found, valid = patch(satellite, 30.3, -40.7, heading, footprint=80.0, size=64)
    assert 0.5 < valid < 0.9
    partly = found[(found > 0).any(axis=-1)]
    assert np.abs(partly.astype(int) - (90, 140, 200)).max() <= 3
    area = satellite.read_area(WEST - 5.4, NORTH + 4.8, 1.3, (90, 90))
    assert np.abs(area[area[..., 3] >= 8][:, :3].astype(int) - (90, 140, 200)).max() <= 8


FOUR_BANDS = (ColorInterp.red, ColorInterp.green, ColorInterp.blue, ColorInterp.undefined)


@pytest.mark.parametrize(
    "kind", ["value", "mask", "alpha", "nan", "value of four bands", "of 16 bits", "alpha of five bands", "float value"]
)
def test_no_data_is_honoured_however_it_is_said(tmp_path, kind):
    image = noise_image(100, 100)
    hole = np.zeros((100, 100), bool)
    hole[:, 50:] = True
    path = tmp_path / "a.tif"
    if kind == "value":
        image[hole] = 0
        write_raster(path, image, nodata=0)
    elif kind == "mask":
        write_raster(path, image, mask=~hole)
    elif kind == "alpha":
        image = np.dstack([image, np.where(hole, 0, 255).astype(np.uint8)])
        colours = (ColorInterp.red, ColorInterp.green, ColorInterp.blue, ColorInterp.alpha)
        write_raster(path, image, colours=colours)
    elif kind in ("value of four bands", "of 16 bits"):  # red, green, blue, near infrared
        image = np.dstack([image, image[..., 0]]).astype(np.uint16 if kind == "of 16 bits" else np.uint8)
        image[hole] = 0
        write_raster(path, image, nodata=0, colours=FOUR_BANDS)
    elif kind == "alpha of five bands":
        image = np.dstack([image, image[..., 0], np.where(hole, 0, 255).astype(np.uint8)])
        write_raster(path, image, colours=(*FOUR_BANDS, ColorInterp.alpha))
    elif kind == "float value":
        write_raster(path, np.where(hole[..., None], -9999.0, image).astype(np.float32), nodata=-9999.0)
    else:
        write_raster(path, np.where(hole[..., None], np.nan, image).astype(np.float32))
    for epsg, tolerance in ((None, 0.03), (32615, 0.06)):  # as it is, and reprojected
        satellite = SatelliteMap.open(path, epsg=epsg)
        middle = satellite.projection.to_utm(*SatelliteMap.open(path).projection.to_wgs84([WEST + 50, NORTH - 50]))
        _, valid = satellite.read_patches(middle, 0.0, 30.0, 32)
        assert valid[0] == pytest.approx(0.5, abs=tolerance)


def test_a_black_pixel_in_one_band_is_not_no_data(tmp_path):
    image = noise_image(60, 60)
    image[..., 0] = 0
    _, valid = patch(SatelliteMap.open(write_raster(tmp_path / "a.tif", image, nodata=0)), 30, -30)
    assert valid == 1.0


def test_bands_follow_their_colour_interpretation(tmp_path):
    image = noise_image(60, 60, 4)
    colours = (ColorInterp.undefined, ColorInterp.blue, ColorInterp.green, ColorInterp.red)
    satellite = SatelliteMap.open(write_raster(tmp_path / "a.tif", image, colours=colours))
    assert satellite.bands == (4, 3, 2)
    assert np.array_equal(patch(satellite, 30, -30)[0], image[20:40, 20:40, [3, 2, 1]])


def test_without_colour_interpretation_the_first_three_bands_are_taken(tmp_path):
    colours = (ColorInterp.gray, ColorInterp.undefined, ColorInterp.undefined, ColorInterp.undefined)
    assert SatelliteMap.open(write_raster(tmp_path / "a.tif", noise_image(60, 60, 4), colours=colours)).bands == (
        1,
        2,
        3,
    )


def test_one_band_becomes_grey_and_bands_can_be_chosen(tmp_path):
    image = noise_image(60, 60, 4)
    grey = SatelliteMap.open(write_raster(tmp_path / "grey.tif", image[..., 0]))
    assert np.array_equal(patch(grey, 30, -30)[0], image[20:40, 20:40, [0, 0, 0]])
    path = write_raster(tmp_path / "four.tif", image)
    infrared = SatelliteMap.open(path, bands=[4])
    assert np.array_equal(patch(infrared, 30, -30)[0], image[20:40, 20:40, [3, 3, 3]])


def test_sixteen_bits_are_stretched_between_their_percentiles(tmp_path):
    ramp = np.tile(np.linspace(1000, 3000, 400), (200, 1)).astype(np.uint16)
    ramp[0, :8] = 65535  # a few hot pixels do not darken the map
    satellite = SatelliteMap.open(write_raster(tmp_path / "a.tif", ramp))
    (low, high), *_ = satellite.value_range
    assert low == pytest.approx(1040, abs=10) and high == pytest.approx(2960, abs=10)
    found, _ = patch(satellite, 200, -100, 0.0, 100.0, 100)
    assert found[50, :, 0].astype(int) == pytest.approx((ramp[100, 150:250] - low) / (high - low) * 255, abs=2)


def test_a_raster_in_a_utm_zone_keeps_its_crs_and_its_pixels(tmp_path):
    satellite = SatelliteMap.open(write_raster(tmp_path / "a.tif", noise_image(50, 80), epsg=26914, pixel=5.0))
    assert satellite.epsg == 26914
    assert satellite.bounds == (WEST, NORTH - 250, WEST + 400, NORTH)
    assert satellite.resolution_m == 5.0


@pytest.mark.parametrize(
    ("longitude", "latitude", "epsg"),
    [(-99.15, 47.02, 32614), (5.99, 50.0, 32631), (6.005, 50.0, 32632), (18.4, -33.9, 32734), (-179.99, 0.01, 32601)],
)
def test_degrees_are_reprojected_to_the_utm_zone_of_the_centre(tmp_path, longitude, latitude, epsg):
    """A marked spot is found where pyproj says it is, also in maps across a zone border and in the south."""
    image = np.full((400, 400, 3), 60, np.uint8)
    image[148:152, 298:302] = 250
    step = 2e-5
    west, north = longitude - 200 * step, latitude + 200 * step
    satellite = SatelliteMap.open(
        write_raster(tmp_path / "a.tif", image, epsg=4326, west=west, north=north, pixel=step)
    )
    assert satellite.epsg == epsg
    to_utm = Transformer.from_crs(4326, epsg, always_xy=True)
    spot = to_utm.transform(west + 300 * step, north - 150 * step)
    found, valid = satellite.read_patches([spot], 0.0, 60.0, 61)
    rows, columns = np.nonzero(found[0, ..., 0] > 200)
    assert valid[0] > 0.999
    assert rows.mean() == pytest.approx(30, abs=1.2) and columns.mean() == pytest.approx(30, abs=1.2)


def test_rotated_rasters_are_turned_north_up(tmp_path):
    path = write_raster(tmp_path / "a.tif", position_image(200, 200))
    cos, sin = np.cos(np.radians(30)), np.sin(np.radians(30))
    turned = Affine(cos, -sin, WEST, -sin, -cos, NORTH)
    with rasterio.open(path, "r+") as file:
        file.transform = turned
    satellite = SatelliteMap.open(path)
    centre = (WEST + 100 * cos - 80 * sin, NORTH - 100 * sin - 80 * cos)
    found, valid = satellite.read_patches([centre], 0.0, 3.0, 3)
    assert valid[0] == 1.0
    assert found[0, 1, 1, :2].astype(int) == pytest.approx([99.5, 79.5], abs=1.5)


def test_the_overview_shows_the_whole_map_in_its_proportions(tmp_path):
    satellite = SatelliteMap.open(write_raster(tmp_path / "a.tif", position_image(120, 240)))
    assert satellite.overview(60).shape == (30, 60, 3)
    assert satellite.overview(480).shape == (240, 480, 3)
    assert satellite.overview(60)[0, -1, 0] > 230


def test_unusable_rasters_are_refused_with_the_file_and_the_remedy(tmp_path):
    empty, words = tmp_path / "empty.tif", tmp_path / "words.tif"
    empty.touch()
    words.write_text("not imagery")
    image = noise_image(20, 20)
    no_crs = write_raster(tmp_path / "no_crs.tif", image, epsg=None)
    nowhere = write_raster(tmp_path / "nowhere.tif", image)
    with rasterio.open(nowhere, "r+") as file:
        file.transform = Affine.identity()
    palette = write_raster(tmp_path / "palette.tif", image[..., 0], colours=(ColorInterp.palette,))
    dark = write_raster(tmp_path / "dark.tif", np.zeros((20, 20), np.uint16), nodata=0)
    cases = {
        tmp_path / "missing.tif": "no such file",
        empty: "0 bytes",
        words: "not a raster",
        no_crs: "gdal_edit.py -a_srs",
        nowhere: "no position",
        palette: "-expand rgb",
        dark: "every pixel is no-data",
    }
    for path, remedy in cases.items():
        with pytest.raises(MapError, match=remedy) as caught:
            SatelliteMap.open(path)
        assert str(path) in str(caught.value)


def test_unknown_bands_and_systems_are_refused(tmp_path):
    path = write_raster(tmp_path / "a.tif", noise_image(20, 20))
    with pytest.raises(MapError, match="no band 4; it has bands 1 to 3"):
        SatelliteMap.open(path, bands=[4])
    with pytest.raises(MapError, match="give one"):
        SatelliteMap.open(path, bands=[1, 2])
    with pytest.raises(MapError, match="not projected"):
        SatelliteMap.open(path, epsg=4326)
    with pytest.raises(MapError, match="not in metres"):
        SatelliteMap.open(path, epsg=2263)


def test_a_damaged_raster_is_named_when_it_is_read(tmp_path):
    path = write_raster(tmp_path / "a.tif", noise_image(400, 400))
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 4000] = bytes(4000)
    path.write_bytes(data)
    satellite = SatelliteMap.open(path)
    with pytest.raises(MapError, match=r"a\.tif: damaged"):
        satellite.overview(100)
