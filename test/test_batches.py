"""Mixed batches: 20 + 10 + 10 of the active group, drawn as the paper says."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from aerial_vpr_cl.learning.batches import BatchSizes, Sources, plan_batches, views_of

N_CLASSES = 16


def sources(current, exemplar, replay, n_groups=4):
    groups = np.arange(N_CLASSES) % n_groups
    return Sources(*[np.array(labels, np.int64) for labels in (current, exemplar, replay)], groups, n_groups)


labels = st.lists(st.integers(0, N_CLASSES - 1), max_size=60)


@given(labels, labels, labels, st.integers(0, 5))
@settings(max_examples=200)
def test_every_row_of_a_batch_is_of_the_active_group_and_every_source_has_its_share(current, exemplar, replay, seed):
    given_sources = sources(current, exemplar, replay)
    plan = plan_batches(given_sources, BatchSizes(), epochs=8, n_views=3, rng=np.random.default_rng(seed))
    for batch in plan:
        assert batch.group == batch.epoch % 4
        for views, own, size in zip(batch.views, (current, exemplar, replay), (20, 10, 10)):
            available = [label for label in own if label % 4 == batch.group]
            assert len(views) == (size if available else 0)
            assert all(own[image] % 4 == batch.group and 0 <= view < 3 for image, view in views)


@given(labels)
def test_an_epoch_passes_over_every_current_sample_of_its_group(current):
    plan = plan_batches(sources(current, [], []), BatchSizes(), epochs=4, n_views=1, rng=np.random.default_rng(0))
    seen = {int(image) for batch in plan for image in batch.views[0][:, 0]}
    assert seen == set(range(len(current)))


def test_groups_without_current_samples_are_skipped():
    plan = plan_batches(
        sources([1, 1, 5], [0, 1], [0]), BatchSizes(), epochs=8, n_views=1, rng=np.random.default_rng(0)
    )
    assert [batch.epoch for batch in plan] == [1, 5]


def test_exemplars_are_drawn_class_first_so_that_a_class_with_many_images_does_not_dominate():
    exemplar = [0] * 1000 + [4, 8, 12]
    plan = plan_batches(
        sources([0] * 400, exemplar, []), BatchSizes(), epochs=40, n_views=1, rng=np.random.default_rng(0)
    )
    drawn = np.array([exemplar[image] for batch in plan for image in batch.views[1][:, 0]])
    assert abs((drawn == 0).mean() - 0.25) < 0.05


def test_the_plan_follows_from_the_seed():
    given_sources = sources(range(16), range(16), range(16))
    first, second = (
        plan_batches(given_sources, BatchSizes(), epochs=8, n_views=4, rng=np.random.default_rng(7)) for _ in range(2)
    )
    for one, other in zip(first, second):
        assert all(np.array_equal(a, b) for a, b in zip(one.views, other.views))


def test_every_view_of_a_plan_is_listed_once():
    plan = plan_batches(
        sources(range(16), range(16), range(16)), BatchSizes(), epochs=8, n_views=2, rng=np.random.default_rng(0)
    )
    keys = list(views_of(plan))
    used = {(source, int(i), int(v)) for batch in plan for source, views in enumerate(batch.views) for i, v in views}
    assert len(keys) == len(set(keys)) and set(keys) == used
