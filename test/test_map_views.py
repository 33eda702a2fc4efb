"""What is laid on the map: all that the camera sees, within bounds, and nothing of which too little is known."""

from dataclasses import replace

import pytest
from synthetic_rasters import noise_image

from aerial_vpr_cl.geo.camera import CameraModel
from aerial_vpr_cl.geo.rotation import from_angles
from aerial_vpr_cl.localization.map_views import is_blind, views_for
from aerial_vpr_cl.localization.view import ViewSettings, make_view
from aerial_vpr_cl.mission.situation import Situation

CAMERA = CameraModel.from_fov(320, 240, 62.0)  # 1.2 m of ground across for a metre of height
USUAL = ViewSettings(footprint_m=300.0, size_px=224)


def known(height_m, sigma=0.05, heading_sigma_deg=3.0):
    return Situation(
        camera=CAMERA,
        rotation=from_angles(30.0),
        heading_sigma_deg=heading_sigma_deg,
        height_m=height_m,
        height_sigma_m=sigma * (height_m or 0.0),
    )


@pytest.mark.parametrize(
    ("height_m", "footprint_m"),
    [(100.0, 160.0), (20.0, 80.0), (230.0, 300.0), (400.0, 480.0), (480.0, 560.0), (2000.0, 720.0)],
)
def test_a_view_is_as_large_as_what_the_camera_sees_within_bounds(height_m, footprint_m):
    views = views_for(known(height_m), USUAL)
    assert views.footprint_m == footprint_m
    assert views.size_px >= USUAL.size_px and views.metres_per_px <= 2.51


def test_a_little_noise_of_the_height_leaves_the_size_as_it_is():
    assert len({views_for(known(height_m), USUAL).footprint_m for height_m in (470.0, 475.0, 480.0, 485.0)}) == 1


@pytest.mark.parametrize("situation", [known(None), known(500.0, sigma=0.4), replace(known(500.0), camera=None)])
def test_without_a_scale_nobody_knows_what_the_camera_sees(situation):
    assert views_for(situation, USUAL) == USUAL


def test_only_a_view_without_heading_and_without_scale_is_blind():
    image = noise_image(240, 320)
    for situation, blind in (
        (known(400.0), False),
        (known(400.0, heading_sigma_deg=180.0), False),
        (known(None), False),
        (Situation(camera=CAMERA), True),
        (Situation(), True),
    ):
        assert is_blind(make_view(image, situation, USUAL)) is blind
