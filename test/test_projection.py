"""WGS 84 to UTM and back, anywhere UTM is defined."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyproj import Proj

from aerial_vpr_cl.errors import MapError
from aerial_vpr_cl.geo.projection import Projection, utm_epsg

latitudes = st.floats(-79.9, 83.9)
longitudes = st.floats(-180.0, 179.999)


@given(latitudes, longitudes)
def test_the_way_there_and_back_is_the_same_to_a_millimetre(latitude, longitude):
    projection = Projection(utm_epsg(latitude, longitude))
    point = projection.to_utm(latitude, longitude)
    again = projection.to_utm(*projection.to_wgs84(point))
    assert np.abs(again - point).max() < 1e-3


@given(latitudes, longitudes)
def test_utm_agrees_with_proj_itself(latitude, longitude):
    epsg = utm_epsg(latitude, longitude)
    by_hand = Proj(proj="utm", zone=epsg % 100, south=epsg // 100 == 327, ellps="WGS84")(longitude, latitude)
    assert np.abs(Projection(epsg).to_utm(latitude, longitude) - by_hand).max() < 1e-3


@pytest.mark.parametrize(
    ("latitude", "longitude", "epsg"),
    [(36.3, 120.4, 32651), (36.3, 119.99, 32650), (-33.9, 18.4, 32734), (47.3, -99.1, 32614), (0.0, -180.0, 32601)],
)
def test_known_places_fall_into_their_zone(latitude, longitude, epsg):
    assert utm_epsg(latitude, longitude) == epsg


def test_a_point_across_the_zone_border_keeps_the_zone_of_the_map():
    projection = Projection(32650)
    latitude, longitude = projection.to_wgs84(projection.to_utm(36.3, 120.3))
    assert (latitude, longitude) == pytest.approx((36.3, 120.3), abs=1e-8)


def test_nan_and_arrays_pass_through():
    points = Projection(32650).to_utm([36.0, np.nan], [117.0, 117.0])
    assert points.shape == (2, 2)
    assert points[0, 0] == pytest.approx(500_000.0, abs=1e-3)
    assert not np.isfinite(points[1]).any()


def test_the_poles_and_unknown_systems_are_refused_with_words():
    with pytest.raises(MapError, match="polar"):
        utm_epsg(89.0, 10.0)
    with pytest.raises(MapError, match="99999"):
        Projection(99999)
    with pytest.raises(MapError, match="not projected"):
        Projection(4326)


def test_true_north_lies_west_of_the_maps_north_east_of_the_meridian_and_the_other_way_round():
    zone = Projection(32632)  # around 9° E
    for longitude, expected in [
        (9.0, 0.0),
        (11.5, -2.5 * np.sin(np.radians(48.0))),
        (6.5, 2.5 * np.sin(np.radians(48))),
    ]:
        assert zone.north_deg(zone.to_utm(48.0, longitude)) == pytest.approx(expected, abs=0.01)
