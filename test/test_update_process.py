"""The process that an update runs in: what it learns, how it ends, and that its words agree with the store."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from crash_support import environment, names, write_bag
from store_support import make_store, write_flight

from aerial_vpr_cl.knowledge.failpoints import KILL_AT
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.report import MissionReport
from aerial_vpr_cl.learning.adapt_settings import AdaptSettings
from aerial_vpr_cl.learning.update import RunningUpdate
from aerial_vpr_cl.learning.update_process import UpdateLimits

QUICK = AdaptSettings(cycles=2, views=1, budget=2, threads=1, device="cpu", gate_margin=1.0)
ENDLESS = AdaptSettings(cycles=1000, views=1, threads=1, device="cpu")
PATIENCE_S = 120.0


@pytest.fixture
def store(tmp_path):
    return GenerationStore(make_store(tmp_path))


def fly(store, name, frames=20):
    return write_flight(store.root, store.missions_dir / name, frames, name=name, modality="VIS")


def update(store, settings=QUICK, **limits):
    outcome = RunningUpdate(store, settings, UpdateLimits(**{"nice": 0, **limits})).wait(PATIENCE_S)
    assert outcome is not None
    return outcome


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def wait_for(condition):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_waiting_missions_are_learnt_in_order_and_an_unreadable_one_holds_up_none(store):
    fly(store, "2026-1")
    write_bag(store.missions_dir / "2026-2")
    fly(store, "2026-3")
    outcome = update(store)
    assert not outcome.success  # not everything was learnt
    assert outcome.generation == store.newest().number == 2
    assert [mission.name for mission in store.newest().facts.missions] == ["2026-1", "2026-3"]
    assert names(store.missions_dir) == ["2026-2"]
    first, second, refused, serving = outcome.message.split(". ")
    kept = store.open(1).facts.report.kept
    assert f"2026-1: learnt as generation 1: 20 frames flown, 20 used, {kept} kept, {20 - kept} deleted" in first
    assert "recall on this flight" in first and "on earlier ones" in second
    assert "not learnt" in refused and "2026-2" in refused and "mission kept" in refused
    assert serving == "Generation 2 serves."


def test_without_a_waiting_mission_nothing_happens(store):
    outcome = update(store)
    assert outcome.success
    assert outcome.message == "no mission is waiting. Generation 0 serves."


def test_a_cancelled_update_changes_nothing_and_gives_way_while_it_runs(store):
    before = contents(fly(store, "sortie"))
    running = RunningUpdate(store, ENDLESS, UpdateLimits(nice=1))
    wait_for(lambda: running.stage.phase == "learn" and running.stage.loss is not None)
    assert running.stage.mission == "sortie" and (running.stage.index, running.stage.count) == (1, 1)
    assert 0.0 < running.stage.percent < 100.0
    wait_for(lambda: running.stage.time_left_s)
    assert os.getpriority(os.PRIO_PROCESS, running.pid) == min(os.getpriority(os.PRIO_PROCESS, 0) + 1, 19)
    assert b"OMP_NUM_THREADS=1" in Path(f"/proc/{running.pid}/environ").read_bytes()
    running.cancel()
    outcome = running.wait(PATIENCE_S)
    assert outcome.message == "cancelled; what is not learnt is kept. Generation 0 serves."
    assert not outcome.success and store.numbers() == [0]
    assert contents(store.missions_dir / "sortie") == before
    assert names(store.generations_dir) == ["000000"]


@pytest.mark.parametrize("step, committed", [("select.done", False), ("commit.renamed", True)])
def test_words_about_a_killed_update_agree_with_the_store(store, monkeypatch, step, committed):
    fly(store, "sortie")
    with monkeypatch.context() as patch:
        patch.setenv(KILL_AT, step)
        outcome = update(store)
    assert not outcome.success
    assert "the update process was killed by SIGKILL" in outcome.message
    assert outcome.message.endswith(f"Generation {int(committed)} serves.")
    assert outcome.generation == store.newest().number == int(committed)
    assert ("sortie: learnt as generation 1" in outcome.message) == committed
    assert names(store.missions_dir) == ([] if committed else ["sortie"])
    if committed:
        assert update(store).message == "no mission is waiting. Generation 1 serves."


def test_an_update_ends_with_the_process_that_started_it(store):
    fly(store, "sortie")
    script = """
        import sys, time
        from aerial_vpr_cl.knowledge.report import MissionReport
from aerial_vpr_cl.learning.adapt_settings import AdaptSettings
        from aerial_vpr_cl.learning.update import RunningUpdate
        from aerial_vpr_cl.learning.update_process import UpdateLimits
        from aerial_vpr_cl.knowledge.generations import GenerationStore
        from pathlib import Path
        running = RunningUpdate(GenerationStore(Path(sys.argv[1])), AdaptSettings(cycles=1000), UpdateLimits(nice=0))
        while running.stage.phase != "learn":
            time.sleep(0.05)
        print(running.pid, flush=True)
        time.sleep(600)
    """
    lines = [line.removeprefix("        ") for line in script.splitlines()]
    command = [sys.executable, "-c", "\n".join(lines), str(store.root)]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{pid}").exists() or "(zombie)" in Path(f"/proc/{pid}/status").read_text())
    assert store.numbers() == [0] and names(store.missions_dir) == ["sortie"]
    with store.learner_lock():
        pass


def test_an_update_that_needs_more_memory_than_allowed_says_so(store):
    fly(store, "sortie")
    outcome = update(store, memory_mb=150)
    assert not outcome.success and outcome.generation == 0
    assert "needs more memory than the allowed 150 MB (limits.memory_mb)" in outcome.message
    assert names(store.missions_dir) == ["sortie"]


def test_an_update_with_enough_memory_is_not_disturbed_by_its_limit_and_another_learner_is_turned_away(store):
    fly(store, "sortie")
    with store.learner_lock():
        outcome = update(store)
    assert not outcome.success and "is at work on this store" in outcome.message
    assert update(store, memory_mb=3000).success


def told(values):
    return MissionReport.from_dict(values).summary()


def test_what_is_told_of_a_mission():
    report = {
        "mission": "m",
        "generation": 3,
        "committed": True,
        "reason": "",
        "frames": 100,
        "used": 80,
        "kept": 30,
        "refused": {"gap": 20},
        "before": {"mission": 0.5, "replay": None, "exemplars": 0.9},
        "after": {"mission": 0.75, "replay": None, "exemplars": 0.9},
        "keep_raw": False,
    }
    assert told(report) == (
        "m: learnt as generation 3: 120 frames flown, 80 used, 30 kept, 90 deleted; "
        "recall on this flight 50% -> 75%, on the map 90% -> 90%"
    )
    assert "raw mission kept" in told({**report, "keep_raw": True})
    assert "was learnt before" in told({**report, "before": {}, "after": {}})
    refused = told({**report, "committed": False, "reason": "recall fell"})
    assert refused == "m: not learnt: recall fell; mission kept"
