"""The frame `map`: small numbers, true north, and the same datum for every sortie over a store."""

import re

import numpy as np
import pytest
import store_support
from hypothesis import given
from hypothesis import strategies as st
from pyproj import Geod, Proj

from aerial_vpr_cl.commands.build_map import describe, figures_of
from aerial_vpr_cl.files import read_manifest, write_manifest
from aerial_vpr_cl.geo.datum import THE_GRID, Datum, rounded_middle
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.geo.projection import Projection, utm_epsg
from aerial_vpr_cl.knowledge.map_folder import NOT_FACTS, open_map

ELLIPSOID = Geod(ellps="WGS84")
latitudes, longitudes = st.floats(-75.0, 75.0), st.floats(-179.9, 179.9)
metres = st.floats(-20_000.0, 20_000.0)


def datum_at(latitude, longitude):
    projection = Projection(utm_epsg(latitude, longitude))
    return Datum.at(projection.to_utm(latitude, longitude), projection), projection


@given(latitudes, longitudes, st.tuples(metres, metres), st.tuples(metres, metres))
def test_the_way_into_the_frame_and_back_keeps_every_point_and_every_distance(latitude, longitude, first, second):
    datum, _ = datum_at(latitude, longitude)
    points = np.add([first, second], (datum.easting_m, datum.northing_m))
    there = datum.to_map(points)
    assert np.abs(datum.to_grid(there) - points).max() < 1e-6
    assert np.linalg.norm(there[0] - there[1]) == pytest.approx(np.linalg.norm(points[0] - points[1]), abs=1e-6)


@given(latitudes, longitudes, st.floats(0.0, 360.0), st.floats(10.0, 1000.0))
def test_bearings_in_the_frame_are_those_of_the_earth(latitude, longitude, azimuth, distance):
    """Against geodesics on the ellipsoid: north is true north, and metres are within 0.1 % of the ground's."""
    datum, projection = datum_at(latitude, longitude)
    east, north, _ = ELLIPSOID.fwd(longitude, latitude, azimuth, distance)
    x, y = datum.to_map(projection.to_utm(north, east))
    off_deg = (np.degrees(np.arctan2(x, y)) - azimuth + 180.0) % 360.0 - 180.0
    assert abs(off_deg) < 0.01
    assert np.hypot(x, y) == pytest.approx(distance, rel=1.1e-3)


@given(latitudes, longitudes)
def test_the_turn_is_the_meridian_convergence(latitude, longitude):
    datum, projection = datum_at(latitude, longitude)
    proj = Proj(projection.crs)
    assert datum.north_deg == pytest.approx(-proj.get_factors(longitude, latitude).meridian_convergence, abs=1e-4)
    from_meridian = np.radians((longitude + 180.0) % 6.0 - 3.0)
    closed_form = np.degrees(np.arctan(np.tan(from_meridian) * np.sin(np.radians(latitude))))
    assert datum.north_deg == pytest.approx(-closed_form, abs=0.01)  # of a sphere


@given(latitudes, longitudes, st.floats(1.0, 100.0), st.floats(1.0, 100.0), st.floats(-0.9, 0.9))
def test_a_covariance_turns_with_the_frame(latitude, longitude, east, north, correlation):
    datum, _ = datum_at(latitude, longitude)
    covariance = np.array([[east**2, correlation * east * north], [correlation * east * north, north**2]])
    turned = datum.covariance_to_map(covariance)
    step = np.array([30.0, -20.0])
    moved = datum.to_map(step) - datum.to_map([0.0, 0.0])
    assert moved @ np.linalg.solve(turned, moved) == pytest.approx(step @ np.linalg.solve(covariance, step), rel=1e-6)
    np.testing.assert_allclose(datum.covariance_to_grid(turned), covariance, rtol=1e-9, atol=1e-6)


@given(st.integers(-500, 500), st.integers(1, 400), st.integers(1, 400))
def test_the_datum_of_a_map_is_round_and_near_its_middle(corner, across, up):
    cells = np.array([(3000 + corner + i, 23_000 + j) for i in (0, across) for j in (0, up)])
    grid = Grid(32633, 200.0, 2, np.unique(cells, axis=0))
    datum = np.array(rounded_middle(grid))
    assert (datum % 100.0 == 0.0).all()
    assert np.abs(datum - grid.middle).max() <= 50.0


def test_every_sortie_over_a_store_shares_its_datum_also_over_an_older_one(tmp_path):
    store = store_support.make_map(tmp_path)
    built, manifest = open_map(store), read_manifest(store / "map")
    assert manifest["datum"] == [built.datum.easting_m, built.datum.northing_m] == list(rounded_middle(built.grid))
    facts = {name: value for name, value in manifest.items() if name not in (*NOT_FACTS, "datum")}
    write_manifest(built.path, manifest["files"], datum=[500_000.0, 4_000_000.0], **facts)
    assert open_map(store).datum == Datum.at((500_000.0, 4_000_000.0), built.grid.projection)  # what is noted counts
    write_manifest(built.path, manifest["files"], **facts)
    assert open_map(store).datum == built.datum
    store_support.make_map(tmp_path)  # building the map of an older store again is no change
    assert open_map(store).datum == built.datum


def test_build_map_prints_the_datum_as_robot_localization_takes_it(tmp_path):
    built = open_map(store_support.make_map(tmp_path))
    degrees = re.search(r"^datum +(\S+), (\S+):", describe(figures_of(built, 0)), re.MULTILINE)
    point = built.grid.projection.to_utm(float(degrees[1]), float(degrees[2]))
    assert point == pytest.approx([built.datum.easting_m, built.datum.northing_m], abs=0.05)


def test_a_frame_that_is_the_grid_changes_nothing():
    point = np.array([512_345.6, 5_123_456.7])
    assert THE_GRID.to_map(point).tolist() == THE_GRID.to_grid(point).tolist() == point.tolist()
