"""Allocation operators against slow references written from the paper's equations."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from aerial_vpr_cl.memory import allocation
from aerial_vpr_cl.memory.scoring import normalise


@st.composite
def scored_classes(draw):
    """Labels and utilities full of ties, and a budget that may be too small or too large."""
    n = draw(st.integers(0, 14))
    labels = draw(arrays(np.int64, n, elements=st.integers(0, 5)))
    utility = draw(arrays(np.float64, n, elements=st.integers(-2, 2)))
    return labels, utility, draw(st.integers(0, n + 2))


def best_first(candidates, utility):
    return sorted(candidates, key=lambda i: (-utility[i], i))


@settings(max_examples=250, deadline=None)
@given(scored_classes())
def test_global_takes_the_highest_utilities(case):
    labels, utility, budget = case
    assert allocation.global_top(utility, budget).tolist() == best_first(range(len(labels)), utility)[:budget]


@settings(max_examples=250, deadline=None)
@given(scored_classes())
def test_min_guarantee_is_equation_7(case):
    labels, utility, budget = case
    classes = set(labels.tolist())
    representatives = [best_first(np.flatnonzero(labels == c).tolist(), utility)[0] for c in classes]  # Eq. 6
    residual = [i for i in range(len(labels)) if i not in representatives]
    if budget >= len(classes):
        surplus = best_first(residual, utility)[: budget - len(classes)]
        expected = best_first(representatives, utility) + surplus
    else:
        expected = best_first(representatives, utility)[:budget]
    assert allocation.min_guarantee(labels, utility, budget).tolist() == expected


@settings(max_examples=250, deadline=None)
@given(scored_classes())
def test_round_robin_lets_every_class_give_its_best_in_turn(case):
    labels, utility, budget = case
    queues = {c: best_first(np.flatnonzero(labels == c).tolist(), utility) for c in sorted(set(labels.tolist()))}
    expected = []
    while any(queues.values()):
        expected += [queue.pop(0) for queue in queues.values() if queue]
    assert allocation.round_robin(labels, utility, budget).tolist() == expected[:budget]


@settings(max_examples=150, deadline=None)
@given(scored_classes())
def test_round_robin_shares_differ_by_at_most_one_unless_a_class_has_run_out(case):
    labels, utility, budget = case
    shares = Counter(labels[allocation.round_robin(labels, utility, budget)].tolist())
    sizes = Counter(labels.tolist())
    for c in sizes:
        assert shares[c] == sizes[c] or shares[c] >= max(shares.values(), default=0) - 1


@settings(max_examples=250, deadline=None)
@given(scored_classes(), st.sampled_from([0.0, 0.05, 0.25, 0.5, 1.0]))
def test_trimming_is_equation_10_with_numpys_linear_quantile(case, ratio):
    labels, score, _ = case
    expected = [
        np.sum(labels == labels[i]) <= 2 or score[i] >= np.quantile(score[labels == labels[i]], ratio)
        for i in range(len(labels))
    ]
    assert allocation.within_quantile(labels, score, ratio).tolist() == expected


def test_trimming_agrees_with_the_quantile_for_every_size_of_class():
    for size in range(3, 130):
        score = np.random.default_rng(size).permutation(np.linspace(-1, 1, size))
        reaches = allocation.within_quantile(np.zeros(size, np.int64), score, 0.05)
        np.testing.assert_array_equal(reaches, score >= np.quantile(score, 0.05), err_msg=f"class of {size}")


def test_a_quantile_that_falls_on_a_candidate_keeps_it_in_spite_of_rounding():
    # (141 − 1) · 0.05 is 7.000000000000001 in binary; the seventh from below lies on the quantile, not under it.
    reaches = allocation.within_quantile(np.zeros(141, np.int64), np.arange(141.0), 0.05)
    np.testing.assert_array_equal(np.flatnonzero(~reaches), np.arange(7))


def naive_k_center(vectors, eligible, retained, count):
    """Eq. 11, word for word."""
    kept, picks = list(retained), []
    while len(picks) < min(count, len(eligible)):
        left = [i for i in eligible if i not in picks]
        distance = [min(round(1 - float(vectors[i] @ vectors[j]), 10) for j in kept) for i in left]
        picks.append(left[distance.index(max(distance))])
        kept.append(picks[-1])
    return picks


@st.composite
def vectors_and_start(draw):
    n = draw(st.integers(1, 12))
    features = draw(arrays(np.float64, (n, draw(st.integers(1, 3))), elements=st.integers(-2, 2)))
    roles = draw(st.lists(st.sampled_from(["retained", "eligible", "neither"]), min_size=n, max_size=n))
    roles[draw(st.integers(0, n - 1))] = "retained"
    named = {role: np.array([i for i in range(n) if roles[i] == role], np.int64) for role in ("eligible", "retained")}
    return normalise(features), named["eligible"], named["retained"], draw(st.integers(0, n + 1))


@settings(max_examples=600, deadline=None)
@given(vectors_and_start(), st.integers(1, 8))
def test_k_center_is_equation_11_whatever_the_block(case, block_size):
    assert allocation.k_center(*case, block_size).tolist() == naive_k_center(*case)


@pytest.mark.parametrize("spread", [0.01, 0.3, 3.0])
@pytest.mark.parametrize("block_size", [1, 16, allocation.BLOCK])
def test_k_center_is_equation_11_on_clustered_features(spread, block_size):
    rng = np.random.default_rng(5)
    vectors = normalise(rng.normal(size=(9, 12))[rng.integers(9, size=90)] + spread * rng.normal(size=(90, 12)))
    case = vectors, np.arange(6, 90), np.arange(6), 40
    assert allocation.k_center(*case, block_size).tolist() == naive_k_center(*case)


def test_k_center_crosses_its_block_size_without_a_seam():
    rng = np.random.default_rng(6)
    n = allocation.BLOCK * 2 + 7
    vectors = normalise(rng.normal(size=(20, 8))[rng.integers(20, size=n)] + 0.2 * rng.normal(size=(n, 8)))
    case = vectors, np.arange(1, n), np.arange(1), n
    assert allocation.k_center(*case).tolist() == allocation.k_center(*case, block_size=n).tolist()
