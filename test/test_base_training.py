"""Base training: it learns the map, goes on after a kill, and several processes train as one."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from crash_support import environment, run, run_and_kill
from safetensors.torch import load_file
from store_support import make_map, write_flight

from aerial_vpr_cl.errors import Cancelled, ModelError, SettingsError, StoreError
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.knowledge import load_knowledge
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.learning.adapt import adapt
from aerial_vpr_cl.learning.adapt_settings import AdaptSettings
from aerial_vpr_cl.learning.base_training import train_base
from aerial_vpr_cl.learning.base_training_settings import BaseTrainingSettings
from aerial_vpr_cl.learning.calibration import in_other_looks, scores_of
from aerial_vpr_cl.learning.recipes import recipe_of
from aerial_vpr_cl.learning.satellite_batches import SatelliteBatches, held_out_views, read_ahead
from aerial_vpr_cl.learning.weight_mean import WeightMean
from aerial_vpr_cl.model.aggregation import SaladSettings
from aerial_vpr_cl.model.network import Network, NetworkSettings, fit_temperature

LITE = "tf_efficientnet_lite0"
SHORT = BaseTrainingSettings(
    backbone=LITE, input_size=64, batch=16, epoch_steps=4, max_steps=16, held_out=32,
    exemplars=3, exemplar_candidates=4, good_recall=1.0, readers=1,
)  # fmt: skip
LONG = replace(SHORT, batch=24, max_steps=112, held_out=64, good_recall=0.95, augmentation="crop")
OPTIONS = [
    *["--backbone", LITE, "--input-size", "64", "--batch", "16", "--epoch-steps", "4", "--max-steps", "16"],
    *["--held-out", "32", "--exemplars", "3", "--exemplar-candidates", "4", "--good-recall", "1.0", "--readers", "1"],
]


@pytest.fixture(scope="module")
def map_store(tmp_path_factory) -> Path:
    return make_map(tmp_path_factory.mktemp("map"), blur_px=12.0)


@pytest.fixture
def store(map_store, tmp_path) -> Path:
    return Path(shutil.copytree(map_store, tmp_path / "store"))


@pytest.fixture(scope="module")
def trained(map_store, tmp_path_factory) -> Path:
    """A store whose network really knows its map; tests copy it before they change it."""
    store = Path(shutil.copytree(map_store, tmp_path_factory.mktemp("trained") / "store"))
    train_base(store, LONG)
    return store


def scores_on_held_out(store: Path) -> np.ndarray:
    known = load_knowledge(GenerationStore(store), torch.device("cpu"))
    return scores_of(known.network, held_out_views(known.map, 64, 32, seed=1).images)


def test_a_network_with_salad_is_trained_and_read_again(store):
    sizes = SaladSettings(clusters=3, cluster_dim=4, global_dim=5, hidden_dim=8)
    train_base(store, replace(SHORT, max_steps=4, aggregation="salad", salad=sizes))
    network = load_knowledge(GenerationStore(store), torch.device("cpu")).network
    assert network.settings.aggregation == "salad"
    assert network.feature_dim == 5 + 3 * 4


def tail_of(store: Path) -> dict[str, torch.Tensor]:
    return load_file(store / "generations" / "000000" / "tail.safetensors")


def test_training_learns_to_place_unseen_views(trained):
    generation = GenerationStore(trained).newest()
    # By chance 0.2. Seeds 0 to 3 gave 0.60 to 0.82; their last steps alone 0.56 to 0.66.
    assert generation.number == 0 and generation.facts.held_out_recall > 0.4
    assert not (trained / "training.safetensors").exists()


def test_exemplars_among_which_there_is_nothing_to_choose_pass_no_network(store):
    phases = set()
    settings = replace(SHORT, max_steps=4, exemplar_candidates=3)
    train_base(store, settings, lambda phase, done, total, **figures: phases.add(phase))
    known = load_knowledge(GenerationStore(store), torch.device("cpu"))
    labels = known.exemplars.labels
    assert "train" in phases and "exemplars" not in phases
    assert labels.tolist() == sorted(labels)
    assert np.array_equal(np.bincount(labels), np.bincount(known.map.patches.labels).clip(max=3))
    assert np.array_equal(known.map.grid.class_of(known.exemplars.centres), labels)


def test_generation_0_has_exemplars_of_every_cell(trained):
    known = load_knowledge(GenerationStore(trained), torch.device("cpu"))
    assert set(known.exemplars.labels) == set(range(known.map.grid.n_classes))
    assert np.bincount(known.exemplars.labels).max() <= 3


def test_generation_0_is_as_sure_as_it_is_right_under_other_looks_and_not_only_on_its_own_map(trained):
    known = load_knowledge(GenerationStore(trained), torch.device("cpu"))
    views = held_out_views(known.map, 64, 128, seed=99)
    other = torch.from_numpy(scores_of(known.network, in_other_looks(views.images, seed=98)))
    confidence, answer = (values.numpy() for values in known.network.probabilities(other).max(dim=1))
    assert abs(confidence.mean() - (answer == views.labels).mean()) < 0.2
    # On clean views alone the network is right more often, and would be told to be surer.
    clean = torch.from_numpy(scores_of(known.network, views.images))
    fitted = fit_temperature(clean * known.network.heads.scale, torch.from_numpy(views.labels))
    assert float(known.network.temperature) > 1.1 * fitted


def test_the_trained_map_files_are_listed_and_checked(trained, tmp_path):
    copy = Path(shutil.copytree(trained, tmp_path / "copy"))
    (copy / "map" / "exemplars.h5").write_bytes(b"nonsense")
    with pytest.raises(StoreError, match="exemplars"):
        open_map(copy)


def test_a_second_training_of_the_same_store_is_refused(trained):
    with pytest.raises(StoreError, match="already"):
        train_base(trained, SHORT)


def test_a_network_that_forgets_the_map_is_not_committed(trained, tmp_path):
    store = Path(shutil.copytree(trained, tmp_path / "store"))
    write_flight(store, store / "missions" / "wreck", 12, name="wreck")
    wreck = AdaptSettings(cycles=1, views=1, tail_rate=0.3, head_rate=3.0, batch_exemplar=0, gate_margin=0.1)
    (report,) = adapt(store, GenerationStore(store).waiting_missions(), wreck)
    assert not report.committed and "exemplars fell" in report.reason
    assert GenerationStore(store).numbers() == [0] and (store / "missions" / "wreck").is_dir()


def test_a_killed_run_goes_on_and_ends_as_if_nothing_had_happened(map_store, tmp_path):
    whole, killed = (Path(shutil.copytree(map_store, tmp_path / name)) for name in ("whole", "killed"))
    command = [sys.executable, "-m", "aerial_vpr_cl", "train-base"]
    options = [*OPTIONS, "--epoch-steps", "2", "--imprint", "1"]  # two cycles, each saved
    run([*command, str(whole), *options])
    run_and_kill([*command, str(killed), *options], "train.saved")
    assert GenerationStore(killed).numbers() == [] and (killed / "training.safetensors").exists()
    again = subprocess.run([*command, str(killed), *options], env=environment(), capture_output=True, text=True)
    assert again.returncode == 0 and "goes on at step 8" in again.stderr, again.stderr
    for name, tensor in tail_of(whole).items():
        torch.testing.assert_close(tensor, tail_of(killed)[name], rtol=0, atol=0, msg=name)


def test_a_run_that_was_stopped_does_not_go_on_over_another_map_of_the_same_cells(store, tmp_path, caplog):
    def stop(phase, done, total, **figures):
        if phase == "exemplars":
            raise Cancelled("after the last step")

    with pytest.raises(Cancelled):
        train_base(store, SHORT, stop)
    other = make_map(tmp_path / "other", seed=1, blur_px=12.0)
    assert open_map(other).grid.hash == open_map(store).grid.hash
    shutil.copy(store / "training.safetensors", other)
    for place, said in ((store, "goes on at step 16"), (other, "training starts over")):
        caplog.clear()
        with pytest.raises(Cancelled):
            train_base(place, SHORT, stop)
        assert said in caplog.text


def test_what_is_committed_is_the_mean_of_the_weights_and_not_the_last_step(store):
    def stop(phase, done, total, **figures):
        if phase == "exemplars":
            raise Cancelled("after the last step")

    with pytest.raises(Cancelled):
        train_base(store, SHORT, stop)
    saved = load_file(store / "training.safetensors")
    train_base(store, SHORT)
    for name, tensor in tail_of(store).items():
        if name.startswith(("heads", "backbone.tail.blocks")) and name.endswith("weight"):
            assert torch.equal(tensor, saved[f"mean.{name}"]), name
    assert not torch.equal(saved["mean.heads.weights.0"], saved["net.heads.weights.0"])


def test_the_mean_of_the_weights_counts_late_steps_more_whatever_the_number_of_steps():
    grid = Grid(32632, 200.0, 1, np.array([(0, 0), (0, 1)]))
    network = Network.build(NetworkSettings(LITE, input_size=64), grid, weights="random")
    mean, seen = WeightMean(network), []
    head = network.heads.weights[0]
    for step in range(1, 41):
        with torch.no_grad():
            head.normal_(generator=torch.Generator().manual_seed(step))
        mean.add(step)
        seen.append(head.detach().clone())
        # Polynomial decay: a step t of n enters with t (t + 1) ... (t + 3), over the sum of them.
        shares = np.array([np.prod([t + k for k in range(4)]) for t in range(1, step + 1)], float)
        expected = sum(share * weights for share, weights in zip(shares / shares.sum(), seen))
        torch.testing.assert_close(mean.network.heads.weights[0], expected, rtol=1e-4, atol=1e-5)
    assert shares[-13:].sum() > 0.8 * shares.sum()  # the last third


def test_two_processes_under_torchrun_train_as_one(map_store, tmp_path):
    one, two = (Path(shutil.copytree(map_store, tmp_path / name)) for name in ("one", "two"))
    train_base(one, replace(SHORT, max_steps=3))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, "-m", "aerial_vpr_cl", "train-base", str(two), *OPTIONS, "--max-steps", "3"]
    done = subprocess.run(command, env=environment(OMP_NUM_THREADS="1"), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    # Adam makes whole steps of the rounding of tiny gradients, so the networks are compared by what they say, early.
    fewer = Path(shutil.copytree(map_store, tmp_path / "fewer"))
    train_base(fewer, replace(SHORT, max_steps=1))
    same = np.abs(scores_on_held_out(one) - scores_on_held_out(two)).mean()
    other = np.abs(scores_on_held_out(one) - scores_on_held_out(fewer)).mean()
    assert same < 0.2 * other, (same, other)


def test_a_batch_depends_on_the_step_alone_and_is_shared_out_without_overlap(store):
    folder = open_map(store)
    batches = SatelliteBatches(folder, recipe_of(LITE), 32, 8, seed=5)
    whole = batches.read(3, group=1)
    parts = [batches.read(3, group=1, rank=rank, world=2) for rank in range(2)]
    assert np.array_equal(whole.images[0::2], parts[0].images)
    assert np.array_equal(whole.images[1::2], parts[1].images)
    assert set(folder.grid.groups[whole.labels]) == {1}
    assert np.array_equal(folder.grid.class_of(whole.positions), whole.labels)


def test_reading_ahead_keeps_the_order_and_passes_errors_on():
    assert list(read_ahead((lambda n=n: n for n in range(20)), workers=3)) == list(range(20))
    with pytest.raises(ZeroDivisionError):
        list(read_ahead((lambda n=n: 1 // n for n in (2, 1, 0)), workers=2))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"backbone": "resnet18"}, ModelError, "resnet18"),
        ({"weights": "nowhere.safetensors"}, ModelError, "nowhere"),
        ({"device": "cuda:7"}, SettingsError, "GPU"),
        ({"device": "abacus"}, SettingsError, "abacus"),
    ],
)
def test_what_cannot_be_trained_is_refused_with_words(store, change, error, words):
    with pytest.raises(error, match=words):
        train_base(store, replace(SHORT, **change))
