"""Runtimes: engines answer as PyTorch does, are found only whole and for what they were built from, and are never
needed."""

import shutil
import sys

import numpy as np
import onnxruntime  # optional in flight, but not here: without it these tests must fail, not be skipped
import pytest
import store_support
import torch

from aerial_vpr_cl.cli import main
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.knowledge.engines import engines_of, export_engines, follow_with_engines, views_of
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.knowledge import load_knowledge
from aerial_vpr_cl.localization.localizer import Localizer, LocalizerSettings
from aerial_vpr_cl.model.aggregation import SaladSettings
from aerial_vpr_cl.model.network import Network, NetworkSettings
from aerial_vpr_cl.model.runtimes.choice import choose_engine
from aerial_vpr_cl.model.runtimes.engine import TorchEngine
from aerial_vpr_cl.model.runtimes.engine_files import GRAPH_FILE, MOST_TAILS
from aerial_vpr_cl.model.runtimes.graphs import write_tail, write_trunk
from aerial_vpr_cl.model.runtimes.names import EAGER, INT8, ONNX
from aerial_vpr_cl.model.runtimes.quantisation import LEAST_AGREEMENT, Judgement, judge

ANY = LocalizerSettings(min_confidence=0.0)
GRID = Grid(32632, 200.0, 3, np.array([(i, j) for i in range(4) for j in range(5)]))

SALAD = SaladSettings(clusters=4, cluster_dim=8, global_dim=8, hidden_dim=16)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    store = store_support.make_store(tmp_path_factory.mktemp("runtimes"), input_size=64, weights=None, view="north_up")
    assert main(["export", str(store)]) == 0
    return store


@pytest.fixture
def store(exported, tmp_path):
    return shutil.copytree(exported, tmp_path / "store")


def views(store, n=12):
    return views_of(load_knowledge(GenerationStore(store))).held_out[:n]


def folders(store, part="*"):
    return sorted(engines_of(store).glob(f"{part}-*"))


def next_generation(store):
    """Another tail over the same trunk, committed as an adaptation does it."""
    known = load_knowledge(GenerationStore(store))
    with torch.no_grad():
        for weight in known.network.heads.weights:
            weight.neg_()
    follow_with_engines(store, known)
    store_support.commit_generation(store, known.network)


def test_engines_give_the_scores_and_the_positions_of_pytorch(exported):
    eager, quick = Localizer.open(exported, runtime=EAGER), Localizer.open(exported)
    assert (eager.engine.name, quick.engine.name) == ("eager", "onnx (CPU)")
    images = views(exported)
    np.testing.assert_allclose(quick.engine.scores(images), eager.engine.scores(images), atol=1e-5)
    np.testing.assert_allclose(quick.engine.scores(images[:1]), eager.engine.scores(images)[:1], atol=1e-5)
    for image in images[:4]:
        known, found = (localizer.localize(image, ANY) for localizer in (eager, quick))
        assert known.cell == found.cell
        np.testing.assert_allclose(found.position, known.position, atol=0.5)
        np.testing.assert_allclose(found.covariance, known.covariance, rtol=0.02, atol=1.0)


@pytest.mark.parametrize(
    "settings",
    [
        {"backbone": "vit_small_patch14_dinov2", "input_size": 42},
        {"backbone": "tf_efficientnet_lite0", "input_size": 96, "aggregation": "salad", "salad": SALAD},
    ],
    ids=["vit", "salad"],
)
def test_every_kind_of_network_can_be_exported(settings, tmp_path):
    network = Network.build(NetworkSettings(**settings), GRID, weights="random")
    write_trunk(tmp_path / "trunk.onnx", network)
    write_tail(tmp_path / "tail.onnx", network)
    trunk, tail = (onnxruntime.InferenceSession(str(tmp_path / f"{name}.onnx")) for name in ("trunk", "tail"))
    images = np.random.default_rng(0).integers(0, 256, (3, network.input_size, network.input_size, 3), np.uint8)
    (features,) = trunk.run(None, {trunk.get_inputs()[0].name: images})
    (scores,) = tail.run(None, {tail.get_inputs()[0].name: features})
    np.testing.assert_allclose(scores, TorchEngine(network).scores(images), atol=1e-4)


def test_a_new_generation_needs_no_new_trunk_and_finds_its_tail(store):
    first = Localizer.open(store)
    trunks, tails = folders(store, "trunk"), folders(store, "tail")
    next_generation(store)
    second = Localizer.open(store, previous=first)
    assert second.engine.name == "onnx (CPU)" and second.generation.number == 1
    assert second.engine.trunk is first.engine.trunk
    assert folders(store, "trunk") == trunks and len(folders(store, "tail")) == len(tails) + 1
    image = views(store, 1)
    np.testing.assert_allclose(second.engine.scores(image), -first.engine.scores(image), atol=1e-5)


def test_old_tails_go(store):
    for _ in range(MOST_TAILS + 1):
        next_generation(store)
    assert len(folders(store, "tail")) <= MOST_TAILS
    assert Localizer.open(store).engine.name == "onnx (CPU)"


def test_engines_do_not_take_the_room_that_the_generation_needs(store, monkeypatch, caplog):
    tails, known = folders(store, "tail"), load_knowledge(GenerationStore(store))
    usage = shutil.disk_usage(store)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=known.bytes_of_next() + 1))
    next_generation(store)
    assert folders(store, "tail") == tails and "has no engines" in caplog.text
    assert GenerationStore(store).newest().number == 1


def test_a_store_without_engines_stays_without(tmp_path):
    store = store_support.make_store(tmp_path)
    next_generation(store)
    localizer = Localizer.open(store)
    assert localizer.engine.name == EAGER and not localizer.runtime_problem
    assert not engines_of(store).exists()


@pytest.mark.parametrize("part", ["trunk", "tail"])
def test_a_damaged_engine_is_not_used_and_made_again(store, part):
    (place,) = folders(store, part)
    data = bytearray((place / GRAPH_FILE).read_bytes())
    data[len(data) // 2] ^= 1
    (place / GRAPH_FILE).write_bytes(data)
    localizer = Localizer.open(store)
    assert localizer.engine.name == EAGER and "damaged" in localizer.runtime_problem
    export_engines(store)
    assert Localizer.open(store).engine.name == "onnx (CPU)"


def test_an_engine_under_the_name_of_another_is_not_used(store):
    (tail,) = folders(store, "tail")
    tail.rename(tail.with_name("elsewhere"))
    (trunk,) = folders(store, "trunk")
    shutil.copytree(trunk, tail)
    localizer = Localizer.open(store)
    assert localizer.engine.name == EAGER and "something else" in localizer.runtime_problem


def test_a_generation_without_an_engine_runs_in_pytorch_and_says_why(store):
    network = Localizer.open(store).network.copy_living_parts()
    with torch.no_grad():
        network.heads.weights[0].neg_()
    store_support.commit_generation(store, network)
    localizer = Localizer.open(store)
    assert localizer.engine.name == EAGER and "aerial-vpr export" in localizer.runtime_problem


def test_onboard_computers_without_onnxruntime_keep_working(store, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # as if it were not installed
    localizer = Localizer.open(store, runtime=ONNX)
    assert localizer.engine.name == EAGER and "not installed" in localizer.runtime_problem
    assert localizer.localize(views(store, 1)[0], ANY).position.shape == (2,)


def test_what_was_not_exported_is_not_there(exported):
    network = Localizer.open(exported).network
    assert "int8" in choose_engine(network, INT8, engines_of(exported)).problem
    assert "store" in choose_engine(network, ONNX).problem


def test_a_killed_export_leaves_nothing_that_is_used(store):
    for place in folders(store):
        shutil.rmtree(place)
    (engines_of(store) / ".tmp-killed").mkdir()
    (engines_of(store) / ".tmp-killed" / GRAPH_FILE).write_bytes(b"half")
    assert Localizer.open(store).engine.name == EAGER
    export_engines(store)
    assert not list(engines_of(store).glob(".tmp-*"))


def test_int8_is_judged_on_held_out_views_and_refused_with_the_figure(store, capsys):
    ended = main(["export", str(store), "--int8"])
    told = capsys.readouterr()
    if ended == 0:
        assert "keep their cell" in told.out
        assert Localizer.open(store).engine.name == "int8 (CPU)"
    else:
        assert "int8 is refused" in told.err and ("%" in told.err or "time" in told.err)
        assert Localizer.open(store).engine.name == "onnx (CPU)"


def test_an_engine_agrees_with_itself_and_not_with_another_network(exported):
    engine = Localizer.open(exported).engine
    network = Localizer.open(exported).network.copy_living_parts()
    with torch.no_grad():
        for weight in network.heads.weights:
            weight.neg_()
    images = views(exported)
    assert judge(engine, engine, images).agreement == 1.0
    other = judge(TorchEngine(network), engine, images)
    assert other.agreement < LEAST_AGREEMENT and f"{other.agreement:.1%}" in other.refusal


def test_int8_must_be_faster_to_be_kept():
    assert not Judgement(agreement=0.995, views=400, time_ratio=0.7).refusal
    assert "1.20" in Judgement(agreement=1.0, views=400, time_ratio=1.2).refusal


def test_nobody_asks_for_an_unknown_runtime(exported):
    with pytest.raises(SystemExit):
        main(["evaluate", str(exported), "bag", "--runtime", "magic"])
