import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aerial_vpr_cl.errors import ModelError, SettingsError
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.model.aggregation import SaladSettings
from aerial_vpr_cl.model.network import Network, NetworkSettings, fit_temperature
from aerial_vpr_cl.model.weights import RANDOM
from aerial_vpr_cl.settings import load_settings

GRID = Grid(32632, 200.0, 2, np.array([(i, j) for i in range(4) for j in range(5)]))
EFFICIENT = NetworkSettings(backbone="tf_efficientnet_lite0", input_size=64)
VIT = NetworkSettings(backbone="vit_small_patch14_dinov2", input_size=56)
TINY_SALAD = SaladSettings(clusters=3, cluster_dim=4, global_dim=5, hidden_dim=8)
VIT_SALAD = NetworkSettings(backbone="vit_small_patch14_dinov2", input_size=56, aggregation="salad", salad=TINY_SALAD)


@pytest.fixture(scope="module", params=[EFFICIENT, VIT_SALAD], ids=["efficientnet-gem", "vit-salad"])
def network(request):
    return Network.build(request.param, GRID, weights=RANDOM, seed=1)


@pytest.fixture(scope="module")
def efficient():
    return Network.build(EFFICIENT, GRID, weights=RANDOM, seed=1)


def frames(n=3, height=90, width=120, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, height, width, 3), dtype=np.uint8)


def test_images_become_scores_over_every_class(network):
    with torch.no_grad():
        images = network.preprocess(frames())
        descriptors = network.features(images)
        scores = network.scores(images)
    assert images.shape == (3, 3, network.input_size, network.input_size)
    assert descriptors.shape == (3, network.feature_dim)
    torch.testing.assert_close(descriptors.norm(dim=1), torch.ones(3))
    torch.testing.assert_close(scores, network.heads.cosines(descriptors))
    assert scores.shape == (3, GRID.n_classes) and scores.abs().max() <= 1 + 1e-6
    assert torch.equal(network(images), scores)


def test_cached_trunk_outputs_give_the_same_features(network):
    with torch.no_grad():
        images = network.preprocess(frames())
        cached = network.trunk_features(images)
        assert torch.equal(network.features_of_trunk(cached), network.features(images))


def test_only_the_tail_and_the_active_head_get_gradients(network):
    network.zero_grad(set_to_none=True)
    network.train()
    labels = torch.from_numpy(GRID.classes_of_group(2)[:3])
    network.heads.cross_entropy(network.features(network.preprocess(frames())), labels, 2).mean().backward()
    network.eval()
    with_gradient = {id(parameter) for parameter in network.parameters() if parameter.grad is not None}
    assert with_gradient == {id(p) for p in [*network.tail_parameters(), *network.head_parameters(2)]}
    assert not any(parameter.requires_grad for parameter in network.backbone.trunk.parameters())
    every = [*network.tail_parameters(), *(p for group in range(4) for p in network.head_parameters(group))]
    assert {id(p) for p in every} == {id(p) for p in network.parameters() if p.requires_grad}
    network.zero_grad(set_to_none=True)


def test_a_step_of_learning_leaves_the_trunk_as_it_was(efficient):
    network = Network.build(EFFICIENT, GRID, weights=RANDOM, seed=1).train()
    optimiser = torch.optim.Adam([*network.tail_parameters(), *network.head_parameters(0)], lr=1e-2)
    labels = torch.from_numpy(GRID.classes_of_group(0)[:3])
    network.heads.cross_entropy(network.features(network.preprocess(frames())), labels, 0).mean().backward()
    optimiser.step()
    before, after = efficient.backbone.state_dict(), network.backbone.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed and all(name.startswith("tail.") and "running" not in name for name in changed)


def test_a_copy_shares_the_trunk_and_owns_what_learns(network):
    twin = network.copy_living_parts()
    assert twin.backbone.trunk is network.backbone.trunk
    names = network.living_tensors().keys()
    assert names == {name for name in network.state_dict() if not name.startswith("backbone.trunk.")}
    before = {name: value.clone() for name, value in network.living_tensors().items()}
    for value in twin.living_tensors().values():
        value.zero_()
    assert all(torch.equal(value, before[name]) for name, value in network.living_tensors().items())


def test_frames_of_any_size_are_squeezed_whole_and_normalised(efficient):
    colours = [np.full((h, w, 3), (255, 0, 128), np.uint8) for h, w in ((64, 64), (10, 200), (300, 20), (480, 640))]
    images = efficient.preprocess(colours)
    expected = (torch.tensor([255, 0, 128]) / 255 - 0.5) / 0.5
    torch.testing.assert_close(images, expected[None, :, None, None].expand(4, 3, 64, 64))
    half = np.zeros((128, 256, 3), np.uint8)
    half[:, 128:] = 255
    squeezed = efficient.resize([half])[0]
    assert (squeezed[:, :32] == 0).all() and (squeezed[:, 32:] == 255).all()


def test_shrinking_averages_and_a_batch_equals_a_list(efficient):
    fine = np.indices((256, 256)).sum(axis=0) % 2 * np.uint8(254)
    board = np.repeat(fine[..., None], 3, axis=2).astype(np.uint8)
    assert (efficient.resize([board]) == 127).all()
    batch = frames(4)
    assert torch.equal(efficient.preprocess(batch), efficient.preprocess(list(batch)))


@pytest.mark.parametrize("bad", [np.zeros((8, 8), np.uint8), np.zeros((8, 8, 3)), np.zeros((0, 8, 3), np.uint8)])
def test_what_is_no_rgb_image_is_refused(efficient, bad):
    with pytest.raises(ModelError, match="RGB, uint8"):
        efficient.preprocess([bad])


def test_the_same_seed_gives_the_same_network_and_the_global_generator_stays():
    state = torch.get_rng_state()
    one, same, other = (Network.build(VIT_SALAD, GRID, weights=RANDOM, seed=seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one[name], same[name]) for name in one)
    for name in ("heads.weights.0", "aggregation.score.0.weight", "backbone.tail.blocks.10.attn.qkv.weight"):
        assert not torch.equal(one[name], other[name])


def test_auto_names_the_backbone_of_the_machine_and_the_network_knows_its_size():
    expected = "vit_base_patch14_dinov2" if torch.cuda.is_available() else "tf_efficientnet_lite0"
    assert NetworkSettings().resolved().backbone == expected
    network = Network.build(NetworkSettings(backbone="tf_efficientnet_lite0"), GRID, weights=RANDOM)
    assert network.settings.input_size == network.input_size == 128
    assert (network.heads.margin, network.heads.scale) == (0.2, 100.0)


def test_settings_come_from_plain_values_and_wrong_ones_are_refused():
    assert load_settings(NetworkSettings, {"salad": {"clusters": 3}}).salad.clusters == 3
    with pytest.raises(SettingsError, match="gem, quarters, salad"):
        load_settings(NetworkSettings, {"aggregation": "netvlad"})
    with pytest.raises(ModelError, match="16 at 56 pixels"):
        Network.build(NetworkSettings(backbone=VIT.backbone, input_size=56, aggregation="salad"), GRID, weights=RANDOM)


@settings(max_examples=10, deadline=None)
@given(st.floats(0.2, 8.0), st.integers(0, 100))
def test_the_temperature_is_found_that_made_the_labels(temperature, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(4000, 10, generator=generator) * 2 * temperature
    labels = torch.multinomial(torch.softmax(logits / temperature, dim=1), 1, generator=generator)[:, 0]
    assert fit_temperature(logits, labels) == pytest.approx(temperature, rel=0.15)


def test_the_fitted_temperature_minimises_the_cross_entropy():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(500, 8, generator=generator, dtype=torch.float64) * 5
    labels = torch.randint(8, (500,), generator=generator)
    labels[:400] = logits[:400].argmax(dim=1)
    fitted = fit_temperature(logits, labels)
    losses = {t: float(torch.nn.functional.cross_entropy(logits / t, labels)) for t in np.geomspace(0.1, 50, 2000)}
    assert fitted == pytest.approx(min(losses, key=losses.__getitem__), rel=0.03)


def test_a_flawless_sample_does_not_promise_certainty(efficient):
    scores = torch.full((50, GRID.n_classes), 0.1)
    labels = torch.arange(50) % GRID.n_classes
    scores[torch.arange(50), labels] = 0.9
    temperature = efficient.fit_temperature(scores, labels)
    sure = efficient.probabilities(scores)[torch.arange(50), labels]
    assert float(efficient.temperature) == pytest.approx(temperature)
    assert (sure > 0.9).all() and (sure < 0.995).all()
    efficient.temperature.fill_(1.0)


def test_a_hopeless_sample_gives_a_flat_answer_and_no_sample_an_error(efficient):
    scores = torch.zeros(40, GRID.n_classes)
    scores[:, 0] = 1.0
    labels = torch.full((40,), 1)
    assert fit_temperature(scores * 100, labels) == pytest.approx(100.0, rel=0.01)
    outside = torch.full((40,), -1)
    with pytest.raises(ModelError, match="held-out"):
        efficient.fit_temperature(scores, outside)
    mixed = torch.cat([labels, outside])
    assert fit_temperature(torch.cat([scores, scores]), mixed) == fit_temperature(scores, labels)


def test_probabilities_are_the_softmax_of_scaled_cosines(efficient):
    scores = torch.rand(3, GRID.n_classes, generator=torch.Generator().manual_seed(0))
    efficient.temperature.fill_(4.0)
    torch.testing.assert_close(efficient.probabilities(scores), torch.softmax(scores * 25, dim=1))
    efficient.temperature.fill_(1.0)
