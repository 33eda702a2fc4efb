"""One learner at a time; readers need no lock and see whole generations only."""

import os
import threading
from pathlib import Path

import pytest
from crash_support import commit, names, python, start
from generation_support import content, three_generations

from aerial_vpr_cl.errors import StoreError
from aerial_vpr_cl.knowledge.draft import Generation
from aerial_vpr_cl.knowledge.generations import GenerationStore


@pytest.fixture
def store(tmp_path: Path) -> GenerationStore:
    return three_generations(tmp_path / "store")


HOLD_THE_LOCK = """
    import os, sys, time
    from pathlib import Path
    from aerial_vpr_cl.knowledge.generations import GenerationStore
    store = GenerationStore(Path(sys.argv[1]))
    with store.learner_lock(), store.draft() as draft:
        (draft.path / "tail.safetensors").write_bytes(bytes(1000))
        if len(sys.argv) > 2 and os.fork() == 0:
            os.write(1, f"worker {os.getpid()}\\n".encode())
            time.sleep(60)
            os._exit(0)
        os.write(1, b"holding\\n")
        time.sleep(60)
"""


def test_a_second_learner_stops_at_once_and_is_told_who_the_first_is(store: GenerationStore) -> None:
    learner = start([*python(HOLD_THE_LOCK), str(store.root)])
    try:
        assert learner.stdout and learner.stdout.readline() == "holding\n"
        for action in (store.rollback, store.prune, lambda: commit(store, b"three")):
            with pytest.raises(StoreError, match=rf"another learner \(pid {learner.pid}\) is at work on this store"):
                action()
        assert len(list(store.generations_dir.glob(".draft-*"))) == 1, (
            "the second learner cleaned the first one's draft"
        )
        assert content(store) == "two", "readers need no lock"
    finally:
        learner.kill()
        learner.wait()


def test_a_killed_learner_neither_blocks_nor_leaves_its_temporaries(store: GenerationStore) -> None:
    learner = start([*python(HOLD_THE_LOCK), str(store.root)])
    assert learner.stdout and learner.stdout.readline() == "holding\n"
    learner.kill()
    learner.wait()
    assert list(store.generations_dir.glob(".draft-*"))
    (store.map_dir / ".tmp-0123-exemplars.h5").write_bytes(b"half")
    with store.learner_lock():
        assert names(store.generations_dir) == ["000000", "000001", "000002"]
        assert names(store.map_dir) == []
    assert commit(store, b"three") == 3


def test_a_forked_worker_does_not_keep_the_lock_of_its_killed_learner(store: GenerationStore) -> None:
    learner = start([*python(HOLD_THE_LOCK), str(store.root), "fork"])
    assert learner.stdout
    lines = sorted(learner.stdout.readline().split() for _ in range(2))
    assert lines[0] == ["holding"]
    worker = int(lines[1][1])
    learner.kill()
    learner.wait()
    try:
        os.kill(worker, 0)  # it lives
        assert commit(store, b"three") == 3
    finally:
        os.kill(worker, 9)


def test_the_lock_is_free_again_afterwards_and_may_be_nested_in_one_thread(store: GenerationStore) -> None:
    with store.learner_lock(), store.learner_lock():
        commit(store, b"three")
    with GenerationStore(store.root).learner_lock():
        pass


def test_another_thread_or_store_object_of_the_same_process_is_another_learner(store: GenerationStore) -> None:
    refused = []

    def roll_back(other: GenerationStore) -> None:
        try:
            other.rollback()
        except StoreError as error:
            refused.append(str(error))

    with store.learner_lock():
        for other in (store, GenerationStore(store.root)):
            thread = threading.Thread(target=roll_back, args=(other,))
            thread.start()
            thread.join()
    assert len(refused) == 2 and all(f"pid {os.getpid()}" in message for message in refused)


COMMIT_MANY = """
    import sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[2])
    from crash_support import commit
    from aerial_vpr_cl.knowledge.generations import GenerationStore
    store = GenerationStore(Path(sys.argv[1]))
    with store.learner_lock():
        for number in range(3, 80):
            commit(store, str(number).encode())
            store.prune()
"""


def test_a_reader_sees_only_whole_generations_while_a_learner_commits(
    store: GenerationStore, caplog: pytest.LogCaptureFixture
) -> None:
    learner = start([*python(COMMIT_MANY), str(store.root), str(Path(__file__).parent)])
    seen = [2]
    while learner.poll() is None:
        seen.append(store.newest().number)
    assert learner.returncode == 0
    assert seen == sorted(seen) and len(set(seen)) > 3
    assert content(store) == "79"
    assert not caplog.records


class OvertakenReader(GenerationStore):
    """Opens its first generation only when a learner has replaced all those it saw."""

    overtaken = False

    def open(self, number: int) -> Generation:
        if not self.overtaken:
            self.overtaken = True
            learner = GenerationStore(self.root)
            for learnt in (b"three", b"four"):
                commit(learner, learnt)
            learner.prune()
        return super().open(number)


def test_a_reader_that_a_learner_overtakes_looks_again(
    store: GenerationStore, caplog: pytest.LogCaptureFixture
) -> None:
    assert OvertakenReader(store.root).newest().number == 4
    assert not caplog.records


@pytest.mark.parametrize("name", ["map", "generations"])
def test_a_learner_does_not_follow_a_folder_that_is_a_link(store: GenerationStore, tmp_path: Path, name: str) -> None:
    foreign = (store.root / name).rename(tmp_path / "foreign")
    (foreign / ".tmp-precious").mkdir()
    (store.root / name).symlink_to(foreign)
    with pytest.raises(StoreError, match=f"{name}: is a link"), store.learner_lock():
        pass
    assert (foreign / ".tmp-precious").is_dir()


@pytest.mark.parametrize("how", ["symlink_to", "hardlink_to"])
def test_a_lock_that_is_a_link_empties_nothing(store: GenerationStore, tmp_path: Path, how: str) -> None:
    (tmp_path / "precious").write_text("precious")
    (store.root / "lock").unlink()
    getattr(store.root / "lock", how)(tmp_path / "precious")
    with pytest.raises(StoreError, match="lock: cannot be locked for learning"), store.learner_lock():
        pass
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_lock_that_is_a_pipe_is_refused_at_once(store: GenerationStore) -> None:
    (store.root / "lock").unlink()
    os.mkfifo(store.root / "lock")
    with pytest.raises(StoreError, match="no file of its own"), store.learner_lock():
        pass
