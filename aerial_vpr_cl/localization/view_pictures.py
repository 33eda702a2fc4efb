"""A view and the map beneath it as pictures for the eye, to be shown beside each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.localization.view import View
from aerial_vpr_cl.satellite.raster import SatelliteMap

Image = NDArray[np.uint8]


def seen_part(view: View) -> Image:
    """(S, S, 3) RGB of a view, black where the camera saw nothing."""
    return np.where(view.mask[..., None], view.image, np.uint8(0))


def map_beneath(view: View, position: NDArray[np.float64], satellite: SatelliteMap, size_px: int) -> Image:
    """(size, size, 3) RGB of the ground that the view shows if the drone is at (easting, northing)."""
    centre = position + view.offset_m
    patches, _ = satellite.read_patches(centre[None], 0.0, view.footprint_m, size_px)
    return patches[0]
