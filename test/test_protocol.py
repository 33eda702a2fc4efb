"""The protocol: how missions are split, what a run measures, and where trunk outputs come from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from benchmark_support import CONFIG, prepared, write_config

from aerial_vpr_cl.benchmark.protocol import answer, errors_of, fly_course, read_flown
from aerial_vpr_cl.benchmark.records import record_of
from aerial_vpr_cl.benchmark.settings import Run, load_benchmark
from aerial_vpr_cl.benchmark.side_by_side import compare
from aerial_vpr_cl.benchmark.work_folder import WorkFolder
from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.evaluation.metrics import summarize_run
from aerial_vpr_cl.geo.view_kind import ViewKind
from aerial_vpr_cl.images import decode_compressed
from aerial_vpr_cl.learning.augmentation import Augmentation
from aerial_vpr_cl.learning.batches import CURRENT, EXEMPLAR, REPLAY
from aerial_vpr_cl.learning.loop import ViewMaker
from aerial_vpr_cl.learning.methods import method_of
from aerial_vpr_cl.learning.recipes import EMBEDDED_RECIPE
from aerial_vpr_cl.learning.trunk_outputs import BATCH, TrunkOutputs, whole_image
from aerial_vpr_cl.localization.estimate import Estimate
from aerial_vpr_cl.localization.localizer import Localizer
from aerial_vpr_cl.mission import bag_reader
from aerial_vpr_cl.mission.bag_writer import MissionWriter
from aerial_vpr_cl.mission.mission import read_mission


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    torch.set_num_threads(1)
    return prepared(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def opened(work):
    return work.open()


@pytest.fixture
def course(opened):
    return opened[0]


@pytest.fixture
def trunk(opened):
    return opened[1]


def whole(frames):
    return [whole_image(frame) for frame in frames]


def test_a_mission_is_learnt_from_its_first_half_and_tested_on_its_second(work, course):
    grid = course.grid
    truth, gnss = (read_mission(work.bag("A"), grid, positions=kind) for kind in ("truth", "gnss"))
    mission = course.sequence[0]
    assert len(truth.frames) == 32
    assert [o.stamp_ns for o in mission.train] == [f.stamp_ns for f in gnss.frames[:11]]
    assert [o.stamp_ns for o in mission.test] == [f.stamp_ns for f in truth.frames[21:]]
    assert np.array_equal(mission.positions, truth.positions[21:])
    learnt = np.array([observation.position for observation in mission.train])
    assert np.array_equal(learnt, gnss.positions[:11]) and not np.array_equal(learnt, truth.positions[:11])


def test_frames_that_gnss_lost_are_missing_from_the_training_half_only(course):
    assert len(course.sequence[1].train) < 11 and len(course.sequence[1].test) == 11


def test_a_held_out_mission_is_tested_on_whole(course):
    (mission,) = course.held_out
    assert mission.train == () and len(mission.test) == 24


def test_both_halves_of_a_flight_that_returns_share_their_cells(course):
    mission = course.sequence[0]
    learnt = {observation.label for observation in mission.train}
    hits = [observation.label in learnt for observation in mission.test]
    assert mission.shared_cells == pytest.approx(sum(hits) / len(hits)) and mission.shared_cells > 0.5


def test_a_bag_without_truth_is_tested_by_its_gnss_and_too_short_a_one_is_refused(work, tmp_path, course):
    mission = read_flown(write_short(work, tmp_path / "gnss", 30), course.grid, work.views)
    assert len(mission.train) == 10 and len(mission.test) == 10
    path = write_short(work, tmp_path / "short", 9)
    with pytest.raises(MissionError, match=r"9 frames leave .* fly longer"):
        read_flown(path, course.grid, work.views)


def test_trunk_outputs_of_another_map_lie_apart(tmp_path):
    work = WorkFolder(tmp_path / "out", load_benchmark(write_config(tmp_path)))
    (work.store / "map").mkdir(parents=True)
    keys = set()
    for exemplars in ("these", "those"):
        (work.store / "map" / "manifest.json").write_text(exemplars)
        keys.add(work.rows_key)
    assert len(keys) == 2


def test_north_up_the_same_protocol_learns_and_tests_views(tmp_path):
    config = CONFIG.replace("view: as_seen, ", "view: north_up, ").replace("rotations: 1", "stride_m: 100")
    work = WorkFolder(tmp_path / "out", load_benchmark(write_config(tmp_path, config)))
    work.prepare()
    course, trunk = work.open()
    size = course.base.input_size
    for mission in course.missions:
        for observation in mission.train + mission.test:
            assert decode_compressed(observation.image).shape == (size, size, 3)
    run = Run("dbs_hybrid", "forward", 0, 4)
    trajectory, network, buffer = fly_course(course, run, course.sequence, trunk)
    assert len(trajectory.answers) == len(course.sequence) + 1
    assert network.settings.view.is_north_up
    assert all(decode_compressed(kept.image).shape == (size, size, 3) for kept in buffer)


def test_frames_are_answered_as_a_drone_is_answered(course, trunk):
    """Positions, refusals and covariances are the localizer's own; trunk outputs are kept with half the digits."""
    localizer = Localizer(course.base)
    mission = course.held_out[0]
    told = answer(course.base, mission, trunk).flown
    alone = [localizer.localize(decode_compressed(observation.image)) for observation in mission.test]
    given = [isinstance(one, Estimate) for one in alone]
    assert np.mean(told.published == given) > 0.9
    for row in np.flatnonzero(told.published & given):
        if np.array_equal(told.given[row], alone[row].position):
            assert told.covariances[row] == pytest.approx(alone[row].covariance, rel=0.2)


def test_a_record_says_what_drones_would_have_been_told(course, trunk):
    trajectory, _, buffer = fly_course(course, Run("ft", "forward", 0, 0), course.sequence[:1], trunk)
    told = record_of(trajectory, course, buffer, threshold_m=300.0, digest="")["told"]
    for moment in ("base", "final"):
        held_out = told[moment]["held_out"]
        assert held_out["frames"] == 24
        assert held_out["published"] + sum(held_out["silences"].values()) == 24
        assert set(held_out["coverage"]) == {"50", "90", "95"}


def test_a_record_says_how_often_registration_would_have_been_sent_to_the_right_cell(course, trunk):
    trajectory, _, buffer = fly_course(course, Run("ft", "forward", 0, 0), course.sequence[:1], trunk)
    answers = trajectory.answers[0]
    record = record_of(trajectory, course, buffer, threshold_m=300.0, digest="")
    proposed = record["proposed"]["base"]["held_out"]
    named = [
        first == observation.label
        for mission in course.held_out
        for first, observation in zip(answers[mission.name].classes, mission.test)
    ]
    assert proposed["1"] == pytest.approx(np.mean(named))
    assert proposed["1"] <= proposed["5"] <= proposed["20"] <= 1.0
    of_each = [record["proposed_of"]["base"][mission.name]["1"] for mission in course.held_out]
    counts = [len(mission.test) for mission in course.held_out]
    assert proposed["1"] == pytest.approx(np.average(of_each, weights=counts))


def test_a_bag_is_gone_through_at_most_twice(work, course, monkeypatch):
    passes = []
    real = bag_reader.read_file

    def counted(file):
        yield from real(file)
        passes.append(file)  # a look at the first message does not come here

    monkeypatch.setattr(bag_reader, "read_file", counted)
    read_flown(work.bag("A"), course.grid, work.views)
    assert len(passes) <= 2
    passes.clear()
    read_mission(work.bag("A"), course.grid)
    assert len(passes) <= 2


def write_short(work, path, n):
    """The first n frames of mission A as a bag of GNSS alone."""
    mission = read_mission(work.bag("A"), work.map.grid)
    latitudes, longitudes = work.map.grid.projection.to_wgs84(mission.positions)
    with MissionWriter(path, name="short", modality="VIS") as writer:
        for k, frame in enumerate(mission.frames[:n]):
            writer.write_fix(frame.stamp_ns, latitudes[k], longitudes[k], 300.0)
            writer.write_image(frame.stamp_ns, frame.image)
    return path


def test_a_run_measures_every_mission_before_and_after_each(course, trunk):
    run = Run("dbs_hybrid", "forward", 3, 0)
    trajectory, network, buffer = fly_course(course, run, course.sequence, trunk)
    assert trajectory.missions == ("A", "B") and len(trajectory.answers) == 3
    assert all(set(answers) == {"A", "B", "C"} for answers in trajectory.answers)
    base = answer(course.base, course.sequence[1], trunk)
    assert np.array_equal(trajectory.answers[0]["B"].errors_m, base.errors_m)
    final = answer(network, course.held_out[0], trunk)
    assert np.array_equal(trajectory.answers[-1]["C"].classes, final.classes)
    expected = np.linalg.norm(course.grid.centres[final.classes] - course.held_out[0].positions, axis=1)
    np.testing.assert_allclose(final.errors_m, expected)
    assert 0 < max(map(len, buffer.groups)) <= 3 and {entry.mission for entry in buffer} <= {"A", "B"}
    record = record_of(trajectory, course, buffer, threshold_m=300.0, digest="")
    assert np.shape(record["matrix"]["300"]) == (3, 2) and len(record["held_out_recall"]["300"]) == 3
    counts = [len(mission.test) for mission in course.sequence]
    summary = summarize_run(record["matrix"]["300"], counts, errors_of(trajectory.answers[-1], ["C"]))
    assert record["summary"] == summary.__dict__
    assert record["localization"]["held_out"]["VIS"]["count"] == 24
    kept = record["buffer"]["kept"]
    assert sum(map(len, kept.values())) == len(buffer) == sum(record["buffer"]["sizes"])


def test_the_base_model_stays_as_it_is(course, trunk):
    before = {name: value.clone() for name, value in course.base.living_tensors().items()}
    _, network, buffer = fly_course(course, Run("ft", "forward", 0, 0), course.sequence[:1], trunk)
    assert len(buffer) == 0
    assert all(torch.equal(before[name], value) for name, value in course.base.living_tensors().items())
    assert any(not torch.equal(before[name], value) for name, value in network.living_tensors().items())


def test_classification_and_retrieval_answer_the_same_queries(work, course, trunk):
    facts, times = compare(course.base, course, work.map, trunk, 30)
    queries = sum(len(mission.test) for mission in course.missions)
    assert facts["patches"] == 30 and times.keys() == {"classification_ms", "retrieval_ms"}
    assert facts["classification"]["count"] == facts["retrieval"]["count"] == queries
    errors = np.concatenate([answer(course.base, mission, trunk).errors_m for mission in course.missions])
    assert facts["classification"]["recall_300"] == pytest.approx(np.mean(errors <= 300))


# Trunk outputs


def test_trunk_outputs_do_not_depend_on_who_asked_first_or_on_what_is_kept(course, tmp_path):
    frames = whole(course.sequence[0].train + course.sequence[0].test)
    together = TrunkOutputs.shared(course.base, tmp_path / "a").of(frames)
    one_by_one = TrunkOutputs.shared(course.base, tmp_path / "b")
    backwards = [one_by_one.of(frames[k : k + 1]) for k in reversed(range(len(frames)))]
    assert torch.equal(together, torch.cat(backwards[::-1]))
    full = TrunkOutputs.shared(course.base, tmp_path / "c", capacity_bytes=0)
    assert torch.equal(together, full.of(frames)) and len(full) == 0


def never():
    raise AssertionError("rendered again")


def test_processes_find_what_others_have_kept(course, tmp_path):
    frames = whole(course.sequence[0].train)
    first, second = (TrunkOutputs.shared(course.base, tmp_path / "shelf") for _ in range(2))
    kept = first.of(frames)
    assert len(first) == len(frames)
    assert torch.equal(second.of([frame._replace(render=never) for frame in frames]), kept)


def test_outputs_without_names_are_overwritten(course, tmp_path):
    frames = whole(course.sequence[0].train)
    trunk = TrunkOutputs.shared(course.base, tmp_path / "shelf")
    trunk.of(frames[:3])
    (outputs,) = (tmp_path / "shelf").rglob("outputs")
    with outputs.open("ab") as file:  # a writer killed before it wrote the names
        file.write(b"\xff" * 5000)
    again = TrunkOutputs.shared(course.base, tmp_path / "shelf")
    assert torch.equal(again.of(frames), TrunkOutputs.shared(course.base, tmp_path / "other").of(frames))


def test_views_that_are_shared_are_those_that_are_private(course, trunk):
    replay = course.sequence[0].train
    draw = ViewMaker(64, course.sequence[1].train, None, None, replay, EMBEDDED_RECIPE, seed=5)
    views = [draw.picture(key) for key in [(0, 1, 0), (2, 3, 1), (0, 1, 1), (2, 3, 0)]]
    trunk.prepare(views)
    with TrunkOutputs.private(course.base, capacity_bytes=1 << 20) as private:
        private.prepare(views)
        assert torch.equal(trunk.of(views), private.of(views))
    assert len(views) < BATCH


def test_views_of_another_recipe_or_another_image_are_not_taken_for_these(course):
    train = course.sequence[0].train
    strong = replace(
        EMBEDDED_RECIPE, mission_augmentation=replace(EMBEDDED_RECIPE.mission_augmentation, brightness=0.4)
    )
    flown_again = [replace(train[0], image=train[1].image), *train[1:]]
    names = {
        ViewMaker(size_px, frames, None, None, (), recipe, seed=5).picture((0, 0, 0)).name
        for size_px, frames, recipe in (
            (64, train, EMBEDDED_RECIPE),
            (32, train, EMBEDDED_RECIPE),
            (64, train, strong),
            (64, flown_again, EMBEDDED_RECIPE),
        )
    }
    assert len(names) == 4


def test_frames_are_turned_where_a_method_asks_for_it_unless_north_is_up(course):
    train = course.sequence[0].train
    still = replace(EMBEDDED_RECIPE, mission_augmentation=Augmentation((1.0, 1.0), (1.0, 1.0)))
    north_up = replace(still, view=ViewKind("north_up", 0.0, 0.0))

    def shown(recipe, turn_frames):
        draw = ViewMaker(64, train, None, None, (), recipe, seed=5, turn_frames=turn_frames)
        return [draw.picture((CURRENT, 0, view)) for view in range(8)]

    plain, turned = shown(still, False), shown(still, True)
    whole = plain[0].render()
    assert all(np.array_equal(picture.render(), whole) for picture in plain)
    quarters = {picture.render().tobytes() for picture in turned}
    assert quarters <= {np.rot90(whole, k).tobytes() for k in range(4)} and len(quarters) > 1
    assert not {picture.name for picture in plain} & {picture.name for picture in turned}
    assert all(np.array_equal(picture.render(), whole) for picture in shown(north_up, True))
    assert method_of("turned").turns_frames and not method_of("dbs_hybrid").turns_frames


def test_exemplars_are_shown_in_the_colours_of_flown_frames_where_a_method_asks_for_it(course):
    a, b = course.sequence
    memories = course.memories
    still = replace(EMBEDDED_RECIPE, mission_augmentation=Augmentation((1.0, 1.0), (1.0, 1.0)))

    def shown(share, learnt=b.train, replay=a.train):
        draw = ViewMaker(64, learnt, memories.exemplars, memories.satellite, replay, still, seed=5, matched_share=share)
        return draw, [draw.picture((EXEMPLAR, row, 0)) for row in range(12)]

    (_, own), (draw, matched), (_, half) = shown(0.0), shown(1.0), shown(0.5)
    assert not {picture.name for picture in own} & {picture.name for picture in matched}
    assert 0 < len({picture.name for picture in own} & {picture.name for picture in half}) < len(half)
    models = [draw.model_of((EXEMPLAR, row, 0)) for row in range(12)]
    assert {source for source, _ in models} == {CURRENT, REPLAY}  # looks of before are shown, too
    for picture, (source, index) in zip(matched, models):
        frame = decode_compressed((b.train if source == CURRENT else a.train)[index].image)
        np.testing.assert_allclose(picture.render().mean(axis=(0, 1)), frame.mean(axis=(0, 1)), atol=6.0)
    assert draw.model_of((CURRENT, 0, 0)) is None
    assert {picture.name for picture in matched} != {picture.name for picture in shown(1.0, a.train, b.train)[1]}


def test_exemplars_lack_what_a_turned_camera_does_not_see_and_frames_what_their_own_did_not(course):
    memories = course.memories
    whole = Augmentation((1.0, 1.0), (1.0, 1.0))
    recipes = [replace(EMBEDDED_RECIPE, mission_augmentation=replace(whole, unseen=share)) for share in (0.0, 1.0)]
    makers = [
        ViewMaker(64, course.sequence[0].train, memories.exemplars, memories.satellite, (), recipe, seed=5)
        for recipe in recipes
    ]
    for source, alike in ((CURRENT, True), (EXEMPLAR, False)):
        shown = [np.stack([draw.render((source, row, 0)) for row in range(8)]) for draw in makers]
        assert np.array_equal(*shown) is alike


def test_a_view_follows_from_the_image_and_the_mission_being_learnt_not_from_its_place(course):
    a, b = course.sequence
    draw = ViewMaker(64, b.train, None, None, a.train, EMBEDDED_RECIPE, seed=5)
    moved = ViewMaker(64, b.train, None, None, a.train[::-1], EMBEDDED_RECIPE, seed=5)
    assert np.array_equal(draw.render((2, 0, 1)), moved.render((2, len(a.train) - 1, 1)))
    while_learning_a = ViewMaker(64, a.train, None, None, (), EMBEDDED_RECIPE, seed=5)
    assert not np.array_equal(draw.render((2, 0, 1)), while_learning_a.render((0, 0, 1)))
    other_seed = ViewMaker(64, b.train, None, None, a.train, EMBEDDED_RECIPE, seed=6)
    assert not np.array_equal(draw.render((2, 0, 1)), other_seed.render((2, 0, 1)))
