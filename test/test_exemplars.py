"""Herding against a slow reference, and the exemplar memory on disk."""

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_rasters import noise_image, write_raster

from aerial_vpr_cl.errors import MapError, StoreError
from aerial_vpr_cl.files import sha256_of
from aerial_vpr_cl.satellite import herding
from aerial_vpr_cl.satellite.exemplars import ExemplarMemory, herd
from aerial_vpr_cl.satellite.patches import PatchSettings, lay_patches
from aerial_vpr_cl.satellite.raster import SatelliteMap

HASH = "a" * 64


def slow_herd(features, labels, per_class):
    """iCaRL's herding word by word: one class, one step, one candidate at a time."""
    chosen = []
    for label in sorted(set(labels.tolist())):
        rows = [row for row in range(len(labels)) if labels[row] == label]
        mean = features[rows].mean(axis=0)
        taken = []
        while len(taken) < min(per_class, len(rows)):
            best, best_distance = None, np.inf
            for row in rows:
                if row in taken:
                    continue
                distance = np.sum((mean - features[[*taken, row]].mean(axis=0)) ** 2)
                if distance < best_distance - herding.TIE:
                    best, best_distance = row, distance
            taken.append(best)
        chosen += taken
    return chosen


def unit_features(rng, n, dim):
    features = rng.normal(size=(n, dim)) + 1.0
    return features / np.linalg.norm(features, axis=1, keepdims=True)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 8), st.integers(1, 14), st.booleans())
def test_herding_equals_the_slow_reference(seed, n, classes, per_class, twins):
    rng = np.random.default_rng(seed)
    features = unit_features(rng, n, 6)
    if twins:  # equal samples tie: the earlier is taken
        features = features[rng.integers(0, max(1, n // 3), n)]
    labels = rng.integers(0, classes, n) * 7
    assert herd(features, labels, per_class).tolist() == slow_herd(features, labels, per_class)


def test_small_chunks_choose_the_same(monkeypatch):
    rng = np.random.default_rng(0)
    features, labels = unit_features(rng, 3000, 16), rng.zipf(1.5, 3000).clip(max=400)
    whole = herd(features, labels)
    monkeypatch.setattr(herding, "CHUNK_BYTES", 20_000)
    assert np.array_equal(herd(features, labels), whole)


def test_herding_is_balanced_and_ordered_by_class():
    rng = np.random.default_rng(0)
    labels = np.repeat([5, 2, 9], [40, 3, 15])
    rows = herd(unit_features(rng, 58, 8), labels, 12)
    assert labels[rows].tolist() == [2] * 3 + [5] * 12 + [9] * 12
    assert len(set(rows.tolist())) == len(rows)


def test_the_mean_of_the_herded_is_nearer_than_that_of_random_choices():
    rng = np.random.default_rng(0)
    features = unit_features(rng, 200, 32)
    mean = features.mean(axis=0)
    herded = np.linalg.norm(features[herd(features, np.zeros(200, int), 12)].mean(axis=0) - mean)
    random = [np.linalg.norm(features[rng.choice(200, 12, replace=False)].mean(axis=0) - mean) for _ in range(200)]
    assert herded < min(random)


def test_nothing_to_herd_gives_nothing_and_wrong_shapes_are_refused():
    assert herd(np.zeros((0, 4)), np.zeros(0, int)).tolist() == []
    with pytest.raises(ValueError, match="labels"):
        herd(np.zeros((3, 4)), np.zeros(2, int))


@pytest.fixture
def satellite(tmp_path):
    return SatelliteMap.open(write_raster(tmp_path / "ground.tif", noise_image(40, 60), pixel=10.0))


@pytest.fixture
def patches(satellite):
    return lay_patches(satellite, PatchSettings(cell_side_m=100.0, rotations=4, view="as_seen"))[1]


@pytest.mark.parametrize("as_images", [False, True])
def test_a_saved_memory_loads_as_it_was(tmp_path, satellite, patches, as_images):
    rows = np.arange(0, len(patches), 5)
    memory = ExemplarMemory.choose(patches, rows, images_from=satellite if as_images else None, size_px=48)
    path = tmp_path / "exemplars.h5"
    memory.save(path, HASH)
    loaded = ExemplarMemory.load(path, HASH, sha256_of(path))
    for name in ("centres", "angles_deg", "labels"):
        assert np.array_equal(getattr(loaded, name), getattr(patches, name)[rows])
    assert loaded.footprint_m == patches.footprint_m
    assert loaded.images == memory.images
    assert (loaded.images is not None) == as_images


def test_images_show_what_the_references_point_to(satellite, patches):
    references = ExemplarMemory.choose(patches, np.arange(20))
    images = ExemplarMemory.choose(patches, np.arange(20), images_from=satellite, size_px=48)
    expected, _ = satellite.read_patches(patches.centres[[3, 7]], patches.angles_deg[[3, 7]], patches.footprint_m, 48)
    assert np.array_equal(references.read([3, 7], 48, satellite), expected)
    found = images.read([3, 7], 48)
    assert np.abs(found.astype(int) - expected).mean() < 12  # JPEG of noise
    assert images.read([1], 32).shape == (1, 32, 32, 3)
    assert images.read([], 32).shape == references.read([], 32, satellite).shape == (0, 32, 32, 3)
    with pytest.raises(MapError, match="no raster was given"):
        references.read([0], 48)


def test_the_file_is_written_once(tmp_path, patches):
    path = tmp_path / "exemplars.h5"
    ExemplarMemory.choose(patches, [0, 1]).save(path, HASH)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="written once"):
        ExemplarMemory.choose(patches, [2]).save(path, HASH)
    assert path.read_bytes() == before


def test_another_grid_another_file_and_damage_are_refused(tmp_path, satellite, patches):
    path = tmp_path / "exemplars.h5"
    with pytest.raises(StoreError, match="train-base"):
        ExemplarMemory.load(path, HASH)
    ExemplarMemory.choose(patches, np.arange(30), images_from=satellite).save(path, HASH)
    with pytest.raises(StoreError, match=r"belongs to the grid aaaaaaaaaaaa…, not to bbbbbbbbbbbb…"):
        ExemplarMemory.load(path, "b" * 64)
    with pytest.raises(StoreError, match="SHA-256"):
        ExemplarMemory.load(path, HASH, "0" * 64)
    whole = path.read_bytes()
    with h5py.File(path) as file:
        start = file["image_bytes"].id.get_chunk_info(0).byte_offset
    flipped = bytearray(whole)
    flipped[start + 100] ^= 1
    for data in (flipped, whole[: len(whole) // 2], b"no HDF5"):
        path.write_bytes(data)
        with pytest.raises(StoreError, match="damaged"):
            ExemplarMemory.load(path, HASH)


def test_an_empty_memory_can_be_kept(tmp_path, patches):
    path = tmp_path / "exemplars.h5"
    ExemplarMemory.choose(patches, []).save(path, HASH)
    assert len(ExemplarMemory.load(path, HASH)) == 0
