"""The shared loop: cached and plain learning agree, and the same seed gives the same network."""

import time

import numpy as np
import pytest
import torch
from store_support import make_store, write_flight

from aerial_vpr_cl.errors import MapError
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.knowledge import load_knowledge
from aerial_vpr_cl.learning.adapt_settings import AdaptSettings, LearnSettings, ThinningSettings
from aerial_vpr_cl.learning.loop import Memories, learn
from aerial_vpr_cl.learning.methods import method_of
from aerial_vpr_cl.learning.mission_step import learn_mission
from aerial_vpr_cl.learning.observations import observations_of, views_of
from aerial_vpr_cl.learning.recipes import recipe_of
from aerial_vpr_cl.learning.selection import embed, select_replay
from aerial_vpr_cl.learning.thinning import thin
from aerial_vpr_cl.learning.trunk_outputs import Picture, TrunkOutputs, whole_image
from aerial_vpr_cl.mission.mission import read_mission
from aerial_vpr_cl.progress import silent

QUICK = LearnSettings(cycles=2, views=2)


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    root = tmp_path_factory.mktemp("loop")
    store = make_store(root, input_size=64, weights=None, scale=30.0)
    bag = write_flight(store, root / "flight", 24, name="flight", modality="VIS")
    return store, bag


@pytest.fixture
def known(ground):
    return load_knowledge(GenerationStore(ground[0]), torch.device("cpu"))


@pytest.fixture
def flown(ground, known):
    return observations_of(read_mission(ground[1], known.map.grid), known.map.grid, views_of(known)).observations


class PlainTrunk(TrunkOutputs):
    """The slow obvious way: the trunk passes over every picture each time, in full precision."""

    def prepare(self, pictures, progress=silent, phase="prepare"):
        pass

    def of(self, pictures):
        return self._network.trunk_features(self._network.preprocess([picture.render() for picture in pictures]))


def run(known, flown, settings=QUICK, method="dbs_hybrid", provider=TrunkOutputs):
    network = known.network.copy_living_parts()
    memories = Memories(known.exemplars, known.map.satellite)
    recipe = recipe_of(network.backbone.name)
    with provider.private(network, capacity_bytes=settings.cache_mb << 20) as trunk:
        report = learn(network, flown, memories, method_of(method), recipe, settings, trunk)
    return network, report


def test_learning_on_cached_trunk_outputs_is_the_plain_loop_up_to_half_precision(known, flown):
    cached, report = run(known, flown)
    plain, reference = run(known, flown, provider=PlainTrunk)
    assert report.steps == reference.steps >= 4
    np.testing.assert_allclose(report.epoch_losses, reference.epoch_losses, rtol=2e-3)
    for name, tensor in cached.living_tensors().items():
        # Adam turns the rounding of tiny gradients into whole steps, so tensors are compared as wholes.
        assert (tensor - plain.living_tensors()[name]).double().norm() <= 0.02 * tensor.double().norm(), name


def test_the_same_seed_gives_the_same_network_to_the_bit(known, flown):
    first, _ = run(known, flown)
    second, _ = run(known, flown)
    for name, tensor in first.living_tensors().items():
        assert torch.equal(tensor, second.living_tensors()[name]), name


def test_learning_changes_tail_and_heads_and_never_the_trunk(known, flown):
    before = {name: value.clone() for name, value in known.network.state_dict().items()}
    network, report = run(known, flown, LearnSettings(cycles=10, views=2))
    assert np.mean(report.epoch_losses[-4:]) < np.mean(report.epoch_losses[:4])
    changed = {name for name, value in network.state_dict().items() if not torch.equal(value, before[name])}
    assert changed and not any(name.startswith("backbone.trunk") for name in changed)
    assert any(name.startswith("backbone.tail") for name in changed)
    assert any(name.startswith("heads") for name in changed)


def test_a_method_without_exemplars_never_reads_the_map(known, flown):
    def without_a_raster(method):
        network = known.network.copy_living_parts()
        recipe = recipe_of(network.backbone.name)
        with TrunkOutputs.private(network, capacity_bytes=1 << 20) as trunk:
            return learn(network, flown, Memories(known.exemplars, None), method_of(method), recipe, QUICK, trunk)

    _, with_map = run(known, flown, method="ft_ex")
    assert without_a_raster("ft").steps == with_map.steps
    with pytest.raises(MapError, match="no raster was given"):  # the exemplars are there, and would be read
        without_a_raster("ft_ex")


def test_a_full_cache_computes_the_rest_and_gives_the_same(known, flown):
    network = known.network
    frames = [whole_image(observation) for observation in flown[:6]]
    one = network.trunk_features(network.preprocess([frames[0].render()]))
    with TrunkOutputs.private(network, capacity_bytes=3 * 2 * one.numel()) as small:
        small.prepare(frames)
        assert len(small) == 3
        some = small.of(frames)
    with TrunkOutputs.private(network, capacity_bytes=0) as none:
        none.prepare(frames)
        assert torch.equal(some, none.of(frames))  # the same numbers, whether kept or computed anew


def black(name):
    return Picture(name, lambda: np.zeros((64, 64, 3), np.uint8))


def test_a_disk_without_room_for_the_cache_is_learnt_without_it(known, monkeypatch, tmp_path):
    monkeypatch.setattr("aerial_vpr_cl.learning.slot_file.LEFT_FREE_BYTES", 1 << 62)
    with TrunkOutputs.private(known.network, capacity_bytes=1 << 20, folder=tmp_path) as trunk:
        trunk.prepare([black(0), black(1)])
        assert len(trunk) == 0 and len(trunk.of([black(0), black(1)])) == 2


def test_the_cache_leaves_no_file_behind_even_while_it_is_open(known, tmp_path):
    with TrunkOutputs.private(known.network, capacity_bytes=1 << 20, folder=tmp_path) as trunk:
        trunk.prepare([black(0)])
        assert len(trunk) == 1 and list(tmp_path.iterdir()) == []


class CountedTrunk(TrunkOutputs):
    """Counts how often the trunk had to see each picture."""

    def _pass(self, images):
        self.passed = [*getattr(self, "passed", []), *(image.tobytes() for image in images)]
        return super()._pass(images)


def test_in_a_mission_the_trunk_sees_every_view_once_though_gate_and_selection_look_too(known, flown):
    settings = AdaptSettings(cycles=2, views=2, gate_samples=30, gate_margin=1.0)
    memories = Memories(known.exemplars, known.map.satellite)
    network, buffer = known.network, known.buffer
    for half, past in ((flown[:12], []), (flown[12:], ["before"])):
        with CountedTrunk.private(network, capacity_bytes=1 << 30) as trunk:
            started = time.monotonic()
            result = learn_mission(
                network, buffer, memories, half, past, settings, trunk, gate=settings, calibration=settings
            )
            assert sum(result.seconds.values()) <= time.monotonic() - started + 0.01
            assert result.seconds.keys() == {"trunk", "measure", "learn", "select", "calibrate"}
            assert len(trunk.passed) == len(trunk)  # passes ÷ different views = 1
            # Frames and exemplars whole, for gate and selection; then what is learnt from.
            assert len(trunk.passed) > len(half) + len(buffer) + 30
        network, buffer = result.network, result.buffer
    assert len(buffer) == len(flown)


def test_selection_keeps_the_budget_and_prefers_nothing_but_the_candidates(known, flown):
    buffer = known.buffer.bounded(3)
    with TrunkOutputs.private(known.network, capacity_bytes=1 << 20) as trunk:
        chosen = select_replay(known.network, flown, buffer, method_of("dbs_hybrid"), np.random.default_rng(0), trunk)
    assert 0 < len(chosen) <= 3 * known.map.grid.n_groups
    assert {kept.stamp_ns for kept in chosen} <= {observation.stamp_ns for observation in flown}
    for group, members in enumerate(chosen.groups):
        assert all(known.map.grid.groups[member.label] == group for member in members)
    assert sum(chosen.seen) == len(flown)


def test_embedding_nothing_gives_empty_arrays_of_the_right_shape(known):
    with TrunkOutputs.private(known.network, capacity_bytes=1 << 20) as trunk:
        embedding = embed(known.network, [], trunk)
    assert embedding.features.shape == (0, known.network.feature_dim)
    assert embedding.scores.shape == (0, known.map.grid.n_classes)


def test_hovering_is_thinned_by_distance_and_appearance(flown):
    hovering = [flown[0]] * 10 + list(flown[1:])
    assert [kept.stamp_ns for kept in thin(hovering, ThinningSettings())] == [kept.stamp_ns for kept in flown]
    assert len(thin(hovering, ThinningSettings(thinning=False))) == len(hovering)


def test_a_changed_view_from_the_same_place_is_not_thinned(flown):
    from dataclasses import replace

    turned = replace(flown[-1], position=flown[0].position)
    assert len(thin([flown[0], turned, turned], ThinningSettings())) == 2
