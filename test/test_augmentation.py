"""Random views: the paper's crop, and another look of the same ground where a recipe asks for it."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.geo.view_kind import PAPER_VIEW, ViewKind
from aerial_vpr_cl.learning.augmentation import (
    PAPER,
    PHOTOMETRIC,
    STYLE,
    Augmentation,
    as_bright_as,
    augment,
    bend_tones,
    change_look,
    convolve,
    fold_tones,
    in_colours_of,
    lay_fields,
    move_borders,
    random_crop,
    shade,
    through_camera,
)
from aerial_vpr_cl.learning.base_training import build_network
from aerial_vpr_cl.learning.base_training_settings import BaseTrainingSettings
from aerial_vpr_cl.learning.recipes import UNSEEN, recipe_of

seeds = st.integers(0, 2**32 - 1)
IMAGE = np.random.default_rng(0).integers(0, 256, (90, 120, 3), np.uint8)


def test_crops_cover_between_two_thirds_and_all_of_the_image():
    rng = np.random.default_rng(1)
    shares = [np.prod(random_crop(IMAGE, rng, PAPER).shape[:2]) / (90 * 120) for _ in range(500)]
    assert 0.5 < min(shares) < 0.75 and max(shares) <= 1.0  # a crop wider than the image is cut to it


@pytest.mark.parametrize("how", [PAPER, PHOTOMETRIC, STYLE])
def test_a_view_has_the_input_size_and_follows_from_its_seed(how):
    first, second = (augment(IMAGE, 64, np.random.default_rng(3), how) for _ in range(2))
    assert first.shape == (64, 64, 3) and first.dtype == np.uint8
    assert np.array_equal(first, second)
    assert not np.array_equal(first, augment(IMAGE, 64, np.random.default_rng(4), how))


def test_the_papers_recipe_changes_no_colours():
    whole = Augmentation(crop_area=(1.0, 1.0), crop_aspect=(1.0, 1.0))
    square = IMAGE[:80, :80]
    assert np.array_equal(augment(square, 80, np.random.default_rng(0), whole), square)


@pytest.mark.parametrize("how", [PHOTOMETRIC, STYLE])
def test_as_many_views_as_asked_for_are_grey_and_the_others_have_colour(how):
    views = [augment(IMAGE, 32, np.random.default_rng(seed), how) for seed in range(300)]
    grey = np.mean([not np.ptp(view, axis=2).any() for view in views])
    assert abs(grey - how.grey) < 0.1  # four standard deviations; tinted after greying there were none


@given(seeds)
def test_a_grey_view_has_no_colour_whatever_else_is_changed(seed):
    view = change_look(IMAGE, np.random.default_rng(seed), replace(STYLE, grey=1.0))
    assert not np.ptp(view, axis=2).any()


@given(seeds)
def test_a_tone_curve_keeps_the_order_of_brightness_from_black_to_white(seed):
    ramp = np.repeat(np.arange(256, dtype=np.float32)[:, None, None], 3, axis=2)
    curves = bend_tones(ramp, np.random.default_rng(seed), 0.7)
    assert (np.diff(curves, axis=0) > 0).all() and not curves[0].any()
    np.testing.assert_allclose(curves[-1], 255, rtol=1e-5)
    alike = bend_tones(ramp, np.random.default_rng(seed), 0.7, alike=True)
    assert not np.ptp(alike, axis=2).any() and np.ptp(curves, axis=2).any()


@given(seeds, st.booleans())
def test_a_folded_curve_gives_ground_of_one_tone_one_tone_and_may_turn_the_order_round(seed, alike):
    ramp = np.repeat(np.arange(40, 200, dtype=np.float32)[:, None, None], 3, axis=2)
    twice = np.concatenate([ramp, ramp[::-1]])
    folded = fold_tones(twice, np.random.default_rng(seed), alike=alike)
    assert np.array_equal(folded, folded[::-1]) and folded.min() >= 0 and folded.max() <= 255
    assert bool(np.ptp(folded, axis=2).any()) != alike


def test_folded_curves_are_not_all_rising():
    ramp = np.repeat(np.arange(256, dtype=np.float32)[:, None, None], 3, axis=2)
    curves = [fold_tones(ramp, np.random.default_rng(seed), alike=True)[:, 0, 0] for seed in range(20)]
    assert np.mean([(np.diff(curve) < 0).any() and (np.diff(curve) > 0).any() for curve in curves]) > 0.8


@given(seeds)
def test_new_fields_have_straight_borders_and_one_brightness_each(seed):
    flat = np.full((48, 48, 3), 100.0, np.float32)
    fields = lay_fields(flat, np.random.default_rng(seed), 0.15)
    assert len(np.unique(fields)) <= 11  # four lines cut a square into eleven parts at most
    assert not np.ptp(fields, axis=2).any()


def test_bands_lie_along_borders_and_leave_the_rest_of_the_ground():
    lake = np.full((128, 128, 3), 60.0, np.float32)
    lake[:, 64:] = 180.0
    moved = [move_borders(lake, np.random.default_rng(seed), 1.0) for seed in range(60)]
    # Mostly: how a blur rounds on flat ground, and so where its highest tenth lies, is another matter on every CPU.
    changed = np.mean([np.abs(picture - lake).max(axis=2) > 1.0 for picture in moved], axis=(0, 1))
    assert changed[:20].max() < 0.2 and changed[-20:].max() < 0.2
    assert changed[48:80].max() > 0.25
    assert np.array_equal(move_borders(lake, np.random.default_rng(0), 0.0), lake)


@given(seeds)
def test_a_camera_softens_edges_adds_noise_and_moves_nothing(seed):
    edge = np.full((64, 64, 3), 60.0, np.float32)
    edge[:, 32:] = 180.0
    soft = through_camera(edge, np.random.default_rng(seed), Augmentation(softness=0.02))
    assert np.abs(np.diff(soft[:, :, 0], axis=1)).max() <= 120.0 + 1e-3
    np.testing.assert_allclose(soft + soft[:, ::-1], 240.0, atol=1e-2)  # the edge is still in the middle
    noisy = through_camera(edge, np.random.default_rng(seed), Augmentation(noise=3.0))
    assert (noisy - edge).std() < 3.1 and noisy.dtype == np.float32


@given(seeds)
def test_differences_of_channels_come_out_as_bright_as_the_view(seed):
    values = np.random.default_rng(seed).normal(-900.0, 300.0, (40, 40, 3)).astype(np.float32)
    found = as_bright_as(IMAGE, values)
    assert found.mean() == pytest.approx(IMAGE.mean(), rel=0.01)
    assert found.std() == pytest.approx(IMAGE.std(), rel=0.05)


def test_inversion_exchanges_bright_and_dark():
    how = Augmentation(invert=1.0)
    view = change_look(IMAGE, np.random.default_rng(0), how).astype(int)
    assert np.abs(view + IMAGE - 255).max() <= 1


@given(seeds)
def test_a_random_convolution_leaves_flat_ground_and_changes_texture(seed):
    flat = np.full((20, 20, 3), (30.0, 90.0, 200.0), np.float32)
    np.testing.assert_allclose(convolve(flat, np.random.default_rng(seed), 0.7), flat, rtol=1e-4)
    textured = IMAGE.astype(np.float32)
    assert np.abs(convolve(textured, np.random.default_rng(seed), 0.7) - textured).max() > 0.01


@given(seeds)
def test_shading_is_smooth_and_the_same_in_all_channels(seed):
    flat = np.full((64, 64, 3), 100.0, np.float32)
    shaded = shade(flat, np.random.default_rng(seed), 0.3)
    assert not np.ptp(shaded, axis=2).any()
    steps = np.abs(np.diff(np.log(shaded[:, :, 0]), axis=0))
    assert steps.max() < 0.25  # a border of a shadow, which no flat ground has, would be a step


def test_channels_are_mixed_so_that_red_may_become_green():
    red = np.zeros((8, 8, 3), np.uint8)
    red[:, :, 0] = 200
    greens = [change_look(red, np.random.default_rng(seed), Augmentation(mixing=1.0))[0, 0, 1] for seed in range(50)]
    assert min(greens) < 20 and max(greens) > 80


def test_the_ground_stays_where_it_is_under_every_look():
    ground = cv2.GaussianBlur(np.random.default_rng(5).normal(size=(64, 64)), (0, 0), 4)
    ground = np.repeat(cv2.normalize(ground, None, 60, 190, cv2.NORM_MINMAX)[:, :, None], 3, axis=2).astype(np.uint8)
    edges = np.abs(cv2.Laplacian(ground[:, :, 0], cv2.CV_32F, ksize=5))
    gentle = replace(STYLE, bands=0.0, brightness=0.0, signed=0.0, fold=0.0, patchwork=0.0, texture=0.7)
    alike = []
    for seed in range(40):
        view = change_look(ground, np.random.default_rng(seed), gentle)
        seen = np.abs(cv2.Laplacian(view[:, :, 0], cv2.CV_32F, ksize=5))
        alike.append(np.corrcoef(edges.ravel(), seen.ravel())[0, 1])
    assert np.median(alike) > 0.3


def test_the_papers_backbone_is_trained_as_in_the_paper():
    recipe = recipe_of("vit_base_patch14_dinov2")
    assert recipe.augmentation == recipe.mission_augmentation == Augmentation((0.66, 1.0))
    assert not recipe.augmentation.changes_look and not recipe.jitter and recipe.zoom == (1.0, 1.0)


def test_the_small_backbone_is_shown_other_styles_unless_told_otherwise():
    grid = Grid(32632, 200.0, 1, np.array([(0, 0)]))
    north_up, lite = ViewKind("north_up", 5.0, 0.05), "tf_efficientnet_lite0"
    assert recipe_of(lite).augmentation == STYLE and recipe_of(lite).mission_augmentation == PHOTOMETRIC
    assert recipe_of(lite, north_up).augmentation == replace(STYLE.uncropped(), unseen=UNSEEN)
    # North up missions, too: else each would teach the network to expect less change.
    assert recipe_of(lite, north_up).mission_augmentation.fold == STYLE.fold
    settings = BaseTrainingSettings(backbone=lite, weights="random", input_size=32, augmentation="photometric")
    _, told = build_network(grid, settings, view=north_up)
    assert told.augmentation == replace(PHOTOMETRIC.uncropped(), unseen=UNSEEN)


@pytest.mark.parametrize(
    "asked, view, made",
    [("auto", "north_up", "quarters"), ("auto", "as_seen", "gem"), ("gem", "north_up", "gem")],
)
def test_a_view_is_pooled_by_quarters_where_north_is_up_unless_told_otherwise(asked, view, made):
    grid = Grid(32650, 200.0, 2, np.array([[0, 0], [0, 1], [1, 0]]))
    settings = BaseTrainingSettings(backbone="tf_efficientnet_lite0", aggregation=asked, weights="random", device="cpu")
    network, _ = build_network(grid, settings, view=ViewKind() if view == "north_up" else PAPER_VIEW)
    assert network.settings.aggregation == made
    assert network.feature_dim == (4 if made == "quarters" else 1) * 1280


def test_turning_gives_all_four_quarters():
    whole = Augmentation(crop_area=(1.0, 1.0), crop_aspect=(1.0, 1.0))
    square = IMAGE[:64, :64]
    turned = {augment(square, 64, np.random.default_rng(s), whole, turn=True).tobytes() for s in range(40)}
    assert turned == {np.ascontiguousarray(np.rot90(square, k)).tobytes() for k in range(4)}


def test_an_image_takes_on_mean_and_spread_of_anothers_colours():
    rng = np.random.default_rng(2)
    mixture = np.array([[30.0, 5.0, 0.0], [0.0, 12.0, 6.0], [3.0, 0.0, 9.0]])
    image = np.clip(rng.normal(size=(64, 64, 3)) @ mixture + [90, 110, 120], 0, 255).astype(np.uint8)
    model = np.clip(rng.normal(size=(40, 80, 3)) @ mixture.T * 0.7 + [140, 90, 60], 0, 255).astype(np.uint8)
    moved = in_colours_of(image, model)
    assert moved.shape == image.shape and moved.dtype == np.uint8
    for colours in (np.mean, np.std):
        np.testing.assert_allclose(colours(moved, axis=(0, 1)), colours(model, axis=(0, 1)), atol=2.0)
    np.testing.assert_allclose(in_colours_of(image, image).astype(int), image, atol=1)


def test_in_the_colours_of_an_infrared_frame_an_image_is_grey_and_still_shows_its_ground():
    frame = np.random.default_rng(3).integers(40, 90, (50, 50, 1), np.uint8).repeat(3, axis=2)
    smooth = cv2.GaussianBlur(IMAGE, (0, 0), 3)
    moved = in_colours_of(smooth, frame).astype(int)
    assert np.ptp(moved, axis=2).mean() < 3.0
    assert np.corrcoef(moved.mean(axis=2).ravel(), smooth.mean(axis=2).ravel())[0, 1] > 0.8
    flat = np.full((9, 9, 3), 7, np.uint8)  # a frame of nothing, a map of nothing
    assert np.array_equal(in_colours_of(flat, flat), flat)
