"""Every method's loss against a slow reference written from the paper's equations, and what must vanish when."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
import torch
from torch import nn

from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.evaluation.tables import METHOD_TITLES
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.learning.batches import CURRENT, EXEMPLAR, REPLAY
from aerial_vpr_cl.learning.method_options import UdilOptions
from aerial_vpr_cl.learning.methods import METHODS, method_of
from aerial_vpr_cl.learning.methods.base import Batch, MissionStep, frozen_copy
from aerial_vpr_cl.learning.methods.distillation import distillation
from aerial_vpr_cl.learning.methods.udil import discriminator, supervised_contrast
from aerial_vpr_cl.learning.methods.udil_bound import Coefficients, domain_divergence, per_domain
from aerial_vpr_cl.learning.optimisers import Optimisers
from aerial_vpr_cl.learning.selection import select_replay
from aerial_vpr_cl.learning.trunk_outputs import TrunkOutputs
from aerial_vpr_cl.memory.buffer import Observation, ReplayBuffer
from aerial_vpr_cl.memory.strategies import STRATEGIES
from aerial_vpr_cl.model.heads import GroupedHeads
from aerial_vpr_cl.model.network import Network, NetworkSettings

GRID = Grid(32632, 200.0, 2, np.array([(i, j) for i in range(4) for j in range(4)]))
DIM = 6
SCALE, MARGIN = 10.0, 0.2
STEP_1 = MissionStep(1, "now", ())
STEP_3 = MissionStep(3, "now", ("first", "second"))


class TinyBackbone(nn.Module):
    """A trunk that does nothing and one convolution as the tail."""

    name, input_size, feature_dim, n_patches = "tiny", 2, DIM, 4
    mean, std = (0.5, 0.5, 0.5), (0.2, 0.2, 0.2)

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Identity()
        self.tail = nn.Conv2d(3, DIM, 1)


class Mean(nn.Module):
    output_dim = DIM

    def forward(self, maps):
        return nn.functional.normalize(maps.mean(dim=(2, 3)), dim=1)


def tiny_network(seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        heads = GroupedHeads(GRID, DIM, margin=MARGIN, scale=SCALE, seed=seed)
        return Network(NetworkSettings(scale=SCALE), GRID, TinyBackbone(), Mean(), heads).eval()


def observation(label, mission="first", seed=0, **outputs):
    rng = np.random.default_rng([seed, label])
    _, png = cv2.imencode(".png", rng.integers(0, 256, (4, 4, 3), dtype=np.uint8))
    return Observation(png.tobytes(), label, rng.normal(size=2), seed, mission, "VIS", **outputs)


def remembered(label, mission, seed):
    rng = np.random.default_rng([seed, label, 1])
    group = int(GRID.groups[label])
    logits = rng.normal(size=len(GRID.classes_of_group(group))).astype(np.float32)
    feature = rng.normal(size=DIM).astype(np.float32)
    return observation(label, mission, seed, logits=logits, feature=feature / np.linalg.norm(feature))


def mixed_batch(group=1, n=(4, 3, 3), seed=0, missions=("first", "second", "first")):
    rng = np.random.default_rng(seed)
    classes = GRID.classes_of_group(group)
    labels = rng.choice(classes, sum(n))
    source = np.repeat([CURRENT, EXEMPLAR, REPLAY], n)
    replayed = [remembered(int(label), m, k) for k, (label, m) in enumerate(zip(labels[n[0] + n[1] :], missions))]
    trunk = torch.tensor(rng.normal(size=(sum(n), 3, 2, 2)), dtype=torch.float32)
    return Batch(group, trunk, torch.tensor(labels), torch.tensor(source), replayed)


# The slow way, in double precision and plain loops


def features_of(network, batch):
    with torch.no_grad():
        return network.features_of_trunk(batch.trunk).double().numpy()


def slow_logits(network, z, group, label=None):
    """s·cos of one feature with the rows of a head; with a label, the margin stands before it."""
    weights = network.heads.weights[group].detach().double().numpy()
    logits = []
    for row, w in enumerate(weights):
        cos = float(z @ w / np.linalg.norm(z) / np.linalg.norm(w))
        if label is not None and GRID.classes_of_group(group)[row] == label and cos > 0:
            cos = math.cos(math.acos(cos) + MARGIN)
        logits.append(SCALE * cos)
    return np.array(logits)


def softmax(logits):
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


def slow_ce(network, z, label, group):
    row = list(GRID.classes_of_group(group)).index(label)
    return -math.log(softmax(slow_logits(network, z, group, label))[row])


def slow_kl(teacher_logits, student_logits, T=2.0):
    p, q = softmax(teacher_logits / T), softmax(student_logits / T)
    return T**2 * sum(a * math.log(a / b) for a, b in zip(p, q))


def slow_ces(network, batch):
    z = features_of(network, batch)
    return np.array([slow_ce(network, z[i], int(batch.labels[i]), batch.group) for i in range(len(z))])


def slow_total(network, batch):
    ces, source = slow_ces(network, batch), batch.source.numpy()
    return sum(ces[source == s].mean() for s in (CURRENT, EXEMPLAR, REPLAY) if (source == s).any())


def begin(method, network, step=STEP_3, batch=None, current=20):
    method.begin_mission(network, step)
    here = [observation(int(GRID.classes_of_group(1)[0]), "now", k) for k in range(current)]
    method.begin_learning(network, here, batch.replayed if batch is not None else [], tail_rate=1e-4)


@pytest.fixture
def network():
    return tiny_network()


@pytest.fixture
def changed(network):
    """The same network after some learning."""
    other = network.copy_living_parts()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3))
    return other


# Names


def test_every_method_of_the_paper_and_every_strategy_can_be_had_by_name():
    for name in [*METHOD_TITLES, *STRATEGIES]:
        assert method_of(name) is not method_of(name)
    with pytest.raises(SettingsError, match=r"'dbs_hibrid'.*dbs_hybrid"):
        method_of("dbs_hibrid")


def test_memories_are_those_of_the_papers_component_table():
    facts = {name: (method_of(name).uses_exemplars, method_of(name).strategy) for name in METHOD_TITLES}
    assert facts == {
        "ft": (False, None),
        "lwf": (False, None),
        "ft_ex": (True, None),
        "er": (False, "reservoir"),
        "derpp": (True, "reservoir"),
        "icarl": (True, "herding"),
        "udil": (True, "balanced"),
        "random": (True, "random"),
        "lbs": (True, "lbs"),
        "dbs": (True, "dbs"),
        "dbs_hybrid": (True, "dbs_hybrid"),
    }
    stored = {name: (method_of(name).stores_logits, method_of(name).stores_features) for name in METHODS}
    assert stored.pop("derpp") == stored.pop("anchored") == (True, False) and stored.pop("udil") == (True, True)
    assert set(stored.values()) == {(False, False)}


# Losses


@pytest.mark.parametrize("name", ["ft", "ft_ex", "er", "dbs_hybrid"])
def test_plain_methods_minimise_the_sum_of_mean_cross_entropies(network, name):
    batch = mixed_batch()
    assert float(method_of(name).loss(network, batch)) == pytest.approx(slow_total(network, batch), rel=1e-5)


def test_an_empty_source_adds_nothing(network):
    batch = mixed_batch(n=(4, 0, 0))
    for name in ("ft", "dbs_hybrid", "derpp"):
        assert float(method_of(name).loss(network, batch)) == pytest.approx(slow_total(network, batch), rel=1e-5)


def test_lwf_distils_the_groups_before_the_active_one(network, changed):
    batch = mixed_batch(group=2, n=(5, 0, 0))
    method = method_of("lwf")
    method.begin_epoch(network, 2)
    z, z_changed = features_of(network, batch), features_of(changed, batch)
    kl = [
        sum(slow_kl(slow_logits(network, z[i], g), slow_logits(changed, z_changed[i], g)) for g in (0, 1))
        for i in range(5)
    ]
    expected = slow_total(changed, batch) + 0.5 * np.mean(kl)
    assert float(method.loss(changed, batch)) == pytest.approx(expected, rel=1e-5)


def test_lwf_is_fine_tuning_in_the_first_group_and_at_the_first_step_of_an_epoch(network, changed):
    first = mixed_batch(group=0, n=(5, 0, 0))
    method, plain = method_of("lwf"), method_of("ft")
    method.begin_epoch(network, 0)
    assert float(method.loss(changed, first)) == float(plain.loss(changed, first))
    later = mixed_batch(group=3, n=(5, 0, 0))
    method.begin_epoch(changed, 3)
    assert float(method.loss(changed, later)) == pytest.approx(float(plain.loss(changed, later)), abs=1e-6)


def test_derpp_holds_replayed_logits_to_the_stored_ones(network):
    batch = mixed_batch()
    z = features_of(network, batch)
    squares = [
        (slow_logits(network, z[7 + i], batch.group) - entry.logits.astype(float)) ** 2
        for i, entry in enumerate(batch.replayed)
    ]
    expected = slow_ces(network, batch).mean() + 0.5 * (100 / SCALE) ** 2 * np.mean(squares)
    assert float(method_of("derpp").loss(network, batch)) == pytest.approx(expected, rel=1e-5)


def test_derpp_is_plain_where_the_network_still_answers_as_stored_or_nothing_was_stored(network):
    batch = mixed_batch()
    plain = slow_ces(network, batch).mean()
    z = features_of(network, batch)
    for logits in ([slow_logits(network, z[7 + i], batch.group).astype(np.float32) for i in range(3)], [None] * 3):
        replayed = [observation(entry.label, logits=values) for entry, values in zip(batch.replayed, logits)]
        same = Batch(batch.group, batch.trunk, batch.labels, batch.source, replayed)
        assert float(method_of("derpp").loss(network, same)) == pytest.approx(plain, rel=1e-5)


def test_anchored_replay_has_the_losses_of_dbs_hybrid_and_those_of_derpp_if_asked(network):
    batch = mixed_batch()
    plain = float(method_of("dbs_hybrid").loss(network, batch))
    assert float(method_of("anchored").loss(network, batch)) == pytest.approx(plain, rel=1e-6)
    held = float(method_of("derpp").loss(network, batch)) - slow_ces(network, batch).mean()
    asked = float(method_of("anchored+logit_weight=0.5").loss(network, batch))
    assert asked == pytest.approx(plain + held, rel=1e-5)


@pytest.mark.parametrize("anchor", [0.0, 0.25, 1.0])
def test_anchored_replay_ends_between_the_mean_of_its_steps_and_where_it_began(network, anchor):
    method = method_of(f"anchored+anchor={anchor}")
    begin(method, network)
    before = [parameter.detach().clone() for parameter in network.parameters()]
    for step in range(1, 4):
        with torch.no_grad():
            for parameter in network.parameters():
                parameter += step
        method.after_step(network, step)
    method.end_learning(network)
    # Steps lead to before + 1, + 3 and + 6; a step counts by the fourth power of its number, nearly.
    moved = [float((now - then).mean()) for now, then in zip(network.parameters(), before) if now.requires_grad]
    mean = moved[0] / (1 - anchor) if anchor < 1 else 0.0
    assert moved == pytest.approx([moved[0]] * len(moved), abs=1e-4)
    assert 3.0 < mean < 6.0 if anchor < 1 else moved[0] == pytest.approx(0.0, abs=1e-5)


def test_icarl_distils_all_heads_on_the_whole_batch(network, changed):
    batch = mixed_batch()
    method = method_of("icarl")
    method.begin_mission(network, STEP_1)
    z, z_changed = features_of(network, batch), features_of(changed, batch)
    kl = [
        sum(slow_kl(slow_logits(network, z[i], g), slow_logits(changed, z_changed[i], g)) for g in range(4))
        for i in range(10)
    ]
    expected = slow_total(changed, batch) + np.mean(kl) / 4
    assert float(method.loss(changed, batch)) == pytest.approx(expected, rel=1e-5)
    assert float(method.loss(network, batch)) == pytest.approx(slow_total(network, batch), rel=1e-5)


def test_distillation_vanishes_for_equal_logits_and_only_then():
    logits = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    assert distillation(logits, logits + 3.0, 2.0).abs().max() < 1e-5  # a constant changes no distribution
    assert (distillation(logits, logits.flip(1), 2.0) > 0).all()


def test_a_teacher_learns_nothing_and_shares_the_trunk(network):
    teacher = frozen_copy(network)
    assert teacher.backbone.trunk is network.backbone.trunk
    assert not any(parameter.requires_grad for parameter in teacher.parameters())
    batch = mixed_batch()
    method = method_of("icarl")
    method.begin_mission(network, STEP_1)
    method.loss(network, batch).backward()
    assert all(parameter.grad is not None for parameter in network.tail_parameters())


# UDIL


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


# What is remembered


def buffer_after(network, method, stored=()):
    """The buffer after a mission of two frames over cells of group 1, whose buffer held the stored ones."""
    current = [observation(int(label), "now") for label in GRID.classes_of_group(1)[:2]]
    buffer = ReplayBuffer.empty(4, budget=8).replace_group(1, stored, len(stored))
    with TrunkOutputs.private(network, capacity_bytes=1 << 20) as trunk:
        return list(select_replay(network, current, buffer, method, np.random.default_rng(0), trunk))


def test_logits_stay_those_of_the_entry_for_derpp_and_follow_the_network_for_udil(network):
    label = int(GRID.classes_of_group(1)[2])
    old = remembered(label, "first", 0)
    for name, refreshed in (("derpp", False), ("udil", True)):
        kept = buffer_after(network, method_of(name), [old])
        assert len(kept) == 3 and all(entry.logits is not None and len(entry.logits) == 4 for entry in kept)
        entry = next(entry for entry in kept if entry.mission == "first")
        assert np.array_equal(entry.logits, old.logits) is not refreshed
        assert all((entry.feature is not None) == refreshed for entry in kept if entry.mission == "now")
    assert all(entry.logits is None for entry in buffer_after(network, method_of("dbs")))
