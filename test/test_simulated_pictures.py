"""What the simulated camera shows of the ground below, and where it looks."""

import dataclasses

import numpy as np
import pytest
from simulation_support import write_four_bands

from aerial_vpr_cl.geo.projection import Projection
from aerial_vpr_cl.simulation.camera import CameraSettings, Pose, footprint, reach_m, take_picture
from aerial_vpr_cl.simulation.world.ground import ArrayGround
from aerial_vpr_cl.simulation.world.raster_world import RasterWorld


def marked_ground():
    """Grey ground of 400 × 400 m at 1 m with a red square north and a green square east of the centre."""
    image = np.full((400, 400, 3), 90, np.uint8)
    image[95:106, 195:206] = (255, 0, 0)
    image[195:206, 295:306] = (0, 255, 0)
    return ArrayGround(image, 1000.0, 2400.0, 1.0, Projection(32650)), np.array([1200.0, 2200.0])


def middle_of(image, channel):
    others = np.delete(image.astype(int), channel, axis=2).max(axis=2)
    rows, columns = np.nonzero(image[..., channel].astype(int) - others > 60)
    return columns.mean(), rows.mean()


def test_the_top_of_the_frame_points_along_the_heading():
    ground, centre = marked_ground()
    camera = CameraSettings(width_px=160, height_px=160, hfov_deg=90)
    north_up = take_picture(ground, camera, Pose(centre, 150.0, 0.0))  # sees 300 m, 1.875 m a pixel
    assert middle_of(north_up, 0) == pytest.approx((79.5, 79.5 - 100 / 1.875), abs=0.6)
    assert middle_of(north_up, 1) == pytest.approx((79.5 + 100 / 1.875, 79.5), abs=0.6)
    east_up = take_picture(ground, camera, Pose(centre, 150.0, 90.0))
    assert middle_of(east_up, 1) == pytest.approx((79.5, 79.5 - 100 / 1.875), abs=0.6)


def test_footprint_follows_from_height_and_field_of_view():
    camera = CameraSettings(width_px=320, height_px=240, hfov_deg=60)
    corners = footprint(camera, Pose(np.zeros(2), 300.0, 0.0))
    width = 2 * 300 * np.tan(np.radians(30))
    expected = np.array([[-1, 0.75], [1, 0.75], [1, -0.75], [-1, -0.75]]) * width / 2
    assert np.allclose(corners, expected)


def test_tilt_looks_ahead_unless_the_view_is_centred():
    ahead = CameraSettings(tilt_deg=20.0, shake_deg=0.0)
    pose = Pose(np.zeros(2), 300.0, 90.0)
    corners = footprint(ahead, pose)
    assert corners[:, 0].mean() > 300 * np.tan(np.radians(20)) and abs(corners[:, 1].mean()) < 1e-6
    centred = footprint(dataclasses.replace(ahead, centred=True), pose)
    assert np.allclose(corners - centred, [300 * np.tan(np.radians(20)), 0.0])
    assert reach_m(ahead, 300.0) == pytest.approx(np.hypot(*corners.T).max())


def test_a_tilted_picture_shows_what_its_homography_says():
    ground, centre = marked_ground()
    camera = CameraSettings(width_px=160, height_px=160, hfov_deg=80, tilt_deg=25.0)
    image = take_picture(ground, camera, Pose(centre, 110.0, 0.0))
    upward = np.degrees(np.arctan(100 / 110)) - 25.0  # the red square stands this far above the optical axis
    focal = 80 / np.tan(np.radians(40))
    assert middle_of(image, 0) == pytest.approx((79.5, 79.5 - focal * np.tan(np.radians(upward))), abs=0.8)


def test_fine_detail_averages_out_instead_of_aliasing():
    stripes = np.zeros((800, 800, 3), np.uint8)
    stripes[:, ::2] = 200
    ground = ArrayGround(stripes, 0.0, 800.0, 1.0, Projection(32650))
    camera = CameraSettings(width_px=64, height_px=64, hfov_deg=90)
    for heading in (0.0, 37.0):
        image = take_picture(ground, camera, Pose(np.array([400.0, 400.0]), 250.0, heading))
        assert image.std() < 6.0 and image.mean() == pytest.approx(100, abs=3)


def test_a_raster_is_flown_over_in_the_bands_asked_for(tmp_path):
    bands = write_four_bands(tmp_path / "2015.tif")
    still = CameraSettings(width_px=40, height_px=40, hfov_deg=90)
    pose = Pose(np.array([486_200.0, 5_208_750.0]), 100.0)  # 200 m at 5 m a pixel: pixels of the raster itself
    visible = take_picture(RasterWorld(tmp_path / "2015.tif"), still, pose)
    infrared = take_picture(RasterWorld(tmp_path / "2015.tif", bands=[4]), still, pose)
    assert np.abs(visible.astype(int) - bands[30:70, 40:80, :3]).max() <= 2
    assert np.abs(infrared.astype(int) - bands[30:70, 40:80, 3:]).max() <= 2
