import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aerial_vpr_cl.errors import ModelError
from aerial_vpr_cl.model.aggregation import AGGREGATIONS, GeM, Salad, SaladSettings, assign, build_aggregation

TINY = SaladSettings(clusters=3, cluster_dim=4, global_dim=5, hidden_dim=8)


def maps(batch=2, dim=6, side=4, seed=0):
    return torch.randn(batch, dim, side, side, generator=torch.Generator().manual_seed(seed))


def slow_mean(x):
    """The generalised mean written out, one number after the other."""
    pooled = []
    for feature in x:
        patches = [max(float(value), 1e-6) for value in feature.flatten()]
        pooled.append((sum(value**3 for value in patches) / len(patches)) ** (1 / 3))
    return np.array(pooled)


def unit(x):
    return x / math.sqrt(sum(float(value) ** 2 for value in x))


def slow_sinkhorn(scores, dustbin, iterations):
    """Rows and columns of exp(scores) scaled in turn to their masses, without logarithms."""
    clusters, patches = scores.shape
    plan = np.exp(np.vstack([scores, np.full(patches, dustbin)]))
    received = [1.0] * clusters + [patches - clusters]
    for _ in range(iterations):
        for row in range(clusters + 1):
            plan[row] *= received[row] / plan[row].sum()
        for column in range(patches):
            plan[:, column] /= plan[:, column].sum()
    return plan[:clusters]


def slow_salad(module, x):
    """Descriptor of one (D, H, W) map, patch by patch and cluster by cluster."""
    weights = {name: value.detach().double().numpy() for name, value in module.state_dict().items()}

    def mlp(name, vector, last):
        hidden = weights[f"{name}.0.weight"].reshape(TINY.hidden_dim, -1) @ vector + weights[f"{name}.0.bias"]
        return (
            weights[f"{name}.{last}.weight"].reshape(-1, TINY.hidden_dim) @ np.maximum(hidden, 0)
            + weights[f"{name}.{last}.bias"]
        )

    patches = x.double().flatten(1).numpy().T
    scores = np.array([mlp("score", patch, 3) for patch in patches]).T
    features = np.array([mlp("cluster_features", patch, 3) for patch in patches])
    plan = slow_sinkhorn(scores, float(weights["dustbin"]), TINY.iterations)
    scene = mlp("global_features", patches.mean(axis=0), 2)
    clusters = np.zeros((TINY.cluster_dim, TINY.clusters))
    for cluster in range(TINY.clusters):
        for patch in range(len(patches)):
            clusters[:, cluster] += plan[cluster, patch] * features[patch]
        clusters[:, cluster] /= np.linalg.norm(clusters[:, cluster])
    descriptor = np.concatenate([scene / np.linalg.norm(scene), clusters.flatten()])
    return descriptor / np.linalg.norm(descriptor)


def test_gem_equals_the_mean_written_out():
    expected = np.stack([unit(slow_mean(x)) for x in maps()])
    np.testing.assert_allclose(GeM(6)(maps()), expected, atol=1e-6)


def test_gem_has_no_parameters_and_finite_gradients_also_where_nothing_is_positive():
    gem = GeM(6)
    assert not list(gem.parameters()) and not list(gem.buffers())
    x = (-maps().abs()).requires_grad_()
    gem(x).sum().backward()
    assert torch.isfinite(x.grad).all()


def test_gem_computes_in_full_precision_under_autocast():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert GeM(6)(maps().bfloat16()).dtype == torch.float32


@pytest.mark.parametrize("side", [4, 5])
def test_quarters_tell_where_in_the_view_a_feature_lies(side):
    half, rest = (side + 1) // 2, side // 2
    corners = [
        (rows, columns) for rows in (slice(half), slice(rest, None)) for columns in (slice(half), slice(rest, None))
    ]
    expected = [
        unit(np.stack([slow_mean(x[:, corner[0], corner[1]]) for corner in corners], axis=1).flatten())
        for x in maps(side=side)
    ]
    np.testing.assert_allclose(build_aggregation("quarters", 6)(maps(side=side)), expected, atol=1e-6)
    one_corner = torch.zeros(1, 6, side, side)
    one_corner[0, 2, 0, -1] = 1.0  # north-east
    assert build_aggregation("quarters", 6)(one_corner).argmax() == 2 * 4 + 1
    assert torch.equal(GeM(6)(one_corner), GeM(6)(one_corner.flip(3)))  # which GeM cannot tell


def test_salad_equals_the_slow_reference():
    salad = build_aggregation("salad", 6, TINY, seed=1).eval()
    with torch.no_grad():
        fast = salad(maps())
    assert fast.shape == (2, 5 + 3 * 4) == (2, salad.output_dim)
    np.testing.assert_allclose(fast, np.stack([slow_salad(salad, x) for x in maps()]), atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(1, 20), st.floats(-3, 3), st.integers(0, 100))
def test_sinkhorn_gives_patches_mass_one_and_clusters_their_share(clusters, more, dustbin, seed):
    scores = torch.randn(1, clusters, clusters + more, generator=torch.Generator().manual_seed(seed))
    plan = assign(scores, torch.tensor(dustbin), 3)[0]
    np.testing.assert_allclose(plan, slow_sinkhorn(scores[0].double().numpy(), dustbin, 3), atol=1e-5)
    assert (plan.sum(dim=0) <= 1 + 1e-5).all()
    converged = assign(scores, torch.tensor(dustbin), 500)[0]
    np.testing.assert_allclose(converged.sum(dim=1), 1, atol=1e-3)


def test_sinkhorn_survives_scores_whose_exponentials_overflow():
    scores = (maps(1, 3, 4).flatten(2) * 300).requires_grad_()
    plan = assign(scores, torch.tensor(1.0), 3)
    plan.square().sum().backward()
    assert torch.isfinite(plan).all() and torch.isfinite(scores.grad).all()


def test_every_parameter_of_salad_learns():
    salad = build_aggregation("salad", 6, TINY)
    (salad(maps()) * torch.randn(17, generator=torch.Generator().manual_seed(2))).sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in salad.parameters())


def test_salad_has_its_authors_sizes_by_default():
    salad = build_aggregation("salad", 768)
    assert salad.output_dim == 256 + 64 * 128
    assert sum(parameter.numel() for parameter in salad.score.parameters()) == 768 * 512 + 512 + 512 * 64 + 64


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_descriptors_have_length_one_and_parameters_follow_the_seed(name):
    one, same = (build_aggregation(name, 6, TINY, seed=4).eval() for _ in range(2))
    descriptors = one(maps(batch=3))
    torch.testing.assert_close(descriptors.norm(dim=1), torch.ones(3))
    assert torch.equal(descriptors, same(maps(batch=3)))


def test_unknown_aggregations_and_too_many_clusters_are_refused():
    with pytest.raises(ModelError, match="gem, quarters, salad"):
        build_aggregation("netvlad", 6)
    with pytest.raises(ModelError, match="fewer clusters"):
        Salad(6, TINY)(maps(side=1))
