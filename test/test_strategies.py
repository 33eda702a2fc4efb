"""Selection strategies by name: references from the paper, hard pools, chance that is fair."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from aerial_vpr_cl.errors import ModelError, SettingsError
from aerial_vpr_cl.memory.strategies import STRATEGIES, Pool, SelectionSettings, select

KEEP_EVERY_CELL = [
    *("lbs", "dbs", "dbs_hybrid", "lbs_hybrid", "round_robin_lbs", "round_robin_dbs"),
    *("representative_only", "herding"),
]


@st.composite
def pools(draw):
    """Small pools of small whole numbers: zero vectors, duplicates, ties, single classes and crowded ones."""
    n, d = draw(st.integers(0, 12)), draw(st.integers(1, 3))
    rows = draw(arrays(np.float32, (6, d), elements=st.integers(-2, 2)))
    labels = draw(arrays(np.int64, n, elements=st.integers(0, draw(st.integers(0, 5)))))
    pool = Pool(
        features=draw(arrays(np.float32, (n, d), elements=st.integers(-2, 2))),
        labels=labels,
        prototypes=rows[labels],
        losses=draw(arrays(np.float64, n, elements=st.integers(0, 3))),
        missions=np.sort(draw(arrays(np.int64, n, elements=st.integers(0, 3)))),
        n_stored=draw(st.integers(0, n)),
        seen=draw(st.integers(0, 30)),
    )
    return pool, draw(st.integers(0, n + 2))


def random_pool(n, d=16, classes=9, seed=0, stored=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(classes, d))
    labels = rng.integers(classes, size=n)
    features = rows[labels] + rng.normal(size=(n, d))
    return Pool(features, labels, rows[labels], rng.exponential(size=n), np.sort(rng.integers(4, size=n)), stored, 0)


class Reference:
    """The paper's section 4.4 on lists, with every sum and maximum written out."""

    def __init__(self, pool: Pool) -> None:
        self.n = len(pool.labels)
        self.labels = np.asarray(pool.labels).tolist()
        self.classes = sorted(set(self.labels))
        self.z = [self.unit(x) for x in pool.features]
        self.w = [self.unit(x) for x in pool.prototypes]
        self.loss = np.asarray(pool.losses, float).tolist()

    @staticmethod
    def unit(x):
        x = np.asarray(x, float)
        return x / max(np.linalg.norm(x), 1e-12)

    def members(self, c):
        return [i for i in range(self.n) if self.labels[i] == c]

    def sim(self, i):
        return round(float(self.z[i] @ self.w[i]), 10)

    def sigma_dbs(self, i):
        return -round(sum(float(self.z[i] @ self.z[j]) for j in range(self.n) if j != i) + self.sim(i), 10)

    def best(self, candidates, score):
        return sorted(candidates, key=lambda i: (-score(i), i))

    def select(self, name, budget):
        utility = self.loss.__getitem__ if "lbs" in name else self.sigma_dbs
        if name.startswith("global"):
            return self.best(range(self.n), utility)[:budget]
        if name.startswith("round_robin"):
            ordered = [self.best(self.members(c), utility) for c in self.classes]
            return [o[turn] for turn in range(self.n) for o in ordered if turn < len(o)][:budget]
        if name in ("lbs", "dbs"):
            kept = self.best([self.best(self.members(c), utility)[0] for c in self.classes], utility)
            return (kept + self.best([i for i in range(self.n) if i not in kept], utility))[:budget]
        if name == "k_center_only":
            first = self.best(range(self.n), self.sim)[: min(1, budget)]
            return self.cover(first, range(self.n), budget)
        kept = [self.best(self.members(c), self.sim)[0] for c in self.classes]
        if len(kept) > budget:
            return kept[:budget]
        residual = [i for i in range(self.n) if i not in kept]
        if name == "representative_only":
            return (kept + self.best(residual, self.sim))[:budget]
        q = self.loss.__getitem__ if name == "lbs_hybrid" else self.sim
        trimmed = []
        for c in self.classes:
            members = self.members(c)
            threshold = np.quantile([q(i) for i in members], 0.05) if len(members) > 2 else -np.inf
            trimmed += [i for i in members if i in residual and q(i) >= threshold]
        kept = self.cover(kept, sorted(trimmed), budget)
        return (kept + self.best([i for i in residual if i not in trimmed], q))[:budget]

    def cover(self, kept, candidates, budget):
        kept = list(kept)
        while kept and len(kept) < budget and any(i not in kept for i in candidates):
            left = [i for i in candidates if i not in kept]
            near = [min(round(1 - float(self.z[i] @ self.z[j]), 10) for j in kept) for i in left]
            kept.append(left[near.index(max(near))])
        return kept


REFERENCED = [name for name in STRATEGIES if name not in ("random", "reservoir", "herding", "balanced")]


@pytest.mark.parametrize("name", REFERENCED)
@settings(max_examples=200, deadline=None)
@given(pools())
def test_strategy_equals_the_reference_on_pools_full_of_ties(name, case):
    pool, budget = case
    assert select(name, pool, budget, np.random.default_rng(0)).tolist() == Reference(pool).select(name, budget)


@pytest.mark.parametrize("name", REFERENCED)
@pytest.mark.parametrize("budget", [3, 9, 40, 118, 130])
def test_strategy_equals_the_reference_on_a_larger_pool(name, budget):
    pool = random_pool(120, classes=4, seed=budget)
    assert select(name, pool, budget, np.random.default_rng(0)).tolist() == Reference(pool).select(name, budget)


@settings(max_examples=250, deadline=None)
@given(pools(), st.integers(0, 2**32 - 1))
def test_every_strategy_returns_as_many_distinct_candidates_as_fit_and_repeats_itself(case, seed):
    pool, budget = case
    for name in STRATEGIES:
        chosen = select(name, pool, budget, np.random.default_rng(seed))
        assert chosen.dtype.kind == "i" and chosen.shape == (min(budget, len(pool)),)
        assert len(set(chosen.tolist())) == len(chosen) and set(chosen.tolist()) <= set(range(len(pool)))
        assert chosen.tolist() == select(name, pool, budget, np.random.default_rng(seed)).tolist()


@settings(max_examples=200, deadline=None)
@given(pools())
def test_a_represented_cell_is_kept_whenever_the_budget_allows(case):
    pool, budget = case
    cells = set(np.asarray(pool.labels).tolist())
    for name in KEEP_EVERY_CELL:
        kept = set(pool.labels[select(name, pool, budget, np.random.default_rng(0))].tolist())
        assert len(kept) == min(budget, len(cells))


@settings(max_examples=200, deadline=None)
@given(pools())
def test_a_smaller_budget_takes_a_beginning_of_the_larger_selection(case):
    pool, budget = case
    for name in STRATEGIES:
        if name != "reservoir":  # its order is that of slots, not of value
            larger = select(name, pool, budget + 1, np.random.default_rng(0)).tolist()
            assert select(name, pool, budget, np.random.default_rng(0)).tolist() == larger[:budget]


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("vector", [[0.0] * 4, [1.0, 2.0, 3.0, 4.0]])
def test_identical_candidates_of_one_class_are_no_trouble(name, vector):
    pool = Pool(np.tile(vector, (50, 1)), np.full(50, 3), np.tile(vector, (50, 1)), np.ones(50), np.zeros(50), 20, 70)
    assert len(set(select(name, pool, 30, np.random.default_rng(0)).tolist())) == 30


def test_identical_candidates_are_taken_in_their_order():
    vector = np.random.default_rng(0).normal(size=64)
    pool = Pool(np.tile(vector, (50, 1)), np.full(50, 3), np.tile(vector, (50, 1)), np.ones(50), np.zeros(50))
    for name in [*REFERENCED, "herding"]:
        assert select(name, pool, 30, np.random.default_rng(0)).tolist() == list(range(30)), name


@pytest.mark.parametrize("name", STRATEGIES)
def test_an_empty_pool_or_an_empty_budget_selects_nothing(name):
    empty = Pool(np.empty((0, 4)), [], np.empty((0, 4)), [], [])
    assert len(select(name, empty, 5, np.random.default_rng(0))) == 0
    assert len(select(name, random_pool(7), 0, np.random.default_rng(0))) == 0


def test_an_unknown_strategy_is_answered_with_the_valid_names():
    with pytest.raises(SettingsError, match=r"'dsb'.*random.*dbs_hybrid.*balanced"):
        select("dsb", random_pool(3), 2, np.random.default_rng(0))
    with pytest.raises(SettingsError, match="-1"):
        select("dbs", random_pool(3), -1, np.random.default_rng(0))


def test_a_pool_must_fit_together_and_hold_numbers():
    with pytest.raises(ValueError, match="losses has 2"):
        Pool(np.ones((3, 2)), [0, 0, 1], np.ones((3, 2)), [1.0, 2.0], [0, 0, 0])
    with pytest.raises(ValueError, match="4 stored"):
        Pool(np.ones((1, 2)), [0], np.ones((1, 2)), [1.0], [0], n_stored=4)
    with pytest.raises(ModelError, match="features"):
        Pool(np.full((1, 2), np.nan), [0], np.ones((1, 2)), [1.0], [0])


def test_settings_change_the_selection():
    pool = random_pool(60, classes=2)
    trimmed = [
        select("dbs_hybrid", pool, 50, np.random.default_rng(0), SelectionSettings(trim_ratio=ratio)).tolist()
        for ratio in (0.0, 0.5)
    ]
    assert trimmed[0] != trimmed[1]


def test_random_keeps_every_candidate_equally_often():
    pool, rng = random_pool(12), np.random.default_rng(1)
    counts = np.bincount(np.concatenate([select("random", pool, 5, rng) for _ in range(4000)]), minlength=12)
    assert chi_square(counts, 4000 * 5 / 12) < 31.3  # 0.1 % for 11 degrees of freedom


def test_reservoir_keeps_every_frame_of_all_missions_equally_often():
    rng, sizes, budget, runs = np.random.default_rng(2), [3, 8, 1, 0, 12], 6, 6000
    counts = np.zeros(sum(sizes), int)
    for _ in range(runs):
        stored = np.empty(0, np.int64)  # numbers of frames in the whole stream
        seen = 0
        for size in sizes:
            stream = np.concatenate([stored, seen + np.arange(size)])
            n = len(stream)
            pool = Pool(np.zeros((n, 1)), np.zeros(n), np.zeros((n, 1)), np.zeros(n), np.zeros(n), len(stored), seen)
            stored = stream[select("reservoir", pool, budget, rng)]
            seen += size
        counts[stored] += 1
    assert counts.sum() == runs * budget
    # Draws within one run exclude each other, which makes the statistic a little smaller than chi-square.
    assert chi_square(counts, runs * budget / sum(sizes)) < 49.7  # 0.1 % for 23 degrees of freedom


def test_reservoir_leaves_stored_frames_in_their_slots_unless_replaced():
    pool = random_pool(30, stored=20)
    pool = Pool(pool.features, pool.labels, pool.prototypes, pool.losses, pool.missions, n_stored=20, seen=400)
    chosen = select("reservoir", pool, 20, np.random.default_rng(3))
    for slot, candidate in enumerate(chosen):
        assert candidate == slot or candidate >= 20


def test_balanced_gives_missions_and_their_cells_equal_shares_and_passes_over_the_exhausted():
    missions = np.array(["b"] * 2 + ["a"] * 20 + ["c"] * 20)
    labels = np.array([0, 0] + [1] * 18 + [2, 2] + [3] * 10 + [4] * 10)
    n = len(labels)
    pool = Pool(np.ones((n, 1)), labels, np.ones((n, 1)), np.ones(n), missions)
    chosen = select("balanced", pool, 14, np.random.default_rng(0))
    assert Counter(missions[chosen]) == {"b": 2, "a": 6, "c": 6}
    assert Counter(labels[chosen].tolist()) == {0: 2, 1: 4, 2: 2, 3: 3, 4: 3}
    assert missions[chosen][:6].tolist() == ["b", "a", "c"] * 2


def chi_square(counts, expected):
    return float(((counts - expected) ** 2 / expected).sum())
