"""WGS 84 latitude and longitude to UTM easting and northing, and back."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pyproj import CRS, Transformer
from pyproj.exceptions import CRSError

from aerial_vpr_cl.errors import MapError


def utm_epsg(latitude: float, longitude: float) -> int:
    """EPSG code of the WGS 84 / UTM zone that holds a point: 326zz in the north, 327zz in the south."""
    if not -80.0 <= latitude <= 84.0:
        raise MapError(f"latitude {latitude:.3f} is outside UTM (80° S to 84° N); polar maps are not supported")
    zone = int((longitude + 180.0) // 6.0) % 60 + 1
    return (32600 if latitude >= 0.0 else 32700) + zone


class Projection:
    """Coordinates of one projected CRS in metres, normally a UTM zone; valid a good way past the zone's border."""

    def __init__(self, epsg: int) -> None:
        try:
            self.crs = CRS.from_epsg(epsg)
        except CRSError:
            raise MapError(f"EPSG:{epsg} is not a known coordinate system") from None
        if not self.crs.is_projected:
            raise MapError(f"EPSG:{epsg} ({self.crs.name}) is not projected in metres; use a UTM zone")
        self.epsg = epsg

    def to_utm(self, latitude: ArrayLike, longitude: ArrayLike) -> NDArray[np.float64]:
        """Degrees to (..., 2) easting and northing in metres; NaN stays NaN."""
        easting, northing = self._forward.transform(np.asarray(longitude, float), np.asarray(latitude, float))
        return np.stack([easting, northing], axis=-1)

    def to_wgs84(self, points: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(..., 2) easting and northing in metres to latitude and longitude in degrees."""
        points = np.asarray(points, float)
        longitude, latitude = self._backward.transform(points[..., 0], points[..., 1])
        return np.asarray(latitude), np.asarray(longitude)

    def north_deg(self, point: ArrayLike) -> float:
        """Bearing of true north at (easting, northing), clockwise from the map's north: up to 3° in a UTM zone."""
        latitude, longitude = self.to_wgs84(point)
        east, north = self.to_utm(latitude + 1e-4, longitude) - self.to_utm(latitude, longitude)
        return math.degrees(math.atan2(east, north))

    @cached_property
    def _forward(self) -> Transformer:
        return Transformer.from_crs("EPSG:4326", self.crs, always_xy=True)

    @cached_property
    def _backward(self) -> Transformer:
        return Transformer.from_crs(self.crs, "EPSG:4326", always_xy=True)
