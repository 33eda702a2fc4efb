"""A north-up network: frames of any heading become views it knows, and an unknown heading is found with the cell."""

import shutil
from dataclasses import replace

import cv2
import numpy as np
import pytest
import store_support
import torch
from hypothesis import given
from hypothesis import strategies as st

from aerial_vpr_cl.cli import main
from aerial_vpr_cl.errors import ModelError
from aerial_vpr_cl.geo.camera import CameraModel
from aerial_vpr_cl.geo.rotation import from_angles
from aerial_vpr_cl.geo.view_kind import PAPER_VIEW, ViewKind
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.localization.estimate import LOOKS_AWAY, Estimate
from aerial_vpr_cl.localization.localizer import Localizer, LocalizerSettings
from aerial_vpr_cl.localization.turned_views import turned_images, turns_to_try
from aerial_vpr_cl.localization.view import View, ViewSettings, make_view
from aerial_vpr_cl.mission.situation import Situation

HEIGHT_M = 250.0
CAMERA = CameraModel.from_fov(160, 160, 80.0)
SEEN_M = 2.0 * HEIGHT_M * np.tan(np.radians(40.0))  # side of the square that the camera sees
ANSWER = LocalizerSettings(min_confidence=0.0)
KIND = ViewKind()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store whose network knows the middle of every cell, north up: its heads are the features themselves."""
    root = store_support.make_store(tmp_path_factory.mktemp("north"), view="north_up", input_size=64)
    localizer = Localizer.open(root)
    folder, network = open_map(root), localizer.network
    centres = folder.grid.centres
    images, _ = folder.satellite.read_patches(centres, np.zeros(len(centres)), folder.settings.footprint_m, 64)
    with torch.inference_mode():
        features = network.features(network.preprocess(images))
        # What all cells share says nothing of where one is.
        for group, weight in enumerate(network.heads.weights):
            weight.copy_((features - features.mean(dim=0))[folder.grid.classes_of_group(group)])
    store_support.commit_generation(root, network)
    return root


@pytest.fixture(scope="module")
def localizer(store):
    return Localizer.open(store)


def inner_cells(grid):
    """Cells whose whole surroundings are on the map."""
    middle = grid.centres.mean(axis=0)
    return np.flatnonzero(np.abs(grid.centres - middle).max(axis=1) < 320.0)


def frame(store, place, heading_deg) -> np.ndarray:
    """What a level camera sees that looks straight down, its top towards the heading."""
    satellite = open_map(store).satellite
    (image,), _ = satellite.read_patches(np.array([place]), np.array([heading_deg]), SEEN_M, CAMERA.width_px)
    return image


def flown(heading_deg, heading_sigma_deg=3.0, **more) -> Situation:
    return Situation(
        CAMERA, rotation=from_angles(heading_deg), heading_sigma_deg=heading_sigma_deg, height_m=HEIGHT_M, **more
    )


def found(localizer, image, situation) -> Estimate:
    answer = localizer.localize(image, ANSWER, situation)
    assert isinstance(answer, Estimate)
    return answer


@pytest.mark.parametrize("heading", [0.0, 75.0, 200.0])
def test_a_known_heading_is_turned_back(store, localizer, heading):
    cells = inner_cells(localizer.grid)
    right = [
        found(localizer, frame(store, localizer.grid.centres[cell], heading), flown(heading)).cell == cell
        for cell in cells
    ]
    assert np.mean(right) >= 0.9


def test_an_unknown_heading_is_found_together_with_the_cell(store, localizer):
    cells, right, near = inner_cells(localizer.grid), [], []
    for cell in cells:
        image = frame(store, localizer.grid.centres[cell], 105.0)
        answer = found(localizer, image, flown(0.0, heading_sigma_deg=180.0))
        right.append(answer.cell == cell)
        near.append(abs(answer.turn_deg - 105.0) <= 15.0)
    assert np.mean(right) >= 0.7
    assert np.mean(np.array(near)[right]) >= 0.9


def test_a_turned_frame_with_a_wrong_heading_is_not_recognised(store, localizer):
    cells = inner_cells(localizer.grid)
    right = [
        found(localizer, frame(store, localizer.grid.centres[cell], 105.0), flown(0.0)).cell == cell for cell in cells
    ]
    assert np.mean(right) <= 0.4


def test_cell_and_turn_are_one_distribution(store, localizer):
    view = localizer.view_of(frame(store, localizer.grid.centres[14], 30.0), Situation(CAMERA, height_m=HEIGHT_M))
    answer = localizer.cells(view)
    assert answer.joint.shape == (24, localizer.grid.n_classes)
    assert answer.joint.sum() == pytest.approx(1.0, abs=1e-4)
    assert answer.probabilities == pytest.approx(answer.joint.sum(axis=0))


def test_the_position_is_the_drones_and_not_the_views(store, localizer):
    cell = inner_cells(localizer.grid)[0]
    image = frame(store, localizer.grid.centres[cell], 0.0)
    level = found(localizer, image, flown(0.0, tilt_sigma_deg=0.0))
    tilted = Situation(CAMERA, rotation=from_angles(0.0, 10.0), heading_sigma_deg=3.0, height_m=HEIGHT_M)
    answer = found(localizer, image, tilted)
    ahead = HEIGHT_M * np.tan(np.radians(10.0))
    assert answer.position == pytest.approx(localizer.grid.centres[answer.cell] - [0.0, ahead], abs=0.5)
    assert level.position == pytest.approx(localizer.grid.centres[level.cell])
    sigma_m = HEIGHT_M / np.cos(np.radians(10.0)) ** 2 * np.radians(tilted.tilt_sigma_deg)
    assert np.linalg.eigvalsh(answer.covariance).min() >= sigma_m**2


def test_an_offset_turns_with_the_heading_that_was_found(localizer):
    estimate = localizer.estimator.estimate(np.eye(localizer.grid.n_classes)[5])
    moved = estimate.seen_from(np.array([0.0, 40.0]), 90.0, 10.0)
    assert moved.position == pytest.approx(estimate.position - [40.0, 0.0])
    assert moved.radius_m > estimate.radius_m


def test_a_camera_that_looks_away_gets_no_position(localizer):
    tilted = Situation(CAMERA, rotation=from_angles(0.0, 80.0), heading_sigma_deg=3.0, height_m=HEIGHT_M)
    image = np.random.default_rng(0).integers(0, 256, (160, 160, 3), np.uint8)
    assert localizer.localize(image, ANSWER, tilted).reason == LOOKS_AWAY


@given(st.floats(0.0, 360.0))
def test_turns_cover_what_is_unknown_and_no_more(sigma):
    turns, weights = turns_to_try(sigma, KIND)
    assert 0.0 in turns and weights.sum() == pytest.approx(1.0)
    assert len(set(np.round(turns % 360.0, 6))) == len(turns) <= 24
    if sigma >= 180.0:
        assert np.allclose(weights, 1.0 / 24)
    elif len(turns) < 24:
        assert 2.5 * sigma - 15.0 <= turns.max() <= 2.5 * sigma + 15.0
    assert turns_to_try(sigma, PAPER_VIEW)[0].tolist() == [0.0]


@pytest.mark.parametrize("turn", [90.0, -90.0, 180.0])
def test_a_turned_view_is_the_view_of_the_turned_heading(turn):
    image = np.random.default_rng(0).integers(0, 256, (160, 160, 3), np.uint8)
    image = cv2.GaussianBlur(image, (0, 0), 4.0)
    settings = ViewSettings(footprint_m=300.0, size_px=64)
    wrong, right = (make_view(image, flown(heading), settings) for heading in (20.0, 20.0 + turn))
    assert isinstance(wrong, View) and isinstance(right, View)
    (turned,) = turned_images(wrong, np.array([turn]))
    inner = (slice(12, -12), slice(12, -12))
    assert np.abs(turned[inner].astype(float) - right.image[inner]).mean() < 2.0


def test_a_network_of_other_views_than_the_maps_is_refused_with_words(tmp_path, store):
    mixed = tmp_path / "mixed"
    shutil.copytree(store, mixed)
    network = Localizer.open(mixed).network
    network.settings = replace(network.settings, view=PAPER_VIEW)
    store_support.commit_generation(mixed, network)
    with pytest.raises(ModelError, match=r"as seen.*north up"):
        Localizer.open(mixed)


def test_the_command_takes_what_is_known_as_options(store, localizer, tmp_path, capsys):
    cell = inner_cells(localizer.grid)[3]
    image = frame(store, localizer.grid.centres[cell], 75.0)
    path = tmp_path / "photo.png"
    cv2.imwrite(str(path), image[..., ::-1])
    known = ["--heading-deg", "75", "--height-m", str(HEIGHT_M), "--fov-deg", "80", "--tilt-deg", "0"]
    assert main(["localize", str(store), str(path), "--min-confidence", "0", *known]) == 0
    line = capsys.readouterr().out.splitlines()[1]
    latitude, longitude = (float(value) for value in line.split()[1:3])
    place = localizer.grid.projection.to_utm(latitude, longitude)
    assert int(localizer.grid.class_of([place])[0]) == found(localizer, image, flown(75.0)).cell == cell
