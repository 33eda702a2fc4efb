"""Learn-and-Dispose as a whole: the real command, real bags, real kills."""

import json
import resource
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from crash_support import STEPS, environment, run_and_kill, start
from store_support import jpeg, make_store, write_flight

from aerial_vpr_cl import files
from aerial_vpr_cl.cli import main
from aerial_vpr_cl.errors import Cancelled, StoreError
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.knowledge import load_knowledge
from aerial_vpr_cl.knowledge.report import Recalls
from aerial_vpr_cl.learning.adapt import adapt
from aerial_vpr_cl.learning.adapt_settings import AdaptSettings, GateSettings
from aerial_vpr_cl.learning.validation import refusal
from aerial_vpr_cl.mission.bag_writer import MissionWriter
from aerial_vpr_cl.mission.mission import read_mission

QUICK = AdaptSettings(cycles=1, views=1, gate_margin=1.0, gate_samples=8, threads=1)
OPTIONS = ["--cycles", "1", "--views", "1", "--gate-margin", "1.0", "--gate-samples", "8", "--threads", "1"]
ALL_STEPS = ("learn.start", "learn.done", "select.start", "select.done", *STEPS)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("made")
    return make_store(root, input_size=32)


@pytest.fixture
def store(made, tmp_path) -> Path:
    """A store of its own for each test, with one mission waiting."""
    root = tmp_path / "store"
    shutil.copytree(made, root)
    write_flight(root, root / "missions" / "first", 12, name="first", modality="VIS")
    return root


def loaded(store: Path):
    return load_knowledge(GenerationStore(store), torch.device("cpu"))


def command(store: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "aerial_vpr_cl", "adapt", str(store), *OPTIONS, *options]


def test_a_mission_becomes_the_next_generation_and_its_raw_frames_are_gone(store):
    (report,) = adapt(store, GenerationStore(store).waiting_missions(), QUICK)
    assert report.committed and report.generation == 1 and report.kept == report.used == 12
    assert not (store / "missions" / "first").exists()
    after = loaded(store)
    assert after.generation.number == 1 and len(after.buffer) == 12
    assert [mission.name for mission in after.generation.facts.missions] == ["first"]
    assert "generation 1" in report.summary() and "12 frames flown, 12 used, 12 kept" in report.summary()
    json.dumps(report.to_dict(), allow_nan=False)


def test_missions_are_learnt_in_order_each_into_its_own_generation(store):
    write_flight(store, store / "missions" / "second", 12, name="second", modality="IR")
    reports = adapt(store, GenerationStore(store).waiting_missions(), replace(QUICK, seed=3))
    assert [(report.mission, report.generation) for report in reports] == [("first", 1), ("second", 2)]
    assert {kept.mission for kept in loaded(store).buffer} == {"first", "second"}
    assert {kept.modality for kept in loaded(store).buffer} == {"VIS", "IR"}


def test_lowered_limits_hold_for_methods_that_select_nothing_too(store):
    write_flight(store, store / "missions" / "second", 12, name="second", modality="IR")
    first, second = GenerationStore(store).waiting_missions()
    adapt(store, [first], replace(QUICK, method="er"))
    assert max(len(group) for group in loaded(store).buffer.groups) > 1
    adapt(store, [second], replace(QUICK, method="ft", budget=1))
    assert max(len(group) for group in loaded(store).buffer.groups) == 1


def test_keep_raw_keeps_the_mission_and_does_not_learn_it_twice(store):
    keep = replace(QUICK, keep_raw=True)
    adapt(store, GenerationStore(store).waiting_missions(), keep)
    (again,) = adapt(store, GenerationStore(store).waiting_missions(), keep)
    assert (store / "missions" / "first").is_dir()
    assert again.generation == 1 and again.steps == 0 and "learnt before" in again.summary()


def test_confidence_is_refitted_on_frames_that_are_remembered_but_not_learnt(made, tmp_path):
    stores = [Path(shutil.copytree(made, tmp_path / name)) for name in ("all", "half")]
    reports = []
    for store, share in zip(stores, (0.0, 0.5)):
        write_flight(store, store / "missions" / "long", 30, name="long", modality="VIS")
        settings = replace(QUICK, calibration_share=share, batch_current=2)
        reports += adapt(store, GenerationStore(store).waiting_missions(), settings)
    whole, half = reports
    assert half.steps < whole.steps and half.kept == half.used == whole.used == 30
    # A random network at the temperature of the fixture is sure of everything; what it has not learnt says otherwise.
    before = float(loaded(made).network.temperature)
    assert all(float(loaded(store).network.temperature) > 10 * before for store in stores)


def test_what_a_method_learns_beside_the_network_goes_with_the_generations(store):
    udil = replace(QUICK, method="udil+discriminator_rate=1e-3", cycles=2)
    learnt = []
    for name in ("first", "second", "third"):
        if name != "first":
            write_flight(store, store / "missions" / name, 12, name=name, modality="IR")
        adapt(store, GenerationStore(store).waiting_missions(), udil)
        learnt.append(loaded(store).method_state)
    assert loaded(store).generation.number == 3
    # Nothing is there to tell apart in the first mission; then outputs of missions that are known go on being learnt.
    assert not torch.equal(learnt[1]["discriminator.0.weight"], learnt[0]["discriminator.0.weight"])
    moved = (learnt[2]["discriminator.0.weight"] - learnt[1]["discriminator.0.weight"]).norm()
    assert moved < 0.5 * learnt[1]["discriminator.0.weight"].norm()  # a new one would be as far away as it is long
    adapt(store, [], QUICK)
    file = store / "generations" / "000003" / "method.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    assert loaded(store).generation.number == 2


def test_cancelling_leaves_the_old_generation_and_the_mission(store):
    def stop(phase, done, total, **figures):
        if phase == "learn" and done == 2:
            raise Cancelled("stopped by the operator")

    with pytest.raises(Cancelled):
        adapt(store, GenerationStore(store).waiting_missions(), QUICK, stop)
    assert GenerationStore(store).numbers() == [0]
    assert (store / "missions" / "first").is_dir()
    assert not [path for path in (store / "generations").iterdir() if path.name.startswith(".")]


def test_the_gate_names_what_fell_and_lets_noise_pass(store):
    network, asked = loaded(store).network, (40, 400)
    before = Recalls(mission=0.5, replay=0.9, exemplars=0.8)
    gate = GateSettings(gate_margin=0.1)
    assert refusal(network, before, Recalls(0.9, 0.85, 0.75), gate, *asked) == ""
    assert "replay buffer fell from 90% to 70%" in refusal(network, before, Recalls(0.9, 0.7, 0.8), gate, *asked)
    assert "exemplars" in refusal(network, before, Recalls(0.9, 0.9, 0.6), gate, *asked)
    nothing = float("nan")
    assert refusal(network, Recalls(0.5, nothing, nothing), Recalls(0.9, nothing, 0.1), gate, *asked) == ""
    # Of two frames one is half; so many of forty are no chance.
    halved = Recalls(0.9, 0.45, 0.8)
    assert refusal(network, before, halved, gate, 2, 400) == "" and refusal(network, before, halved, gate, *asked)
    with torch.no_grad():
        next(iter(network.heads.weights)).fill_(float("nan"))
    assert "not finite" in refusal(network, before, before, gate, *asked)


def test_nan_weights_keep_generation_and_mission(store, caplog):
    (report,) = adapt(store, GenerationStore(store).waiting_missions(), replace(QUICK, tail_rate=1e30, head_rate=1e30))
    assert not report.committed and "not finite" in report.reason
    assert GenerationStore(store).numbers() == [0] and (store / "missions" / "first").is_dir()


def test_a_mission_without_usable_frames_is_refused_and_kept_and_does_not_hold_up_the_others(store):
    blind = write_flight(store, store / "missions" / "blind", 4, name="blind")
    for file in blind.glob("*.mcap"):
        data = file.read_bytes()
        file.write_bytes(data[: len(data) // 50])
    linked = store / "missions" / "linked"
    linked.symlink_to(blind)
    reports = adapt(store, GenerationStore(store).waiting_missions(), QUICK)
    assert [(report.mission, report.committed) for report in reports] == [
        ("blind", False),
        ("first", True),
        ("linked", False),
    ]
    assert "blind" in reports[0].reason and "link" in reports[2].reason
    assert blind.is_dir() and linked.is_symlink() and GenerationStore(store).numbers() == [0, 1]


def test_what_shows_nothing_is_not_learnt_as_it_is_not_answered(store):
    dark = store / "missions" / "dark"
    flown = read_mission(store / "missions" / "first", loaded(store).map.grid)
    latitudes, longitudes = loaded(store).map.grid.projection.to_wgs84(flown.positions)
    with MissionWriter(dark, name="dark") as writer:
        for row, frame in enumerate(flown.frames):
            writer.write_fix(frame.stamp_ns, latitudes[row], longitudes[row], 500.0)
            if row < 4:
                writer.write_image(frame.stamp_ns, jpeg(np.full((64, 64, 3), 7, np.uint8)))
            else:
                writer.write_image(frame.stamp_ns, flown.frames[min(row, 7)].image)  # then the camera stops
    (report,) = adapt(store, [dark], QUICK)
    assert report.committed and report.refused == {"blank image": 4, "camera frozen": 4}
    assert "12 frames flown, 4 used, 4 kept" in report.summary()


@pytest.mark.parametrize("step", ALL_STEPS)
def test_a_kill_at_any_step_leaves_one_whole_generation_and_loses_no_mission(store, step):
    run_and_kill(command(store), step)
    knowledge = loaded(store)  # verifies every hash; model and buffer come from one folder
    mission = store / "missions" / "first"
    assert knowledge.generation.number in (0, 1)
    if knowledge.generation.number == 0:
        assert mission.is_dir() and len(knowledge.buffer) == 0
    else:
        assert len(knowledge.buffer) == 12
    # The next call repairs: it learns the mission if it was not learnt, and finishes the disposal if it was.
    adapt(store, GenerationStore(store).waiting_missions(), QUICK)
    assert GenerationStore(store).newest().number == 1 and not mission.exists()
    assert not [path.name for path in (store / "missions").iterdir()]
    assert not [path.name for path in (store / "generations").iterdir() if path.name.startswith(".")]


def test_a_full_disk_keeps_everything_as_it_was(store):
    import subprocess

    smallest = (store / "generations" / "000000" / "tail.safetensors").stat().st_size // 2
    done = subprocess.run(
        command(store, "--cache-mb", "0"),
        env=environment(),
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (smallest, smallest)),
        timeout=300,
    )
    assert done.returncode == 1, done.stderr
    assert "full" in done.stderr
    assert GenerationStore(store).numbers() == [0] and (store / "missions" / "first").is_dir()
    assert not [path for path in (store / "generations").iterdir() if path.name.startswith(".")]


def test_too_little_room_for_the_next_generation_is_told_before_anything_is_learnt(store, monkeypatch):
    monkeypatch.setattr("aerial_vpr_cl.knowledge.knowledge.SPACE_MARGIN_BYTES", 1 << 60)
    phases = []
    with pytest.raises(StoreError, match="free some space"):
        adapt(store, GenerationStore(store).waiting_missions(), QUICK, lambda phase, *_, **__: phases.append(phase))
    assert set(phases) <= {"read", "look"} and (store / "missions" / "first").is_dir()


def test_an_update_hashes_every_file_of_a_generation_once(store, monkeypatch):
    write_flight(store, store / "missions" / "second", 12, name="second")
    hashed = []
    monkeypatch.setattr(files, "sha256_of", lambda path, real=files.sha256_of: hashed.append(path) or real(path))
    adapt(store, GenerationStore(store).waiting_missions(), QUICK)
    tails = [path.parent.name for path in hashed if path.name == "tail.safetensors"]
    assert [tails.count(f"00000{number}") for number in range(3)] == [1, 1, 1]


@pytest.mark.parametrize("name", ["tail.safetensors", "replay.h5", "manifest.json"])
@pytest.mark.parametrize("harm", ["flip", "truncate", "remove"])
def test_a_damaged_newest_generation_falls_back_loudly(store, name, harm, caplog):
    adapt(store, GenerationStore(store).waiting_missions(), QUICK)
    file = store / "generations" / "000001" / name
    data = file.read_bytes()
    if harm == "remove":
        file.unlink()
    else:
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        file.write_bytes(data[:middle] if harm == "truncate" else flipped)
    assert loaded(store).generation.number == 0
    assert "generation 1 cannot be used" in caplog.text


@pytest.mark.parametrize("name", ["trunk.safetensors", "exemplars.h5", "grid.json"])
def test_a_damaged_map_file_is_named(store, name):
    file = store / "map" / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(StoreError, match=name):
        loaded(store)


def test_two_learners_on_one_store_and_the_second_stops_at_once(store, capsys):
    script = """
        import sys, time
        from pathlib import Path
        from aerial_vpr_cl.knowledge.generations import GenerationStore
        with GenerationStore(Path(sys.argv[1])).learner_lock():
            print("locked", flush=True)
            time.sleep(60)
    """
    from crash_support import python

    first = start([*python(script), str(store)])
    try:
        assert first.stdout.readline().strip() == "locked"
        assert main(["adapt", str(store), *OPTIONS]) == 1
        assert "another learner" in capsys.readouterr().err
    finally:
        first.kill()
        first.wait()
    # The lock of a killed process does not block.
    assert main(["adapt", str(store), *OPTIONS]) == 0


def test_the_buffer_never_exceeds_its_budget_and_shrinks_when_it_is_lowered(store):
    adapt(store, GenerationStore(store).waiting_missions(), QUICK)
    for number in range(2):
        write_flight(store, store / "missions" / f"m{number}", 12, name=f"m{number}")
        adapt(store, GenerationStore(store).waiting_missions(), replace(QUICK, budget=2))
        buffer = loaded(store).buffer
        assert all(len(group) <= 2 for group in buffer.groups)


def test_rollback_and_an_empty_queue_from_the_command_line(store, capsys):
    assert main(["adapt", str(store), *OPTIONS]) == 0
    assert main(["adapt", str(store), *OPTIONS]) == 0
    assert "no mission is waiting" in capsys.readouterr().out
    assert main(["rollback", str(store)]) == 0
    assert "generation 0 serves now" in capsys.readouterr().out
    assert loaded(store).generation.number == 0
    assert main(["rollback", str(store)]) == 1


def test_recall_is_undefined_without_frames():
    from aerial_vpr_cl.geo.grid import Grid
    from aerial_vpr_cl.learning.validation import recall_near

    grid = Grid.over_points([[100.0, 100.0]], epsg=32650, cell_side_m=200.0, modulus=2)
    assert np.isnan(recall_near(grid, np.empty((0, 1), np.float32), np.empty((0, 2))))
