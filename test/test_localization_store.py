"""The localization node and its store: missing, gone for a while, with engines and with new generations."""

import signal

import numpy as np
import pytest
import store_support
import torch
from diagnostic_msgs.msg import DiagnosticStatus
from flight_support import Flight, balanced, offline, positions_of
from std_srvs.srv import Trigger

from aerial_vpr_cl.knowledge.engines import engines_of, export_engines
from aerial_vpr_cl.knowledge.facts import GenerationFacts
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.localization.estimate import LOW_CONFIDENCE
from aerial_vpr_cl.localization.localizer import Localizer


@pytest.fixture(scope="module")
def flight(tmp_path_factory):
    with Flight(tmp_path_factory.mktemp("flight"), "stored") as running:
        yield running.ready()


def test_a_map_that_vanished_and_returned_leaves_no_problem_behind(flight):
    folder, away = flight.store / "map", flight.store / "elsewhere"
    folder.rename(away)
    level, _, _ = flight.status(lambda values: values["store problem"])
    assert level == DiagnosticStatus.WARN
    assert not flight.peer.call(Trigger, f"{flight.name}/reload").success
    away.rename(folder)
    flight.status(lambda values: values["store problem"] == "")
    image = store_support.view(flight.store, store_support.track(1)[1])[0]
    assert flight.ask(image, 7 * 10**12).status.status == 0
    flight.store.rename(flight.store.with_name("gone"))
    assert not flight.peer.call(Trigger, f"{flight.name}/reload").success
    flight.store.with_name("gone").rename(flight.store)
    flight.status(lambda values: values["store problem"] == "")
    flight.ask(image, 5)


def test_the_diagnostics_say_what_computes_the_network_and_why_not_what_was_exported(flight):
    image = store_support.view(flight.store, store_support.track(1)[1])[0]
    stamps = iter(range(6 * 10**15, 7 * 10**15))
    before = flight.ask(image, next(stamps))
    assert flight.status()[2]["runtime"] == "eager"
    export_engines(flight.store)
    assert flight.peer.call(Trigger, f"{flight.name}/reload").success
    flight.status(lambda values: values["runtime"] == "onnx (CPU)")
    after = flight.ask(image, next(stamps))
    assert (before.latitude, before.longitude) == pytest.approx((after.latitude, after.longitude), abs=1e-6)
    for graph in engines_of(flight.store).glob("tail-*/graph.onnx"):
        graph.write_bytes(b"damaged")
    assert flight.peer.call(Trigger, f"{flight.name}/reload").success
    _, _, values = flight.status(lambda values: values["runtime"] == "eager")
    assert "damaged" in values["runtime: problem"]


def test_a_new_generation_is_taken_into_use_without_missing_a_frame_and_one_of_another_grid_is_not(flight):
    image = store_support.view(flight.store, store_support.track(1)[1])[0]
    first = offline(flight.store, image).position
    network = Localizer.open(flight.store).network.copy_living_parts()
    with torch.no_grad():
        for weight in network.heads.weights:
            weight.neg_()
    store_support.commit_generation(flight.store, network)
    second = offline(flight.store, image).position
    assert first.tolist() != second.tolist()
    stamps = iter(range(3 * 10**13, 4 * 10**13))
    answers = []
    while not answers or np.abs(positions_of(answers[-1], flight.store) - second).max() > 1e-2:
        answers.append(flight.ask(image, next(stamps)))
        flight.peer.spin(0.02)
        assert len(answers) < 3000
    assert all(answer.status.status == 0 for answer in answers)

    with GenerationStore(flight.store).draft() as draft:  # learnt on other ground
        (draft.path / "tail.safetensors").write_bytes(b"x")
        draft.commit(["tail.safetensors"], GenerationFacts(grid_hash="another"))
    level, _, _ = flight.status(lambda values: "grid" in values["store problem"])
    assert level == DiagnosticStatus.WARN
    answer = flight.peer.call(Trigger, f"{flight.name}/reload")
    assert not answer.success and "grid" in answer.message
    np.testing.assert_allclose(positions_of(flight.ask(image, next(stamps)), flight.store), second, atol=1e-2)
    GenerationStore(flight.store).rollback()
    flight.status(lambda values: values["store problem"] == "" and values["generation"] == "1")

    store_support.commit_generation(flight.store, network, temperature=1e4)  # sure of nothing
    assert flight.peer.call(Trigger, f"{flight.name}/reload").message == "generation 3"
    before = len(flight.poses)
    silent = flight.ask(image, next(stamps))
    middle, covariance = Localizer(network).estimator.ignorance
    assert silent.status.status == -1
    np.testing.assert_allclose(positions_of(silent, flight.store), middle, atol=1e-2)
    np.testing.assert_allclose(np.asarray(silent.position_covariance).reshape(3, 3)[:2, :2], covariance, atol=1e-3)
    assert int(flight.status(balanced)[2][f"rejected: {LOW_CONFIDENCE}"]) >= 1
    assert len(flight.poses) == before


def test_without_a_store_the_node_says_what_to_do_and_starts_when_there_is_one(tmp_path):
    made = store_support.make_store(tmp_path / "made")
    image = store_support.view(made, store_support.track(1)[1])[0]
    later = tmp_path / "later"
    with Flight(tmp_path, "patient", store=later) as flight:
        level, words, values = flight.status()
        level, words, values = flight.status(lambda values: values["store problem"])
        assert (level, values["state"]) == (DiagnosticStatus.ERROR, "unconfigured")
        assert "aerial-vpr build-map" in words and str(later) in words
        answer = flight.peer.call(Trigger, f"{flight.name}/reload")
        assert not answer.success and "aerial-vpr build-map" in answer.message
        made.rename(later)
        flight.peer.wait_matched()
        assert flight.ask(image, 5).status.status == 0
        assert flight.process.stop(signal.SIGTERM) == 0, flight.process.log
