"""North-up training: every image a network learns from shows the ground the same way up, as far as instruments can."""

from dataclasses import replace

import numpy as np
import pytest
from store_support import make_map
from synthetic_rasters import write_raster

from aerial_vpr_cl.geo.view_kind import PAPER_VIEW, ViewKind
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.knowledge import network_of
from aerial_vpr_cl.knowledge.map_dates import add_dates
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.learning.augmentation import PAPER, augment
from aerial_vpr_cl.learning.base_training import judged_views, train_base
from aerial_vpr_cl.learning.base_training_settings import BaseTrainingSettings
from aerial_vpr_cl.learning.recipes import PAPER_RECIPE, recipe_of
from aerial_vpr_cl.learning.satellite_batches import LabelledViews, SatelliteBatches, held_out_views, north_up_draws
from aerial_vpr_cl.satellite.exemplars import ExemplarMemory

LITE = "tf_efficientnet_lite0"
PAPER_NET = "vit_base_patch14_dinov2"
EXACT = ViewKind(heading_sigma_deg=0.0, zoom_sigma=0.0)
EXACT_RECIPE = PAPER_RECIPE.for_view(EXACT)
WHOLE_VIEWS = replace(EXACT_RECIPE, augmentation=replace(EXACT_RECIPE.augmentation, unseen=0.0))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_map(tmp_path_factory.mktemp("north-up"), blur_px=12.0, view="north_up")


def north_up_at(folder, positions, size_px):
    footprint_m = folder.settings.footprint_m
    return folder.satellite.read_patches(positions, np.zeros(len(positions)), footprint_m, size_px)[0]


def difference(images, others):
    return float(np.abs(images.astype(float) - others).mean())


def test_without_errors_a_batch_is_the_map_itself(store):
    folder = open_map(store)
    views = SatelliteBatches(folder, WHOLE_VIEWS, 32, 8, seed=1).read(0, group=0)
    assert difference(views.images, north_up_at(folder, views.positions, 32)) < 1e-9


def test_batches_come_from_all_dates_of_the_map_where_these_show_the_ground(tmp_path):
    """The other date is a negative of the map's western half."""
    store = make_map(tmp_path, blur_px=12.0, view="north_up")
    first = open_map(store).satellite
    west, _, east, north = first.bounds
    rgba = first.read_area(
        west, north, first.resolution_m, (round((north - first.bounds[1]) / first.resolution_m),) * 2
    )
    half = rgba.shape[1] // 2
    folder = add_dates(store, [write_raster(tmp_path / "b.tif", 255 - rgba[:, :half, :3], pixel=first.resolution_m)])
    batches = SatelliteBatches(folder, WHOLE_VIEWS, 32, 48, seed=1)
    views = batches.read(0, group=0)
    map_itself = north_up_at(folder, views.positions, 32)
    negative = np.array([difference(*pair) > 2.0 for pair in zip(views.images, map_itself)])
    beside = views.positions[:, 0] + folder.settings.footprint_m / 2.0 > (west + east) / 2.0
    assert difference(views.images[negative], 255.0 - map_itself[negative]) < 3.0
    assert not negative[beside].any()
    assert 0.2 < negative[~beside].mean() < 0.8
    parts = [batches.read(0, group=0, rank=rank, world=2).images for rank in (0, 1)]
    assert (parts[0] == views.images[::2]).all() and (parts[1] == views.images[1::2]).all()


def test_batches_and_held_out_views_are_turned_and_scaled_a_little(store):
    folder = open_map(store)
    assert folder.patches.angles_deg.tolist() == [0.0] * len(folder.patches)
    drawn = SatelliteBatches(folder, PAPER_RECIPE.for_view(folder.settings.view_kind), 32, 16, seed=1).read(0, group=0)
    for views in (drawn, held_out_views(folder, 32, 16, seed=1)):
        upright = north_up_at(folder, views.positions, 32)
        halfway = upright[:, ::-1, ::-1]
        assert 0.0 < difference(views.images, upright) < 0.5 * difference(views.images, halfway)


def test_draws_have_the_stated_sigmas():
    angles, footprints = north_up_draws(ViewKind(), 300.0, 4000, np.random.default_rng(0))
    assert angles.std() == pytest.approx(5.0, rel=0.1) and abs(angles.mean()) < 0.5
    assert np.log(footprints / 300.0).std() == pytest.approx(0.05, rel=0.1)


def test_a_north_up_recipe_neither_crops_nor_turns_by_quarters():
    recipe = recipe_of(LITE, ViewKind())
    image = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    assert np.array_equal(augment(image, 64, np.random.default_rng(1), PAPER.uncropped()), image)
    assert recipe.augmentation.crop_area == recipe.mission_augmentation.crop_area == (1.0, 1.0)
    assert (recipe.augmentation.turn_sigma_deg, recipe.mission_augmentation.turn_sigma_deg) == (0.0, 5.0)
    assert recipe_of(LITE) == recipe_of(LITE).for_view(recipe_of(LITE).view)


def test_stored_views_are_turned_and_zoomed_a_little_about_their_middle():
    rows, columns = np.indices((64, 64)) - 31.5
    disc = np.repeat((np.hypot(rows, columns) < 16)[..., None] * np.uint8(255), 3, axis=2)
    how = recipe_of(PAPER_NET, ViewKind()).mission_augmentation
    shares = []
    for seed in range(200):
        view = augment(disc, 64, np.random.default_rng(seed), how)[..., 0] > 127
        assert np.abs(np.argwhere(view).mean(axis=0) - 31.5).max() < 0.5
        shares.append(view.mean())
    assert np.log(np.sqrt(np.array(shares))).std() == pytest.approx(0.05, rel=0.25)


def test_the_kind_of_view_goes_from_the_map_into_network_and_exemplars(store):
    settings = BaseTrainingSettings(
        backbone=LITE, weights="random", input_size=32, batch=8, epoch_steps=1, max_steps=4, held_out=16, exemplars=3,
        exemplar_candidates=4, readers=1,
    )  # fmt: skip
    generation = train_base(store, settings)
    folder = open_map(store)
    network = network_of(folder, GenerationStore(store).newest())
    assert generation is not None and network.settings.view == folder.settings.view_kind == ViewKind()
    exemplars = ExemplarMemory.load(folder.path / "exemplars.h5", folder.grid.hash)
    assert not exemplars.angles_deg.any()


def test_training_under_other_looks_is_judged_by_such():
    images = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), np.uint8)
    held_out = LabelledViews(images, np.zeros(4, np.int64), np.zeros((4, 2)))
    for backbone, view, changed in (
        (LITE, ViewKind(), True),
        (LITE, PAPER_VIEW, True),
        (PAPER_NET, ViewKind(), False),
        (PAPER_NET, PAPER_VIEW, False),
    ):
        judged = judged_views(held_out, recipe_of(backbone, view), seed=1)
        assert judged.shape == images.shape
        assert np.array_equal(judged, images) != changed
