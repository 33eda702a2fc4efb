"""The belief as a heat map: nav_msgs/OccupancyGrid, which RViz and Foxglove colour."""

from __future__ import annotations

import math

import cv2
import numpy as np
from nav_msgs.msg import OccupancyGrid
from std_msgs.msg import Header

from aerial_vpr_cl.geo.datum import Datum
from aerial_vpr_cl.localization.belief import Belief
from aerial_vpr_cl.nodes.messages import about_up
from aerial_vpr_cl.nodes.viewer.ground import point_message

MOST_SIDE = 400
"""Cells along the longer side of what is shown; several cells of the belief become one if need be."""
DECADES = 4.0
"""A cell with this many powers of ten less than the likeliest one is cold."""
NO_MAP = -1


def belief_message(header: Header, belief: Belief, datum: Datum) -> OccupancyGrid:
    """100: the likeliest place; 0: ten thousand times less likely, or less; -1: there is no map."""
    lattice, histogram = belief.lattice, belief.histogram
    rows, columns = lattice.shape
    every = max(1, math.ceil(max(rows, columns) / MOST_SIDE))
    down, across = math.ceil(rows / every), math.ceil(columns / every)
    whole, blocks = ((0, down * every), (0, across * every)), (down, every, across, every)
    mass = histogram.window(*whole).reshape(blocks).sum(axis=(1, 3))
    on_map = lattice.on_map_within(*whole).reshape(blocks).sum(axis=(1, 3)) > 0
    peak = max(float(mass.max()), np.finfo(float).tiny)
    with np.errstate(divide="ignore"):
        heat = np.rint(100.0 * (1.0 + np.log10(mass / peak) / DECADES)).clip(0.0, 100.0)
    cells = np.where(on_map, heat, NO_MAP).astype(np.int8)
    message = OccupancyGrid(header=header)
    message.info.map_load_time = header.stamp
    message.info.resolution, message.info.width, message.info.height = lattice.step_m * every, across, down
    corner = np.array([lattice.west, lattice.north - down * every * lattice.step_m]) + histogram.offset
    message.info.origin.position = point_message(datum.to_map(corner))
    message.info.origin.orientation = about_up(datum.grid_yaw_rad)
    message.data = cv2.flip(cells, 0).tobytes()  # the first row is the southernmost
    return message
