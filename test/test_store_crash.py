"""A learner that is killed at any moment leaves generation N or N+1, and takes the mission only with N+1."""

import logging
import random
import time
from pathlib import Path

import pytest
from crash_support import COMMIT_STEPS, DISPOSE_STEPS, STEPS, commit, names, python, run, run_and_kill, start, write_bag

from aerial_vpr_cl.knowledge.generations import GenerationStore

MISSIONS = 80

LEARN = """
    import os, sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[2])
    from crash_support import commit
    from aerial_vpr_cl.knowledge.generations import GenerationStore

    store = GenerationStore(Path(sys.argv[1]))
    with store.learner_lock():
        os.write(1, b"learning\\n")
        store.finish_disposal()
        for mission in store.waiting_missions()[: int(sys.argv[3])]:
            commit(store, mission.name.encode(), dispose=[store.disposable(mission)])
            store.dispose(mission)
            os.write(1, b"learnt\\n")
            store.prune()
"""


@pytest.fixture
def store(tmp_path: Path) -> GenerationStore:
    """Generation 0 and the missions 000001, 000002, …, each to be learnt by the generation of its number."""
    store = GenerationStore.create(tmp_path / "store")
    commit(store, b"000000")
    for number in range(1, MISSIONS + 1):
        write_bag(store.missions_dir / f"{number:06d}", f"frames of {number}".encode())
    return store


def learn(store: GenerationStore, missions: int = 1) -> list[str]:
    return [*python(LEARN), str(store.root), str(Path(__file__).parent), str(missions)]


def check(store: GenerationStore) -> int:
    """Number of the newest generation, which is whole and alone accounts for every mission that is gone."""
    newest = store.newest()
    for name in ("tail.safetensors", "replay.h5"):
        assert (newest.path / name).read_text() == newest.path.name
    waiting = [int(path.name) for path in store.waiting_missions()]
    assert waiting in (list(range(newest.number, MISSIONS + 1)), list(range(newest.number + 1, MISSIONS + 1)))
    for path in store.waiting_missions():
        assert names(path) == [f"{path.name}_0.mcap", f"{path.name}_1.mcap", "metadata.yaml"]
    return newest.number


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_the_old_or_the_new_generation_counts(
    store: GenerationStore, step: str, caplog: pytest.LogCaptureFixture
) -> None:
    expected = 0
    for _ in range(3):
        run_and_kill(learn(store), step)
        expected += step not in ("commit.files_written", "commit.manifest_written")
        assert check(store) == expected
        assert (store.missions_dir / f"{expected:06d}").exists() == (expected > 0 and step in COMMIT_STEPS)
        store.finish_disposal()
        assert check(store) == expected
        assert store.waiting_missions()[0].name == f"{expected + 1:06d}"
        assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    run(learn(store))
    assert check(store) == expected + 1
    assert store.waiting_missions()[0].name == f"{expected + 2:06d}"
    assert not [name for name in names(store.missions_dir) + names(store.generations_dir) if name.startswith(".")]


@pytest.mark.parametrize("first", [*COMMIT_STEPS[2:], *DISPOSE_STEPS[:2]])
def test_killed_again_while_finishing_the_disposal(store: GenerationStore, first: str) -> None:
    run_and_kill(learn(store), first)
    for _ in range(2):  # the mission has three files, and one goes at a try
        run_and_kill(learn(store, 0), "dispose.deleting")
        assert check(store) == 1
    assert names(store.missions_dir)[:2] == [".disposed-000001", "000002"]
    run(learn(store, 0))
    assert names(store.missions_dir)[0] == "000002"


def test_killed_at_random_moments_nothing_is_ever_lost(
    store: GenerationStore, caplog: pytest.LogCaptureFixture
) -> None:
    moments = random.Random(0)
    reached = 0
    for _ in range(15):
        learner = start(learn(store, 5))
        assert learner.stdout and learner.stdout.readline() == "learning\n"
        for _ in range(moments.randrange(3)):
            assert learner.stdout.readline() == "learnt\n"
        time.sleep(moments.uniform(0, 0.02))
        learner.kill()
        learner.wait()
        number = check(store)
        assert number >= reached
        reached = number
    assert reached > 5
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    store.finish_disposal()
    store.prune()
    assert [path.name for path in store.waiting_missions()] == [f"{i:06d}" for i in range(reached + 1, MISSIONS + 1)]
    assert names(store.generations_dir) == [f"{reached - 1:06d}", f"{reached:06d}"]
