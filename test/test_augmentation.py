"""Random views: the paper's crop, and photometric change where a recipe asks for it."""

import numpy as np
import pytest

from aerial_vpr_cl.learning.augmentation import PAPER, PHOTOMETRIC, Augmentation, augment, random_crop

IMAGE = np.random.default_rng(0).integers(0, 256, (90, 120, 3), np.uint8)


def test_crops_cover_between_two_thirds_and_all_of_the_image():
    rng = np.random.default_rng(1)
    shares = [np.prod(random_crop(IMAGE, rng, PAPER).shape[:2]) / (90 * 120) for _ in range(500)]
    assert 0.5 < min(shares) < 0.75 and max(shares) <= 1.0  # a crop wider than the image is cut to it


@pytest.mark.parametrize("how", [PAPER, PHOTOMETRIC])
def test_a_view_has_the_input_size_and_follows_from_its_seed(how):
    first, second = (augment(IMAGE, 64, np.random.default_rng(3), how) for _ in range(2))
    assert first.shape == (64, 64, 3) and first.dtype == np.uint8
    assert np.array_equal(first, second)
    assert not np.array_equal(first, augment(IMAGE, 64, np.random.default_rng(4), how))


def test_the_papers_recipe_changes_no_colours():
    whole = Augmentation(crop_area=(1.0, 1.0), crop_aspect=(1.0, 1.0))
    square = IMAGE[:80, :80]
    assert np.array_equal(augment(square, 80, np.random.default_rng(0), whole), square)


def test_a_grey_view_has_no_colour():
    how = Augmentation(grey=1.0)
    view = augment(IMAGE, 32, np.random.default_rng(0), how).astype(int)
    assert np.ptp(view, axis=2).max() <= 1


def test_turning_gives_all_four_quarters():
    whole = Augmentation(crop_area=(1.0, 1.0), crop_aspect=(1.0, 1.0))
    square = IMAGE[:64, :64]
    turned = {augment(square, 64, np.random.default_rng(s), whole, turn=True).tobytes() for s in range(40)}
    assert turned == {np.ascontiguousarray(np.rot90(square, k)).tobytes() for k in range(4)}
