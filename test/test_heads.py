import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.model.heads import GroupedHeads

DIM = 8
GRID = Grid(32632, 200.0, 2, np.array([(i, j) for i in range(4) for j in range(5)]))
SPARSE = Grid(32632, 200.0, 3, np.array([(0, 0), (0, 3), (1, 1)]))  # 9 groups, 7 of them without a class


def features(n, seed=0, dim=DIM):
    return F.normalize(torch.randn(n, dim, generator=torch.Generator().manual_seed(seed)), dim=1)


def slow_logits(heads, grid, z, group, labels=None):
    """s·cos(θ + m) written with the angle itself, one feature and class at a time."""
    table = []
    for i, feature in enumerate(z.detach().double().numpy()):
        row = []
        for r, class_id in enumerate(grid.classes_of_group(group)):
            w = heads.weights[group][r].detach().double().numpy()
            cos = float(feature @ w / np.linalg.norm(feature) / np.linalg.norm(w))
            if labels is not None and class_id == labels[i] and cos > 0:
                cos = math.cos(math.acos(cos) + heads.margin)
            row.append(heads.scale * cos)
        table.append(row)
    return np.array(table)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 3), st.floats(0, 0.5), st.sampled_from([30.0, 100.0]))
def test_angular_margin_equals_the_angle_written_out(seed, group, margin, scale):
    heads = GroupedHeads(GRID, DIM, margin=margin, scale=scale, seed=seed)
    z = features(6, seed)
    labels = torch.from_numpy(np.random.default_rng(seed).choice(GRID.classes_of_group(group), 6))
    with torch.no_grad():
        np.testing.assert_allclose(
            heads.logits(z, group, labels), slow_logits(heads, GRID, z, group, labels), atol=2e-3
        )
        np.testing.assert_allclose(heads.logits(z, group), slow_logits(heads, GRID, z, group), atol=1e-3)


def test_the_margin_is_left_out_where_the_angle_is_obtuse():
    heads = GroupedHeads(GRID, DIM)
    label = torch.from_numpy(GRID.classes_of_group(1)[:1])
    z = -heads.prototypes(label)
    torch.testing.assert_close(heads.logits(z, 1, label), heads.logits(z, 1), atol=1e-4, rtol=0)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_gradients_are_finite_where_feature_and_class_coincide_or_oppose(sign):
    heads = GroupedHeads(GRID, DIM)
    labels = torch.from_numpy(GRID.classes_of_group(2))
    z = (sign * heads.prototypes(labels)).requires_grad_()
    losses = heads.cross_entropy(z, labels, 2)
    losses.sum().backward()
    assert torch.isfinite(losses).all()
    assert torch.isfinite(z.grad).all() and torch.isfinite(heads.weights[2].grad).all()


def test_gradients_are_those_of_the_formula_with_the_angle():
    heads = GroupedHeads(GRID, DIM, scale=10.0)
    labels = torch.from_numpy(GRID.classes_of_group(0))
    z = features(len(labels), 3).requires_grad_()
    reference = z.detach().double().requires_grad_()
    heads.cross_entropy(z, labels, 0).sum().backward()
    w = F.normalize(heads.weights[0].detach().double(), dim=1)
    cosines = F.normalize(reference, dim=1) @ w.T
    rows = torch.arange(len(labels))
    target = cosines[rows, rows]
    target = torch.where(target > 0, torch.cos(torch.acos(target) + heads.margin), target)
    F.cross_entropy(10 * cosines.index_put((rows, rows), target), rows, reduction="sum").backward()
    torch.testing.assert_close(z.grad.double(), reference.grad, atol=1e-5, rtol=1e-4)


def test_losses_with_and_without_margin():
    heads = GroupedHeads(GRID, DIM, scale=10.0)
    labels = torch.from_numpy(GRID.classes_of_group(3))
    z = heads.prototypes(labels)
    bare = heads.cross_entropy(z, labels, 3, margin=False)
    expected = -torch.log_softmax(heads.logits(z, 3), dim=1).diagonal()
    torch.testing.assert_close(bare, expected)
    assert (heads.cross_entropy(z, labels, 3) > bare).all()


@pytest.mark.parametrize("grid", [GRID, SPARSE])
def test_cosines_stand_in_class_order_whatever_the_groups(grid):
    heads = GroupedHeads(grid, DIM)
    z = features(5)
    scores = heads.cosines(z)
    assert scores.shape == (5, grid.n_classes)
    for class_id in range(grid.n_classes):
        group = int(grid.groups[class_id])
        row = list(grid.classes_of_group(group)).index(class_id)
        torch.testing.assert_close(scores[:, class_id], F.cosine_similarity(z, heads.weights[group][row][None]))
    everyone = torch.arange(grid.n_classes)
    assert torch.equal(heads.cosines(heads.prototypes(everyone)).argmax(dim=1), everyone)


def test_a_group_without_classes_has_an_empty_head():
    heads = GroupedHeads(SPARSE, DIM)
    empty = next(group for group in range(9) if not len(SPARSE.classes_of_group(group)))
    assert heads.logits(features(4), empty).shape == (4, 0)
    assert not heads.weights[empty].requires_grad
    nothing = torch.empty(0, dtype=torch.int64)
    assert heads.cross_entropy(features(4)[:0], nothing, int(SPARSE.groups[0])).shape == (0,)


def test_heads_compute_in_full_precision_under_autocast():
    heads = GroupedHeads(GRID, DIM)
    z, labels = features(6), torch.from_numpy(GRID.classes_of_group(0))
    expected = heads.logits(z, 0, labels), heads.cosines(z)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = heads.logits(z, 0, labels), heads.cosines(z)
    assert all(torch.equal(*pair) for pair in zip(expected, found))
    assert heads.cosines(z.half()).dtype == torch.float32


def test_labels_of_another_group_or_outside_the_grid_are_refused():
    heads = GroupedHeads(GRID, DIM)
    wrong = torch.from_numpy(GRID.classes_of_group(1)[:2])
    with pytest.raises(ValueError, match="active group 0"):
        heads.logits(features(2), 0, wrong)
    for label in (-1, GRID.n_classes):
        with pytest.raises(ValueError, match="class ids"):
            heads.cross_entropy(features(1), torch.tensor([label]), 0)


def test_rows_point_where_they_are_told_and_keep_their_lengths():
    for grid in (GRID, SPARSE):
        heads = GroupedHeads(grid, DIM)
        lengths = [weight.norm(dim=1).detach().clone() for weight in heads.weights]
        directions = 7.0 * features(grid.n_classes, seed=3)
        heads.point_at(directions)
        torch.testing.assert_close(heads.unit_rows(), directions / 7.0)
        for weight, length in zip(heads.weights, lengths):
            torch.testing.assert_close(weight.norm(dim=1), length)
        assert heads.cosines(directions).argmax(dim=1).tolist() == list(range(grid.n_classes))


def test_weights_are_xavier_and_follow_the_seed():
    grid = Grid(32632, 200.0, 1, np.array([(i, j) for i in range(30) for j in range(30)]))
    one, same, other = (GroupedHeads(grid, 64, seed=seed) for seed in (1, 1, 2))
    weights = one.weights[0].detach()
    assert torch.equal(weights, same.weights[0]) and not torch.equal(weights, other.weights[0])
    assert weights.abs().max() <= math.sqrt(6 / (900 + 64))
    assert float(weights.std()) == pytest.approx(math.sqrt(2 / (900 + 64)), rel=0.02)
