"""One picture for the eye: the camera's frame, its view, and the map where the view is said to lie."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.localization.map_views import views_for
from aerial_vpr_cl.localization.view import View, ViewSettings, make_view
from aerial_vpr_cl.localization.view_pictures import Image, map_beneath, seen_part
from aerial_vpr_cl.mission.situation import Situation
from aerial_vpr_cl.satellite.raster import SatelliteMap

SIDE_PX, GAP_PX = 320, 4


def side_by_side(
    image: Image,
    situation: Situation,
    views: ViewSettings,
    satellite: SatelliteMap,
    position: NDArray[np.float64] | None,
) -> Image:
    """(320, 968, 3) RGB: frame, view and map; black where there is no view, or no position (easting, northing)."""
    panels = [_fitted(image), _black(), _black()]
    view = make_view(image, situation, views_for(situation, views))
    if isinstance(view, View):
        panels[1] = _fitted(seen_part(view))
        if position is not None:
            panels[2] = np.ascontiguousarray(map_beneath(view, position, satellite, SIDE_PX))
            for panel in panels[1:]:
                cv2.drawMarker(panel, (SIDE_PX // 2, SIDE_PX // 2), (255, 255, 0), cv2.MARKER_CROSS, 16)
    gap = np.full((SIDE_PX, GAP_PX, 3), 255, np.uint8)
    return np.hstack([panels[0], gap, panels[1], gap, panels[2]])


def _fitted(image: Image) -> Image:
    """The whole image in the middle of a black square."""
    height, width = image.shape[:2]
    scale = SIDE_PX / max(height, width)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    small = cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1.0 else cv2.INTER_LINEAR)
    panel, left, top = _black(), (SIDE_PX - size[0]) // 2, (SIDE_PX - size[1]) // 2
    panel[top : top + size[1], left : left + size[0]] = small
    return panel


def _black() -> Image:
    return np.zeros((SIDE_PX, SIDE_PX, 3), np.uint8)
