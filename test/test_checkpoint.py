import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from aerial_vpr_cl.errors import ModelError
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.model.aggregation import SaladSettings
from aerial_vpr_cl.model.checkpoint import load_network, load_tail, read_identity, save_tail, save_trunk
from aerial_vpr_cl.model.network import Network, NetworkSettings
from aerial_vpr_cl.model.weights import RANDOM

GRID = Grid(32632, 200.0, 2, np.array([(i, j) for i in range(4) for j in range(5)]))
SPARSE = Grid(32632, 200.0, 3, np.array([(0, 0), (0, 3), (1, 1)]))
EFFICIENT = NetworkSettings(backbone="tf_efficientnet_lite0", input_size=64, scale=30.0, margin=0.1)
VIT = NetworkSettings(
    backbone="vit_small_patch14_dinov2",
    input_size=56,
    aggregation="salad",
    salad=SaladSettings(clusters=3, cluster_dim=4, global_dim=5, hidden_dim=8),
)


@pytest.fixture(scope="module")
def network():
    return Network.build(EFFICIENT, GRID, weights=RANDOM, seed=1)


@pytest.fixture(scope="module")
def saved(network, tmp_path_factory):
    """Trunk and tail of the network; no test may change them."""
    folder = tmp_path_factory.mktemp("store")
    save_trunk(folder / "trunk.safetensors", network)
    save_tail(folder / "tail.safetensors", network)
    return folder / "trunk.safetensors", folder / "tail.safetensors"


def images(side):
    return torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("settings, grid", [(EFFICIENT, GRID), (VIT, GRID), (EFFICIENT, SPARSE)])
def test_a_network_comes_back_as_it_was(settings, grid, tmp_path):
    network = Network.build(settings, grid, weights=RANDOM, seed=3)
    network.temperature.fill_(2.5)
    save_trunk(tmp_path / "trunk.safetensors", network)
    save_tail(tmp_path / "tail.safetensors", network)
    loaded = load_network(tmp_path / "trunk.safetensors", tmp_path / "tail.safetensors", grid)
    assert loaded.settings == network.settings and not loaded.training
    assert all(torch.equal(value, loaded.state_dict()[name]) for name, value in network.state_dict().items())
    learning = {name for name, parameter in network.named_parameters() if parameter.requires_grad}
    assert {name for name, parameter in loaded.named_parameters() if parameter.requires_grad} == learning
    with torch.no_grad():
        x = images(network.input_size)
        assert torch.equal(loaded.probabilities(loaded.scores(x)), network.probabilities(network.scores(x)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tail.safetensors", "trunk.safetensors"]


def test_the_files_say_what_they_are(network, saved):
    trunk, tail = (read_identity(path) for path in saved)
    assert tail["trunk_fingerprint"] == trunk["fingerprint"]
    assert tail["grid_hash"] == GRID.hash and tail["n_classes"] == 20 and sum(tail["group_sizes"]) == 20
    for identity in (trunk, tail):
        assert identity["backbone"] == "tf_efficientnet_lite0" and identity["input_size"] == 64
        assert identity["mean"] == identity["std"] == [0.5, 0.5, 0.5]
    assert tail["settings"]["aggregation"] == "gem" and tail["settings"]["scale"] == 30.0
    with safe_open(saved[1], framework="pt") as file:
        np.testing.assert_array_equal(file.get_tensor("cells"), GRID.cells)
        assert not any("trunk" in name for name in file.keys())  # noqa: SIM118


def test_a_loaded_network_no_longer_needs_its_files(network, saved, tmp_path):
    copies = [tmp_path / path.name for path in saved]
    for path, copy in zip(saved, copies):
        copy.write_bytes(path.read_bytes())
    loaded = load_network(*copies, GRID)
    for copy in copies:
        copy.write_bytes(b"\0" * copy.stat().st_size)
    with torch.no_grad():
        assert torch.equal(loaded.scores(images(64)), network.scores(images(64)))


def test_a_newer_tail_is_put_into_a_running_network(saved, tmp_path):
    running = load_network(*saved, GRID)
    learnt = load_network(*saved, GRID)
    with torch.no_grad():
        for parameter in [*learnt.tail_parameters(), *learnt.head_parameters(1)]:
            parameter.add_(0.01)
    save_tail(tmp_path / "newer.safetensors", learnt)
    load_tail(tmp_path / "newer.safetensors", running)
    with torch.no_grad():
        assert torch.equal(running.scores(images(64)), learnt.scores(images(64)))


def test_another_grid_is_refused(saved):
    shifted = Grid(32632, 200.0, 2, GRID.cells + 1)
    with pytest.raises(ModelError, match=r"tail.safetensors: made for another grid \(20 cells"):
        load_network(*saved, shifted)


def test_a_tail_never_meets_another_trunk(saved, tmp_path):
    other = Network.build(EFFICIENT, GRID, weights=RANDOM, seed=2)
    save_trunk(tmp_path / "trunk.safetensors", other)
    with pytest.raises(ModelError, match="another trunk"):
        load_network(tmp_path / "trunk.safetensors", saved[1], GRID)
    with pytest.raises(ModelError, match="another trunk"):
        load_tail(saved[1], other)


def test_another_backbone_input_size_or_setting_is_refused(saved, tmp_path):
    save_trunk(tmp_path / "vit.safetensors", Network.build(VIT, GRID, weights=RANDOM))
    with pytest.raises(ModelError, match=r"vit.safetensors: its backbone is vit_small.*tf_efficientnet_lite0"):
        load_network(tmp_path / "vit.safetensors", saved[1], GRID)
    larger = Network.build(replace(EFFICIENT, input_size=96), GRID, weights=RANDOM)
    save_trunk(tmp_path / "larger.safetensors", larger)
    with pytest.raises(ModelError, match="its input size is 96"):
        load_network(tmp_path / "larger.safetensors", saved[1], GRID)
    with pytest.raises(ModelError, match="its scale is 30"):
        load_tail(saved[1], Network.build(replace(EFFICIENT, scale=100.0), GRID, weights=RANDOM, seed=1))


def test_networks_of_more_living_blocks_come_back_and_older_files_have_two(tmp_path):
    more = Network.build(replace(EFFICIENT, living_blocks=4), GRID, weights=RANDOM)
    files = tmp_path / "trunk.safetensors", tmp_path / "tail.safetensors"
    save_trunk(files[0], more)
    save_tail(files[1], more)
    again = load_network(*files, GRID)
    assert again.settings.living_blocks == again.backbone.living_blocks == 4
    assert again.living_tensors().keys() == more.living_tensors().keys()
    two = Network.build(EFFICIENT, GRID, weights=RANDOM)
    save_tail(files[1], two)
    with safe_open(files[1], framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        identity = json.loads(file.metadata()["aerial_vpr_cl"])
    del identity["settings"]["living_blocks"]  # as it was before there was a choice
    save_file(tensors, files[1], metadata={"aerial_vpr_cl": json.dumps(identity)})
    save_trunk(files[0], two)
    assert load_network(*files, GRID).backbone.living_blocks == 2


def test_swapped_missing_and_foreign_files_are_refused(saved, tmp_path):
    trunk, tail = saved
    with pytest.raises(ModelError, match="holds a trunk where a tail is needed"):
        load_network(tail, trunk, GRID)
    with pytest.raises(ModelError, match="no such checkpoint"):
        load_network(tmp_path / "absent.safetensors", tail, GRID)
    with pytest.raises(ModelError, match="no such checkpoint"):
        load_network(trunk, tmp_path / "absent.safetensors", GRID)
    save_file({"weight": torch.zeros(3)}, tmp_path / "foreign.safetensors")
    with pytest.raises(ModelError, match="not a checkpoint of this package"):
        load_network(trunk, tmp_path / "foreign.safetensors", GRID)
    for bad in (b"", b"text, not tensors", b"\xff" * 64):
        (tmp_path / "text.safetensors").write_bytes(bad)
        with pytest.raises(ModelError, match=r"text.safetensors: not a readable"):
            load_network(trunk, tmp_path / "text.safetensors", GRID)
    with pytest.raises(ModelError):
        load_network(tmp_path, tail, GRID)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("share", [0.0001, 0.5, 0.999])
def test_truncated_files_are_refused(saved, tmp_path, which, share):
    paths = list(saved)
    whole = paths[which].read_bytes()
    paths[which] = tmp_path / "truncated.safetensors"
    paths[which].write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ModelError, match=r"truncated\.safetensors: not a readable"):
        load_network(*paths, GRID)


def test_a_flipped_bit_in_the_trunk_is_noticed(saved, tmp_path):
    damaged = bytearray(saved[0].read_bytes())
    damaged[-1000] ^= 4
    (tmp_path / "trunk.safetensors").write_bytes(damaged)
    with pytest.raises(ModelError, match="damaged"):
        load_network(tmp_path / "trunk.safetensors", saved[1], GRID)


def rewritten(path, target, change):
    """A copy of a checkpoint with its identity or tensors changed."""
    with safe_open(path, framework="pt") as file:
        identity = json.loads(file.metadata()["aerial_vpr_cl"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(identity, tensors)
    save_file(tensors, target, metadata={"aerial_vpr_cl": json.dumps(identity)})
    return target


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda identity, tensors: identity.update(format=2), "format 2"),
        (lambda identity, tensors: identity["settings"].update(colour="red"), "newer version"),
        (lambda identity, tensors: tensors["cells"].add_(1), "class table"),
        (lambda identity, tensors: tensors.pop("cells"), "class table"),
        (lambda identity, tensors: tensors.pop("temperature"), "'temperature' is missing"),
        (lambda identity, tensors: tensors.update(extra=torch.zeros(1)), "'extra' is missing, unknown"),
        (lambda identity, tensors: tensors.update({"heads.weights.0": torch.zeros(1, 1280)}), "another shape"),
    ],
)
def test_tails_that_do_not_add_up_are_refused(saved, tmp_path, change, words):
    with pytest.raises(ModelError, match=words):
        load_network(saved[0], rewritten(saved[1], tmp_path / "changed.safetensors", change), GRID)


def test_a_network_that_diverged_is_not_written(tmp_path):
    network = Network.build(EFFICIENT, GRID, weights=RANDOM)
    with torch.no_grad():
        network.heads.weights[0][0, 0] = float("nan")
    with pytest.raises(ModelError, match="diverged"):
        save_tail(tmp_path / "tail.safetensors", network)
    assert not list(tmp_path.iterdir())
