"""Nearest-patch retrieval: the obvious answer, in bounded memory."""

import importlib.util
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from aerial_vpr_cl.benchmark import retrieval
from aerial_vpr_cl.benchmark.retrieval import NearestPatchIndex, unit_rows
from aerial_vpr_cl.errors import SettingsError

# faiss is optional; where it is installed it must give the same answers.
INSTALLED = ["numpy"] + (["faiss"] if importlib.util.find_spec("faiss") else [])


def cloud(rng, n, d=16):
    return rng.normal(size=(n, d)), rng.uniform(0, 5000, size=(n, 2))


@pytest.mark.parametrize("backend", INSTALLED)
def test_a_patch_is_found_by_its_own_feature_seen_with_noise(backend):
    rng = np.random.default_rng(0)
    features, positions = cloud(rng, 500)
    queries = 3 * features[::7] + rng.normal(scale=0.1, size=features[::7].shape)
    np.testing.assert_array_equal(NearestPatchIndex(features, positions, backend).locate(queries), positions[::7])


@pytest.mark.parametrize("backend", INSTALLED)
def test_the_answer_is_that_of_comparing_every_pair(backend):
    rng = np.random.default_rng(1)
    features, positions = cloud(rng, 300)
    queries = rng.normal(size=(40, 16))
    slow = [
        max(range(300), key=lambda k: features[k] @ q / np.linalg.norm(features[k]) / np.linalg.norm(q))
        for q in queries
    ]
    assert NearestPatchIndex(features, positions, backend).nearest(queries).tolist() == slow


@pytest.mark.parametrize("scores", [1, 40, 41, 1000])
def test_chunks_change_nothing(monkeypatch, scores):
    rng = np.random.default_rng(2)
    features, positions = cloud(rng, 101)
    queries = rng.normal(size=(40, 16))
    whole = NearestPatchIndex(features, positions).nearest(queries)
    monkeypatch.setattr(retrieval, "CHUNK_SCORES", scores)
    np.testing.assert_array_equal(NearestPatchIndex(features, positions).nearest(queries), whole)


def test_of_equals_the_earlier_patch_answers_across_chunks(monkeypatch):
    monkeypatch.setattr(retrieval, "CHUNK_SCORES", 2)
    features = np.tile([[0.0, 1.0], [1.0, 0.0]], (5, 1))
    assert NearestPatchIndex(features, np.zeros((10, 2))).nearest([[1, 0], [0, 1]]).tolist() == [1, 0]


@given(arrays(np.float32, (6, 4), elements=st.floats(-100, 100, width=32)), st.floats(0.01, 100))
def test_the_length_of_a_feature_does_not_matter(features, factor):
    lengths = np.linalg.norm(unit_rows(features), axis=1)
    assert np.all((np.abs(lengths - 1) < 1e-5) | (np.abs(features).max(axis=1) < 1e-6))
    scaled = unit_rows(features * np.float32(factor))
    large = np.abs(features).max(axis=1) > 1e-6
    np.testing.assert_allclose(scaled[large], unit_rows(features)[large], atol=1e-5)


def test_memory_is_counted_by_feature_and_position():
    assert NearestPatchIndex(np.ones((100, 768)), np.zeros((100, 2))).memory_bytes == 100 * (768 * 4 + 2 * 8)


def test_no_queries_get_no_answers():
    assert NearestPatchIndex(np.ones((3, 4)), np.zeros((3, 2))).locate(np.empty((0, 4))).shape == (0, 2)


def test_features_without_their_positions_are_refused():
    with pytest.raises(ValueError, match="expected"):
        NearestPatchIndex(np.ones((3, 4)), np.zeros((2, 2)))


def test_a_missing_backend_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(SettingsError, match="pip install faiss-cpu"):
        NearestPatchIndex(np.ones((3, 4)), np.zeros((3, 2)), backend="faiss")
    with pytest.raises(SettingsError, match="valid names: numpy, faiss"):
        NearestPatchIndex(np.ones((3, 4)), np.zeros((3, 2)), backend="annoy")
