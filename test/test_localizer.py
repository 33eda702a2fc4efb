"""From an image to a position: the estimate is honest, rejections have a reason, any image is taken."""

import cv2
import numpy as np
import pytest
import store_support
import torch
from hypothesis import given
from hypothesis import strategies as st

from aerial_vpr_cl.cli import main
from aerial_vpr_cl.errors import ModelError, StoreError
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.images import decode_raw
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.localization.estimate import (
    BLANK_IMAGE,
    LOW_CONFIDENCE,
    NOT_FINITE,
    Estimate,
    Estimator,
    Rejection,
    radius_of,
    top_cells,
)
from aerial_vpr_cl.localization.localizer import Localizer, LocalizerSettings
from aerial_vpr_cl.model.network import Network, NetworkSettings

SIDE = 200.0
CENTRES = [[100.0 + SIDE * i, 100.0 + SIDE * j] for i in range(7) for j in range(6)]
GRID = Grid.over_points(CENTRES, epsg=32614, cell_side_m=SIDE, modulus=2)
ESTIMATOR = Estimator(GRID)

distributions = st.lists(
    st.floats(0.0, 1.0, allow_subnormal=False), min_size=GRID.n_classes, max_size=GRID.n_classes
).filter(lambda values: sum(values) > 1e-3)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return store_support.make_store(tmp_path_factory.mktemp("localizer"))


@pytest.fixture(scope="module")
def localizer(store):
    return Localizer.open(store)


def probabilities(localizer: Localizer, image: np.ndarray) -> np.ndarray:
    return localizer.cells(localizer.view_of(image)).probabilities


@given(distributions)
def test_the_covariance_is_the_expected_squared_error_under_the_probabilities(values):
    estimate = ESTIMATOR.estimate(np.array(values))
    p = np.array(values) / sum(values)
    expected = np.zeros((2, 2))
    for probability, centre in zip(p, GRID.centres):  # the slow obvious way
        offset = centre - estimate.position
        expected += probability * (np.outer(offset, offset) + np.eye(2) * SIDE**2 / 12.0)
    np.testing.assert_allclose(estimate.covariance, expected, rtol=1e-9, atol=1e-6)


@given(distributions)
def test_an_estimate_is_finite_symmetric_and_never_surer_than_a_cell(values):
    estimate = ESTIMATOR.estimate(np.array(values))
    assert np.isfinite(estimate.covariance).all()
    assert np.array_equal(estimate.covariance, estimate.covariance.T)
    assert np.linalg.eigvalsh(estimate.covariance).min() >= SIDE**2 / 12.0 * (1 - 1e-9)
    assert 0.0 <= estimate.confidence <= 1.0
    assert estimate.radius_m >= SIDE / np.sqrt(2.0)
    assert estimate.cell == np.argmax(values)
    assert np.array_equal(estimate.position, GRID.centres[estimate.cell])


@given(distributions, st.integers(1, 60))
def test_top_cells_are_those_of_a_full_sort(values, k):
    expected = sorted(range(len(values)), key=lambda cell: (-values[cell], cell))[:k]
    assert top_cells(np.array(values), k).tolist() == expected


@given(distributions)
def test_the_radius_holds_95_percent_and_no_smaller_ring_of_cells_does(values):
    p = np.array(values) / sum(values)
    distances = np.linalg.norm(GRID.centres - GRID.centres[np.argmax(p)], axis=1)
    radius = radius_of(p, distances, SIDE) - SIDE / np.sqrt(2.0)
    assert p[distances <= radius + 1e-6].sum() >= 0.95 - 1e-9
    assert p[distances < radius - 1e-6].sum() <= 0.95 + 1e-9


def test_a_frame_above_a_border_is_confident_of_the_place_and_says_the_spread():
    p = np.zeros(GRID.n_classes)
    west, east = GRID.class_of([[500.0, 500.0], [700.0, 500.0]])
    p[west], p[east] = 0.51, 0.49
    estimate = ESTIMATOR.estimate(p)
    assert estimate.confidence == 1.0
    assert estimate.covariance[0, 0] == pytest.approx(0.49 * SIDE**2 + SIDE**2 / 12.0)
    assert estimate.covariance[1, 1] == pytest.approx(SIDE**2 / 12.0)


def test_two_places_far_apart_are_no_confidence():
    p = np.zeros(GRID.n_classes)
    p[GRID.class_of([[100.0, 100.0], [1300.0, 1100.0]])] = 0.5
    assert ESTIMATOR.estimate(p).confidence == 0.5


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_a_rejection(bad):
    p = np.full(GRID.n_classes, 0.1)
    p[3] = bad
    assert ESTIMATOR.estimate(p) == Rejection(NOT_FINITE, pytest.approx(np.nan, nan_ok=True))


def test_knowing_nothing_is_the_whole_map():
    middle, covariance = ESTIMATOR.ignorance
    np.testing.assert_allclose(middle, GRID.centres.mean(axis=0))
    # A 1400 × 1200 m rectangle, evenly.
    np.testing.assert_allclose(covariance, np.diag([1400.0**2 / 12, 1200.0**2 / 12]), atol=1e-6)


def test_low_confidence_and_blank_images_are_rejected_with_their_reason(localizer):
    image = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    assert isinstance(localizer.localize(image, LocalizerSettings(min_confidence=0.0)), Estimate)
    network = localizer.network.copy_living_parts()
    network.temperature.fill_(1e4)
    unsure = Localizer(network)
    rejection = unsure.localize(image)
    assert rejection.reason == LOW_CONFIDENCE and 0.0 < rejection.confidence < 0.5
    for shade in (0, 128, 255):
        assert localizer.localize(np.full((480, 640, 3), shade, np.uint8)).reason == BLANK_IMAGE


@pytest.mark.parametrize("encoding", ["rgb8", "bgr8", "mono8", "mono16", "16UC1", "bayer_rggb8", "32FC1"])
@pytest.mark.parametrize("size", [(1, 1), (7, 300), (64, 48)])
def test_every_encoding_and_size_gets_an_answer(localizer, encoding, size):
    channels = 3 if encoding in ("rgb8", "bgr8") else 1
    dtype = {"mono16": "<u2", "16UC1": "<u2", "32FC1": "<f4"}.get(encoding, "u1")
    height, width = (max(side, 2) for side in size) if "bayer" in encoding else size
    pixels = np.random.default_rng(1).integers(0, 200, (height, width * channels)).astype(dtype)
    image = decode_raw(height, width, encoding, pixels.strides[0], False, pixels.tobytes())
    answer = localizer.localize(image, LocalizerSettings(min_confidence=0.0))
    assert isinstance(answer, Estimate) or answer.reason == BLANK_IMAGE


def test_the_answer_is_the_networks_argmax(store, localizer):
    _, points = store_support.track(5)
    for image in store_support.view(store, points):
        with torch.no_grad():
            scores = localizer.network.scores(localizer.network.preprocess([image]))
        assert localizer.localize(image, LocalizerSettings(min_confidence=0.0)).cell == int(scores.argmax())


def test_a_newer_generation_shares_the_trunk_and_answers_by_its_own_tail(tmp_path):
    store = store_support.make_store(tmp_path)
    first = Localizer.open(store)
    other = first.network.copy_living_parts()
    with torch.no_grad():
        for weight in other.heads.weights:
            weight.neg_()
    store_support.commit_generation(store, other)
    second = Localizer.open(store, previous=first)
    assert (first.generation.number, second.generation.number) == (0, 1)
    assert second.network.backbone.trunk is first.network.backbone.trunk
    image = store_support.view(store, store_support.track(1)[1])[0]
    anew = Localizer.open(store)
    assert np.array_equal(probabilities(second, image), probabilities(anew, image))
    assert not np.array_equal(probabilities(second, image), probabilities(first, image))


def test_a_generation_of_another_grid_is_refused(tmp_path):
    localizer = Localizer.open(store_support.make_store(tmp_path / "a"))
    elsewhere = store_support.make_store(tmp_path / "b", modulus=3)
    with pytest.raises(StoreError, match="grid"):
        Localizer.open(elsewhere, previous=localizer)


def test_a_store_without_generation_or_trunk_says_what_to_do(tmp_path):
    store = store_support.make_store(tmp_path)
    (store / "map" / "trunk.safetensors").rename(tmp_path / "trunk")
    with pytest.raises((ModelError, StoreError), match=r"trunk.safetensors"):
        Localizer.open(store)
    (tmp_path / "trunk").rename(store / "map" / "trunk.safetensors")
    (store / "generations" / "000000").rename(tmp_path / "gone")
    with pytest.raises(StoreError, match="train-base"):
        Localizer.open(store)


def test_the_command_prints_a_position_per_image(store, tmp_path, capsys):
    image = store_support.view(store, store_support.track(1)[1], 96)[0]
    thermal = (image[..., 0].astype(np.uint16) * 7) + 20_000
    cv2.imwrite(str(tmp_path / "colour.jpg"), image)
    cv2.imwrite(str(tmp_path / "thermal.png"), thermal)
    cv2.imwrite(str(tmp_path / "black.png"), np.zeros_like(image))
    files = [str(tmp_path / name) for name in ("colour.jpg", "thermal.png", "black.png")]
    assert main(["localize", str(store), *files, "--min-confidence", "0"]) == 0
    head, colour, thermal_line, black = capsys.readouterr().out.splitlines()
    assert head.split() == ["image", "latitude", "longitude", "radius_m", "confidence"]
    centres = np.stack(open_map(store).grid.projection.to_wgs84(open_map(store).grid.centres), axis=1)
    for line in (colour, thermal_line):
        found = np.array(line.split()[1:3], float)
        assert np.abs(centres - found).max(axis=1).min() < 1e-6
    assert BLANK_IMAGE in black


def test_the_command_names_the_file_it_cannot_read(store, tmp_path, capsys):
    (tmp_path / "text.jpg").write_text("not an image")
    for name in ("text.jpg", "missing.jpg"):
        assert main(["localize", str(store), str(tmp_path / name)]) == 1
        assert name in capsys.readouterr().err


def test_a_device_that_is_not_there_is_a_clear_error(store, tmp_path, capsys):
    assert main(["localize", str(store), "x.jpg", "--device", "warp"]) == 1
    assert "device 'warp'" in capsys.readouterr().err


def test_localization_does_not_depend_on_what_was_asked_before(localizer):
    rng = np.random.default_rng(5)
    images = rng.integers(0, 256, (4, 40, 50, 3), np.uint8)
    once = [probabilities(localizer, image) for image in images]
    again = [probabilities(localizer, image) for image in reversed(images)]
    for a, b in zip(once, reversed(again)):
        assert np.array_equal(a, b)


def test_a_network_over_thousands_of_cells_answers(tmp_path):
    points = [[200.0 * i, 200.0 * j] for i in range(90) for j in range(85)]
    grid = Grid.over_points(points, epsg=32614, cell_side_m=200.0, modulus=2)
    network = Network.build(NetworkSettings("tf_efficientnet_lite0", input_size=32), grid, weights="random")
    answer = Localizer(network).localize(
        np.random.default_rng(0).integers(0, 256, (50, 50, 3), np.uint8), LocalizerSettings(min_confidence=0.0)
    )
    assert isinstance(answer, Estimate) and len(answer.cells) == 5
