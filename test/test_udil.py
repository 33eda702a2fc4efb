"""UDIL's terms and its bound against a slow reference, and that its discriminator learns and remembers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from method_support import (
    GRID,
    STEP_1,
    STEP_3,
    begin,
    features_of,
    learnt,
    mixed_batch,
    observation,
    slow_ces,
    slow_kl,
    slow_logits,
    slow_total,
    softmax,
    tiny_network,
)
from torch import nn

from aerial_vpr_cl.learning.batches import CURRENT, REPLAY
from aerial_vpr_cl.learning.method_options import UdilOptions
from aerial_vpr_cl.learning.methods import method_of
from aerial_vpr_cl.learning.methods.base import Batch, MissionStep
from aerial_vpr_cl.learning.methods.udil import discriminator, supervised_contrast
from aerial_vpr_cl.learning.methods.udil_bound import Coefficients, domain_divergence, per_domain
from aerial_vpr_cl.learning.optimisers import Optimisers


@pytest.fixture
def network():
    return tiny_network()


@pytest.fixture
def changed(network):
    return learnt(network)


def slow_contrast(features, labels, temperature):
    terms = []
    for i in range(len(labels)):
        partners = [j for j in range(len(labels)) if j != i and labels[j] == labels[i]]
        if partners:
            sims = {j: -np.sum((features[i] - features[j]) ** 2) / temperature for j in range(len(labels)) if j != i}
            total = sum(math.exp(s) for s in sims.values())
            terms.append(-np.mean([sims[j] - math.log(total) for j in partners]))
    return np.mean(terms) if terms else 0.0


def test_contrast_pulls_classes_together_by_squared_distance():
    rng = np.random.default_rng(1)
    features, labels = rng.normal(size=(8, 3)) / 4, np.array([0, 0, 1, 2, 1, 1, 3, 0])
    found = supervised_contrast(torch.tensor(features), torch.tensor(labels), 0.07)
    assert float(found) == pytest.approx(slow_contrast(features, labels, 0.07), rel=1e-6)
    assert float(supervised_contrast(torch.tensor(features), torch.arange(8), 0.07)) == 0.0


def test_udil_combines_its_terms_as_the_paper_says(network, changed):
    batch = mixed_batch()
    method = method_of("udil")
    begin(method, network, STEP_3, batch)
    z, z_changed, labels = features_of(network, batch), features_of(changed, batch), batch.labels.numpy()
    ces = slow_ces(changed, batch)
    old = [slow_logits(network, z[i], 1) for i in range(7)] + [e.logits.astype(float) for e in batch.replayed]
    kl = np.array([slow_kl(old[i], slow_logits(changed, z_changed[i], 1)) for i in range(10)])
    third = 1 / 3  # softmax of zeros: α = β = γ for both past missions, so the sum of β is two thirds
    expected = ces[:4].mean() + ces[4:7].mean()
    for part in (kl[:4].mean(), kl[4:7].mean()):
        expected += 2 * third * part * (part < 2)
    for rows in ([7, 9], [8]):  # the missions "first" and "second"
        expected += third * ces[rows].mean() + third * kl[rows].mean()
    airborne = [0, 1, 2, 3, 7, 8, 9]
    expected += 0.1 * slow_contrast(z_changed[airborne], labels[airborne], 0.07)
    assert float(method.loss(changed, batch)) == pytest.approx(expected, rel=1e-4)


def test_udil_aligns_missions_and_holds_on_to_their_features_in_a_step_of_the_tail_alone(network, changed):
    batch = mixed_batch()
    method = method_of("udil")
    begin(method, network, STEP_3, batch)
    z_changed = features_of(changed, batch)
    expected = 10 * np.mean([np.sum((z_changed[7 + i] - e.feature) ** 2) for i, e in enumerate(batch.replayed)])
    with torch.no_grad():
        belief = method.discriminator(torch.tensor(z_changed[[0, 1, 2, 3, 7, 8, 9]], dtype=torch.float32)).double()
    shares = [0.25] * 4 + [0.25, 0.5, 0.25]
    # The first k + 1 outputs: one for each of the three missions, and one for missions unknown.
    expected -= 0.1 * sum(w * -math.log(softmax(row[:4]).max()) for w, row in zip(shares, belief.numpy()))
    assert float(method.tail_loss(changed, batch)) == pytest.approx(expected, rel=1e-4)
    heads = {name: value.clone() for name, value in changed.living_tensors().items() if name.startswith("heads")}
    optimisers = Optimisers(changed, 1e-2, 1e-2, patience=1)
    optimisers.step_tail(method.tail_loss(changed, batch))
    assert all(torch.equal(value, changed.living_tensors()[name]) for name, value in heads.items())
    assert not np.allclose(features_of(changed, batch), z_changed)


def test_udil_of_the_first_mission_is_classification_and_contrast(network, changed):
    batch = mixed_batch(n=(4, 3, 0), missions=())
    method = method_of("udil")
    begin(method, network, STEP_1)
    z = features_of(changed, batch)
    expected = slow_total(changed, batch) + 0.1 * slow_contrast(z[:4], batch.labels.numpy()[:4], 0.07)
    assert float(method.loss(changed, batch)) == pytest.approx(expected, rel=1e-5)
    method.before_step(changed, batch)
    assert method.tail_loss(changed, batch) is None
    assert method.coefficients[1].weights().shape == (3, 0)


def test_udil_does_not_distil_current_samples_that_have_moved_far(network, changed):
    batch = mixed_batch()
    method = method_of("udil")
    begin(method, network, STEP_3, batch)
    kl = []
    for z, z_changed in zip(features_of(network, batch), features_of(changed, batch)):
        kl.append(slow_kl(slow_logits(network, z, 1), slow_logits(changed, z_changed, 1)))
    losses = []
    for limit in (0.0, 1e9):
        method.options = UdilOptions(distillation_limit=limit)
        losses.append(float(method.loss(changed, batch)))
    assert losses[1] - losses[0] == pytest.approx(2 / 3 * (np.mean(kl[:4]) + np.mean(kl[4:7])), rel=1e-4)


def test_udil_trains_its_discriminator_and_coefficients_and_only_them_before_a_step(network):
    batch = mixed_batch()
    method = method_of("udil")
    begin(method, network, STEP_3, batch)
    before = {name: value.clone() for name, value in network.living_tensors().items()}
    guesses = [value.clone() for value in method.discriminator.parameters()]
    method.before_step(network, batch)
    assert all(torch.equal(before[name], value) for name, value in network.living_tensors().items())
    assert any(not torch.equal(old, new) for old, new in zip(guesses, method.discriminator.parameters()))
    assert not torch.equal(method.coefficients[1].logits, torch.zeros(3, 2))
    torch.testing.assert_close(method.coefficients[1].weights().sum(dim=0), torch.ones(2))


def one_mission_of_udil(network, number, state, steps, separation=3.0):
    """Learn to tell missions apart that differ by their brightness; returns the losses of the discriminator."""
    past = tuple(f"m{k}" for k in range(1, number))
    method = method_of("udil+discriminator_rate=1e-3")
    method.load_state(state)
    label = int(GRID.classes_of_group(1)[0])
    domains = [*[number] * 8, *[1 + k % (number - 1) for k in range(8)]]
    rng, losses = np.random.default_rng(number), []
    replayed = [observation(label, f"m{domain}", k) for k, domain in enumerate(domains[8:])]
    method.begin_mission(network, MissionStep(number, f"m{number}", past))
    method.begin_learning(network, [observation(label, f"m{number}")], replayed, 1e-4)
    source = torch.tensor([CURRENT] * 8 + [REPLAY] * 8)
    for _ in range(steps):
        trunk = torch.tensor(rng.normal(size=(16, 3, 2, 2)), dtype=torch.float32)
        for row, domain in enumerate(domains):
            trunk[row, domain % 3] += separation
        batch = Batch(1, trunk, torch.full((16,), label), source, replayed)
        with torch.no_grad():
            belief = method._domain_logits(network.features_of_trunk(trunk))
            losses.append(float(nn.functional.cross_entropy(belief, torch.tensor(domains))))
        method.before_step(network, batch)
    return losses, method.state()


def test_udil_tells_missions_apart_and_does_not_forget_it_with_the_next_mission(network):
    first, state = one_mission_of_udil(network, 2, {}, steps=150)
    assert np.mean(first[-20:]) < 0.5 * first[0]
    again, _ = one_mission_of_udil(network, 2, state, steps=5)
    assert np.mean(again) < 0.5 * first[0]


def test_udil_s_discriminator_grows_when_more_missions_come_than_the_paper_had(network):
    _, state = one_mission_of_udil(network, 2, {}, steps=5)
    _, later = one_mission_of_udil(network, 14, state, steps=1)
    assert len(state["discriminator.4.bias"]) == 11 and len(later["discriminator.4.bias"]) == 15


def test_udil_s_discriminator_learns_as_fast_as_the_tail_unless_told_otherwise(network):
    for name, expected in (("udil", 1e-4), ("udil+discriminator_rate=0.02", 0.02)):
        method = method_of(name)
        begin(method, network, STEP_3, mixed_batch())
        assert method._discriminator_adam.param_groups[0]["lr"] == expected


def test_udil_has_a_discriminator_of_the_papers_shape():
    layers = [layer for layer in discriminator(768, 11) if isinstance(layer, nn.Linear)]
    assert [(layer.in_features, layer.out_features) for layer in layers] == [(768, 800), (800, 800), (800, 11)]


def test_the_bound_is_that_of_udil():
    coefficients = Coefficients(
        domains=[1, 1, 2], wrong=[1, 0, 1], n_current=8, rate=2e-3, bound_weight=5.0, device=torch.device("cpu")
    )
    with torch.no_grad():
        coefficients.logits.copy_(torch.tensor([[0.3, -0.1], [0.0, 0.5], [1.0, -0.4]]))
    coefficients.divergence = torch.tensor([0.5, 1.5])
    (a1, a2), (b1, b2), (g1, g2) = coefficients.weights().double().tolist()
    wrong, differs, now = (0.2, 0.6), (0.1, 0.4), 0.7
    expected = g1 * 0.2 + g2 * 0.6 + a1 * 0.1 + a2 * 0.4 + (b1 + b2) * now
    expected += 0.5 * (b1 * 0.5 + b2 * 1.5) + (a1 + b1) * 0.5 + (a2 + b2) * 1.0
    expected += 5 * math.sqrt((1 + b1 + b2) ** 2 / 8 + (a1 + g1) ** 2 / 2 + (a2 + g2) ** 2 / 1)
    found = coefficients.bound(torch.tensor(wrong), torch.tensor(differs), torch.tensor(now))
    assert float(found) == pytest.approx(expected, rel=1e-6)
    for _ in range(50):
        coefficients.step(torch.tensor(wrong), torch.tensor(differs), torch.tensor(now), torch.tensor([math.nan, 1.0]))
    assert coefficients.divergence.tolist() == [0.5, 1.0]
    assert float(coefficients.bound(torch.tensor(wrong), torch.tensor(differs), torch.tensor(now))) < float(found)


def test_domains_that_can_be_told_apart_diverge_most():
    domains = torch.tensor([1, 1, 3, 3])
    perfect = torch.tensor([[0, 5, 0, -5], [0, 5, 0, -5], [0, -5, 0, 5], [0, -5, 0, 5]]).float()
    half = torch.tensor([[0, 1, 0, 2], [0, 2, 0, 1], [0, 1, 0, 2], [0, 2, 0, 1]]).float()
    past = torch.tensor([1, 2])
    assert domain_divergence(perfect, domains, past, 3)[0] == 2.0
    assert domain_divergence(half, domains, past, 3)[0] == 0.0
    assert domain_divergence(perfect, domains, past, 3)[1].isnan()


def test_means_by_domain_are_zero_where_there_is_none():
    assert per_domain(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 2]), 3).tolist() == [2.0, 0.0, 5.0]
