"""The map as the ground of a viewer: a textured plane, coloured points, and the grid's lines."""

from __future__ import annotations

import math

import numpy as np
from geometry_msgs.msg import Point
from numpy.typing import ArrayLike, NDArray
from sensor_msgs.msg import PointCloud2, PointField
from std_msgs.msg import ColorRGBA, Header
from visualization_msgs.msg import Marker, UVCoordinate

from aerial_vpr_cl.geo.datum import Datum
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.images import encode_jpeg
from aerial_vpr_cl.satellite.raster import SatelliteMap

JPEG_QUALITY = 85
GROUND_Z, LINES_Z = -1.0, -0.5
"""The ground lies a little below everything that is drawn on it."""
MOST_CELLS = 5000
"""Lines around more cells than this would hide the ground."""
LINE_WIDTH_M = 1.0
_POINT = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("rgb", "<u4")])


def plane_message(header: Header, satellite: SatelliteMap, datum: Datum, side_px: int) -> Marker:
    """Two triangles with the map's picture on them, at most `side_px` a side: RViz shows it, Foxglove does not."""
    west, south, east, north = satellite.bounds
    rgba, _ = _picture(satellite, side_px)
    marker = Marker(header=header, ns="ground", type=Marker.TRIANGLE_LIST, action=Marker.ADD)
    marker.pose.orientation.w = marker.scale.x = marker.scale.y = marker.scale.z = 1.0
    marker.color = ColorRGBA(r=1.0, g=1.0, b=1.0, a=1.0)
    corners = {
        (0.0, 0.0): (west, north),
        (0.0, 1.0): (west, south),
        (1.0, 1.0): (east, south),
        (1.0, 0.0): (east, north),
    }
    for u, v in [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.0, 0.0), (1.0, 1.0), (1.0, 0.0)]:
        marker.points.append(point_message(datum.to_map(corners[u, v]), GROUND_Z))
        marker.uv_coordinates.append(UVCoordinate(u=u, v=v))
    marker.texture_resource = "embedded://ground"
    marker.texture.header, marker.texture.format = header, "jpg"
    marker.texture.data = encode_jpeg(np.ascontiguousarray(rgba[..., :3]), JPEG_QUALITY)
    return marker


def points_message(header: Header, satellite: SatelliteMap, datum: Datum, side: int) -> PointCloud2:
    """The map as at most `side` × `side` coloured points, which every viewer shows."""
    rgba, pixel_m = _picture(satellite, side)
    west, _, _, north = satellite.bounds
    rows, columns = np.nonzero(rgba[..., 3])
    centres = np.stack([west + (columns + 0.5) * pixel_m, north - (rows + 0.5) * pixel_m], axis=1)
    cloud = np.zeros(len(rows), _POINT)
    cloud["x"], cloud["y"] = datum.to_map(centres).T
    cloud["z"] = GROUND_Z
    red, green, blue = rgba[rows, columns, :3].astype(np.uint32).T
    cloud["rgb"] = red << 16 | green << 8 | blue
    message = PointCloud2(header=header, height=1, width=len(cloud), is_dense=True)
    message.fields = [
        PointField(name=name, offset=4 * index, datatype=PointField.FLOAT32, count=1)
        for index, name in enumerate(_POINT.names or ())
    ]
    message.point_step, message.row_step, message.data = _POINT.itemsize, cloud.nbytes, cloud.tobytes()
    return message


def grid_message(header: Header, grid: Grid, datum: Datum) -> Marker:
    """The borders of all cells; of a grid of too many the border around them all."""
    marker = Marker(header=header, ns="grid", type=Marker.LINE_LIST, action=Marker.ADD)
    marker.pose.orientation.w = 1.0
    marker.scale.x = LINE_WIDTH_M
    marker.color = ColorRGBA(r=1.0, g=1.0, b=1.0, a=0.35)
    marker.points = [point_message(end, LINES_Z) for end in datum.to_map(_borders(grid)).reshape(-1, 2)]
    return marker


def point_message(position: ArrayLike, z: float = 0.0) -> Point:
    """x and y of `map`, at a height."""
    x, y = np.asarray(position, np.float64)
    return Point(x=float(x), y=float(y), z=z)


def _picture(satellite: SatelliteMap, side_px: int) -> tuple[NDArray[np.uint8], float]:
    """North-up RGBA of the whole map, no finer than the raster, and the side of a pixel in metres."""
    width_m, height_m = satellite.size_m
    pixel_m = max(max(width_m, height_m) / side_px, satellite.resolution_m)
    shape = (math.ceil(height_m / pixel_m - 1e-6), math.ceil(width_m / pixel_m - 1e-6))
    west, _, _, north = satellite.bounds
    return satellite.read_area(west, north, pixel_m, shape), pixel_m


def _borders(grid: Grid) -> NDArray[np.float64]:
    """(n, 2, 2) ends of lines in the grid's metres, each drawn once."""
    cells = grid.cells
    if len(cells) > MOST_CELLS:
        (west, south), (east, north) = cells.min(axis=0), cells.max(axis=0) + 1
        ring = np.array([[west, south], [east, south], [east, north], [west, north], [west, south]])
        return np.stack([ring[:-1], ring[1:]], axis=1) * grid.cell_side_m
    corners = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    sides = corners[[[0, 1], [0, 2], [2, 3], [1, 3]]]  # south, west, north, east; each from west or south
    lines = np.unique((cells[:, None, None] + sides).reshape(-1, 4), axis=0)
    return lines.reshape(-1, 2, 2) * grid.cell_side_m
