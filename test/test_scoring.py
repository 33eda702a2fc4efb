"""Scores of replay candidates against their equations, written out in plain sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from aerial_vpr_cl.memory import scoring

# Small whole numbers, so that zero vectors, duplicates and ties are frequent.
SHAPES = st.tuples(st.integers(1, 9), st.integers(1, 4))
FEATURES = SHAPES.flatmap(lambda shape: arrays(np.float32, shape, elements=st.integers(-2, 2)))


def cosine(a, b):
    norms = [max(math.sqrt(math.fsum(float(x) ** 2 for x in v)), 1e-12) for v in (a, b)]
    return math.fsum(float(x) / norms[0] * float(y) / norms[1] for x, y in zip(a, b))


@settings(max_examples=250, deadline=None)
@given(FEATURES, st.sampled_from([0.0, 0.5, 1.0, 3.0]), st.randoms(use_true_random=False))
def test_redundancy_is_the_double_sum_of_equation_4(features, weight, random):
    prototypes = features[random.choices(range(len(features)), k=len(features))] + 1
    expected = [
        sum(cosine(x, features[j]) for j in range(len(features)) if j != i) + weight * cosine(x, prototypes[i])
        for i, x in enumerate(features)
    ]
    vectors = scoring.normalise(features)
    similarity = scoring.prototype_similarity(vectors, prototypes)
    np.testing.assert_allclose(similarity, [cosine(x, w) for x, w in zip(features, prototypes)], atol=1e-9)
    found = scoring.redundancy(vectors, similarity, weight)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert (np.abs(found) <= len(features) - 1 + weight + 1e-9).all()


@settings(max_examples=200, deadline=None)
@given(FEATURES, st.randoms(use_true_random=False))
def test_redundancy_follows_its_candidate_when_the_pool_is_shuffled(features, random):
    order = random.sample(range(len(features)), len(features))
    vectors = scoring.normalise(features)
    zeros = np.zeros(len(features))
    np.testing.assert_array_equal(
        scoring.redundancy(vectors[order], zeros), scoring.redundancy(vectors, zeros)[order] + 0.0
    )


def test_identical_candidates_have_identical_scores_wherever_they_stand():
    rng = np.random.default_rng(0)
    row, prototype = rng.normal(size=(2, 768))
    vectors = scoring.normalise(np.tile(row, (247, 1)))
    similarity = scoring.prototype_similarity(vectors, np.tile(prototype, (247, 1)))
    assert len(set(similarity)) == 1
    assert len(set(scoring.redundancy(vectors, similarity))) == 1


def test_a_zero_vector_stays_zero_and_is_similar_to_nothing():
    vectors = scoring.normalise([[0.0, 0.0], [3.0, 4.0]])
    np.testing.assert_array_equal(vectors, [[0, 0], [0.6, 0.8]])
    np.testing.assert_array_equal(scoring.prototype_similarity(vectors, vectors[::-1]), [0, 0])
    np.testing.assert_array_equal(scoring.redundancy(vectors, np.zeros(2)), [0, 0])


def test_normalising_leaves_the_features_as_they_were():
    features = np.array([[3.0, 4.0]])
    scoring.normalise(features)
    np.testing.assert_array_equal(features, [[3, 4]])


@settings(max_examples=200, deadline=None)
@given(arrays(np.float64, (5, 4), elements=st.floats(-3, 3)), arrays(np.int64, 5, elements=st.integers(0, 3)))
def test_loss_is_the_negative_logarithm_of_the_softmax(logits, columns):
    expected = [-math.log(math.exp(row[c]) / sum(math.exp(v) for v in row)) for row, c in zip(logits, columns)]
    np.testing.assert_allclose(scoring.cross_entropy(logits, columns), expected, atol=1e-9)


def test_loss_stays_finite_at_the_scale_of_the_angular_margin_heads():
    np.testing.assert_allclose(scoring.cross_entropy([[100.0, -100.0]], [1]), [200.0])
    np.testing.assert_allclose(scoring.cross_entropy([[1e5, -1e5]], [0]), [0.0])


@settings(max_examples=150, deadline=None)
@given(FEATURES, st.randoms(use_true_random=False))
def test_herding_always_adds_the_candidate_that_brings_the_mean_closest(features, random):
    labels = np.array(random.choices([0, 7], k=len(features)))
    vectors = scoring.normalise(features)
    ranks = scoring.herding_rank(vectors, labels)
    for label in set(labels.tolist()):
        members = [i for i in range(len(labels)) if labels[i] == label]
        mean = np.mean(vectors[members], axis=0)
        chosen: list[int] = []
        while len(chosen) < len(members):
            left = [i for i in members if i not in chosen]
            errors = [
                round(float(np.sum((mean - np.mean(vectors[[*chosen, i]], axis=0)) ** 2)) * (len(chosen) + 1) ** 2, 9)
                for i in left
            ]
            chosen.append(left[errors.index(min(errors))])
        assert sorted(members, key=lambda i: ranks[i]) == chosen


@pytest.mark.parametrize("noise", [0.0, 1e-13, -1e-13])
def test_rounding_noise_does_not_break_a_tie(noise):
    assert scoring.settle([0.25 + noise])[0] == scoring.settle([0.25])[0]
