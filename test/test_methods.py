"""Every method's loss against a slow reference written from the paper's equations, and what must vanish when."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from method_support import (
    GRID,
    SCALE,
    STEP_1,
    begin,
    features_of,
    learnt,
    mixed_batch,
    observation,
    remembered,
    slow_ces,
    slow_kl,
    slow_logits,
    slow_total,
    tiny_network,
)

from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.evaluation.tables import METHOD_TITLES
from aerial_vpr_cl.learning.method_options import chosen_method
from aerial_vpr_cl.learning.methods import METHODS, method_of
from aerial_vpr_cl.learning.methods.base import Batch, frozen_copy
from aerial_vpr_cl.learning.methods.distillation import distillation
from aerial_vpr_cl.learning.selection import select_replay
from aerial_vpr_cl.learning.trunk_outputs import TrunkOutputs
from aerial_vpr_cl.memory.buffer import ReplayBuffer
from aerial_vpr_cl.memory.strategies import STRATEGIES


@pytest.fixture
def network():
    return tiny_network()


@pytest.fixture
def changed(network):
    return learnt(network)


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
    assert stored.pop("derpp") == (True, False) and stored.pop("udil") == (True, True)
    assert set(stored.values()) == {(False, False)}
    assert method_of("anchored+logit_weight=0.5").stores_logits


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


def test_auto_turns_frames_as_seen_and_is_anchored_north_up():
    assert chosen_method("auto", north_up=False) == "turned"
    assert chosen_method("auto", north_up=True) == "anchored"
    assert chosen_method("derpp+logit_weight=0.3", north_up=True) == "derpp+logit_weight=0.3"
    with pytest.raises(SettingsError, match="auto"):
        method_of("auto")


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
