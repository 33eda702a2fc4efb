"""What stands where a camera saw nothing: no ground that is not there, in flight and in training alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerial_vpr_cl.geo.camera import CameraModel
from aerial_vpr_cl.geo.rotation import from_angles
from aerial_vpr_cl.geo.view_kind import PAPER_VIEW, ViewKind
from aerial_vpr_cl.learning.augmentation import PAPER, by_turned_camera
from aerial_vpr_cl.learning.recipes import UNSEEN, recipe_of
from aerial_vpr_cl.localization.view import ViewSettings, make_view
from aerial_vpr_cl.mission.situation import Situation
from aerial_vpr_cl.unseen import fill_unseen, seen_by_camera, turn_and_zoom

SIDE = 64


def stripes(side: int = SIDE) -> np.ndarray:
    """Ground full of borders."""
    rows = np.arange(side)[:, None] // 4 % 2 * 200
    return np.repeat(np.broadcast_to(rows, (side, side))[..., None], 3, axis=2).astype(np.uint8)


def steepest(image: np.ndarray, where: np.ndarray) -> float:
    """The largest step between neighbours that both lie there."""
    values = image.astype(float).mean(axis=2)
    down = np.abs(np.diff(values, axis=0))[where[1:] & where[:-1]]
    across = np.abs(np.diff(values, axis=1))[where[:, 1:] & where[:, :-1]]
    return float(max(down.max(initial=0.0), across.max(initial=0.0)))


@given(st.floats(0.3, 1.5), st.floats(0.3, 1.5), st.floats(0.0, 6.3))
def test_what_was_seen_stays_and_the_rest_has_no_borders(width, height, turn):
    seen = seen_by_camera(SIDE, width, height, turn)
    filled = fill_unseen(stripes(), seen)
    assert np.array_equal(filled[seen], stripes()[seen])
    assert steepest(filled, ~seen) < 30 < steepest(stripes(), np.ones_like(seen))


def test_what_was_not_seen_has_the_colours_of_what_is_near():
    image = np.zeros((SIDE, SIDE, 3), np.uint8)
    image[:, : SIDE // 2], image[:, SIDE // 2 :] = (200, 40, 10), (10, 40, 200)
    seen = np.ones((SIDE, SIDE), bool)
    seen[:8] = False
    hidden = np.where(seen[..., None], image, np.uint8(255))
    filled = fill_unseen(hidden, seen).astype(int)
    assert np.abs(filled[:8, :12] - (200, 40, 10)).max() < 15
    assert np.abs(filled[:8, -12:] - (10, 40, 200)).max() < 15


def test_nothing_is_filled_where_all_or_nothing_was_seen():
    for seen in (np.ones((SIDE, SIDE), bool), np.zeros((SIDE, SIDE), bool)):
        assert np.array_equal(fill_unseen(stripes(), seen), stripes())


def test_a_camera_sees_a_turned_rectangle_of_its_sides():
    level = seen_by_camera(100, 0.5, 0.2, 0.0)
    assert level.sum() == 50 * 20 and level[40:60, 25:75].all()
    assert np.array_equal(seen_by_camera(100, 0.5, 0.2, np.pi / 2), level.T)
    assert seen_by_camera(100, 0.5, 0.5, np.pi / 4).sum() == pytest.approx(2500, rel=0.03)
    assert seen_by_camera(100, 1.5, 1.5, np.pi / 4).all()


def test_the_view_of_a_camera_that_flies_north_east_shows_nothing_in_its_corners():
    camera = CameraModel.from_fov(128, 128, 60.0)
    height_m = 300.0 / camera.width_px * camera.fx
    situation = Situation(camera=camera, rotation=from_angles(45.0), heading_sigma_deg=1.0, height_m=height_m)
    view = make_view(stripes(128), situation, ViewSettings(footprint_m=300.0, size_px=SIDE))
    assert 0.7 < view.seen < 0.9
    assert steepest(view.image, ~view.mask) < 30 < steepest(view.image, view.mask)


def test_a_turned_view_shows_nothing_where_something_else_turns_in():
    seen = seen_by_camera(SIDE, 0.9, 0.9, 0.0)
    turned = turn_and_zoom(fill_unseen(stripes(), seen), 45.0, seen=seen)
    corners = np.add.outer(np.arange(SIDE), np.arange(SIDE)) < SIDE // 4
    assert steepest(turned, corners) < 30
    assert np.array_equal(turn_and_zoom(stripes(), 0.0), stripes())


def test_training_north_up_shows_what_turned_cameras_see_and_the_paper_whole_views():
    north_up = recipe_of("tf_efficientnet_lite0", ViewKind())
    assert north_up.augmentation.unseen == north_up.mission_augmentation.unseen == UNSEEN
    as_seen = recipe_of("tf_efficientnet_lite0", PAPER_VIEW)
    assert as_seen.augmentation.unseen == as_seen.mission_augmentation.unseen == PAPER.unseen == 0.0
    shown = [by_turned_camera(stripes(), np.random.default_rng(seed)) for seed in range(40)]
    changed = [float((view != stripes()).any(axis=2).mean()) for view in shown]
    assert min(changed) < 0.02 and 0.2 < max(changed) < 0.7
