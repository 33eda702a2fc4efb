"""What a camera sees of the drone itself is found by its staying in place, and ground is not taken for it."""

import cv2
import numpy as np
import pytest

from aerial_vpr_cl.localization.own_structure import SIDE_PX, OwnStructure

GROUND = cv2.GaussianBlur(np.random.default_rng(0).integers(0, 256, (600, 900, 3)).astype(np.uint8), (0, 0), 3.0)
GROUND = cv2.normalize(GROUND, np.zeros_like(GROUND), 40, 215, cv2.NORM_MINMAX)
FOOTPRINT_M, PX_M = 300.0, 1.0


def look(moved_m, skid=True, size=(300, 300)):
    """The ground below, and a skid across the lower right of the picture."""
    left = round(moved_m / PX_M)
    image = cv2.resize(GROUND[100:400, left : left + 300], size)
    if skid:
        width, height = size
        cv2.line(image, (width // 2, height), (width, height * 2 // 3), (0, 0, 0), width // 60)
    return np.ascontiguousarray(image)


def seen(images, displacement):
    own = OwnStructure(FOOTPRINT_M)
    own.look(images[0], np.zeros(2))
    for image in images[1:]:
        own.look(image, displacement)
    return own.hidden


@pytest.mark.parametrize("size", [(300, 300), (1280, 720), (160, 120)])
def test_a_skid_is_hidden_and_the_ground_beside_it_is_not(size):
    hidden = seen([look(m, size=size) for m in (0, 40, 80)], np.array([40.0, 0.0]))
    skid = cv2.resize(
        (look(80, size=size) != look(80, False, size)).any(axis=-1).astype(np.float32), hidden.shape[::-1]
    )
    assert hidden[skid > 0.5].mean() > 0.7
    assert hidden[:, : SIDE_PX // 3].mean() < 0.05 and hidden.mean() < 0.2


def test_ground_without_a_drone_in_it_is_not_hidden():
    hidden = seen([look(m, skid=False) for m in (0, 40, 80)], np.array([40.0, 0.0]))
    assert hidden is None or hidden.mean() < 0.05


def test_where_all_stays_in_place_it_is_odometry_that_is_wrong():
    assert seen([look(0)] * 3, np.array([40.0, 0.0])) is None


def test_a_drone_that_stands_or_does_not_know_how_far_it_went_hides_nothing():
    assert seen([look(0)] * 3, np.array([1.0, 0.0])) is None
    assert seen([look(0), look(40), look(80)], None) is None
