"""The store makes the next generation or nothing, finds damage, and deletes only what is learnt."""

import logging
import os
import shutil
import threading
from collections import namedtuple
from pathlib import Path

import pytest
from crash_support import commit, names, python, run, start, write_bag

from aerial_vpr_cl.errors import StoreError
from aerial_vpr_cl.files import MANIFEST, write_manifest
from aerial_vpr_cl.knowledge.draft import Generation
from aerial_vpr_cl.knowledge.facts import GenerationFacts, LearntMission
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.report import MissionReport

FACTS = GenerationFacts(
    grid_hash="g",
    parent=2,
    missions=(LearntMission("a@1", "a", "VIS", 20, 18), LearntMission("b@2", "b", "IR", 9, 9)),
    report=MissionReport("b", 3, True, frames=9, used=9, kept=4, refused={"gap": 2}, keep_raw=True),
    settings={"cycles": 3},
)


@pytest.fixture
def store(tmp_path: Path) -> GenerationStore:
    """A store with generations 0, 1 and 2, whose files say their number."""
    store = GenerationStore.create(tmp_path / "store")
    for content in (b"zero", b"one", b"two"):
        commit(store, content)
    return store


def content(store: GenerationStore) -> str:
    newest = store.newest()
    tail, replay = ((newest.path / name).read_bytes() for name in ("tail.safetensors", "replay.h5"))
    assert tail == replay
    return tail.decode()


def snapshot(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]}


# Committing


def test_the_newest_generation_holds_its_files_and_facts(store: GenerationStore) -> None:
    assert store.numbers() == [0, 1, 2]
    newest = store.newest(grid_hash="g")
    assert (newest.number, newest.path.name, newest.facts.grid_hash) == (2, "000002", "g")
    assert content(store) == "two"
    assert newest == store.open(2)


def test_commit_returns_what_open_returns(store: GenerationStore) -> None:
    with store.draft() as draft:
        (draft.path / "tail.safetensors").write_bytes(b"three")
        committed = draft.commit(["tail.safetensors"], FACTS)
    assert committed == store.open(3)
    assert committed.facts == FACTS


def test_only_listed_files_are_committed(store: GenerationStore) -> None:
    with store.draft() as draft:
        (draft.path / "tail.safetensors").write_bytes(b"three")
        (draft.path / "cache.f16").write_bytes(b"scratch")
        (draft.path / "views").mkdir()
        (draft.path / "views" / "0").write_bytes(b"scratch")
        committed = draft.commit(["tail.safetensors"])
    assert names(committed.path) == [MANIFEST, "tail.safetensors"]


def test_everything_in_a_generation_is_on_the_disk_before_it_gets_its_name(
    store: GenerationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, real_fsync = [], os.fsync

    def watched_fsync(descriptor: int) -> None:
        real_fsync(descriptor)
        named = (store.generations_dir / "000003").exists()
        synced.append((os.fstat(descriptor).st_ino, named))

    monkeypatch.setattr(os, "fsync", watched_fsync)
    commit(store, b"three")
    folder = store.open(3).path
    for path in [folder, *folder.iterdir()]:
        assert (path.stat().st_ino, False) in synced, f"{path.name} was not made durable before the rename"
    assert synced[-1] == (store.generations_dir.stat().st_ino, True), "the rename was not made durable"


@pytest.mark.parametrize("interruption", [RuntimeError, KeyboardInterrupt, None])
def test_a_draft_that_is_not_committed_leaves_nothing(
    store: GenerationStore, interruption: type[BaseException] | None
) -> None:
    def abandon() -> None:
        with store.draft() as draft:
            (draft.path / "tail.safetensors").write_bytes(b"three")
            if interruption:
                raise interruption

    if interruption:
        with pytest.raises(interruption):
            abandon()
    else:
        abandon()
    assert names(store.generations_dir) == ["000000", "000001", "000002"]
    assert content(store) == "two"


def test_too_little_free_space_is_told_before_any_work(store: GenerationStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match=r"needs 1000000000000\.0 MB and [\d.]+ MB are free"), store.draft(10**18):
        pytest.fail("the draft was opened")
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(100, 99, 1))
    with pytest.raises(StoreError, match="free some space"), store.draft():  # as large as the largest there is
        pytest.fail("the draft was opened")


# Opening


def test_opening_and_reading_a_store_writes_nothing(store: GenerationStore) -> None:
    for path in [store.root, *store.root.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = snapshot(store.root)
    reader = GenerationStore(store.root)
    reader.newest()
    reader.numbers()
    reader.waiting_missions()
    assert snapshot(store.root) == before
    for path in [store.root, *store.root.rglob("*")]:
        path.chmod(0o755)


def test_no_store_and_no_generation_say_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no store here.*build-map"):
        GenerationStore(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(StoreError, match=r"no generation yet.*train-base"):
        GenerationStore(tmp_path).newest()
    assert GenerationStore(tmp_path).numbers() == GenerationStore(tmp_path).waiting_missions() == []
    assert GenerationStore(tmp_path).finish_disposal() == []
    assert names(tmp_path) == []


def test_another_grid_is_refused_by_name_and_without_falling_back(store: GenerationStore) -> None:
    commit(store, b"three", grid_hash="other")
    with pytest.raises(StoreError, match="grid other, but the map has grid g"):
        store.newest(grid_hash="g")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


DAMAGES = {
    "flipped": flip,
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "emptied": lambda path: path.write_bytes(b""),
    "missing": Path.unlink,
}


@pytest.mark.parametrize("name", ["tail.safetensors", "replay.h5", MANIFEST])
@pytest.mark.parametrize("damage", DAMAGES)
def test_any_damaged_file_is_named_loudly_and_the_previous_generation_counts(
    store: GenerationStore, caplog: pytest.LogCaptureFixture, damage: str, name: str
) -> None:
    DAMAGES[damage](store.open(2).path / name)
    with caplog.at_level(logging.ERROR):
        assert store.newest().number == 1
    assert content(store) == "one"
    assert f"000002/{name}" in caplog.text
    with pytest.raises(StoreError, match=name):
        store.open(2)


def test_when_all_are_damaged_each_is_listed(store: GenerationStore) -> None:
    for number in store.numbers():
        flip(store.generations_dir / f"{number:06d}" / "tail.safetensors")
    with pytest.raises(StoreError) as caught:
        store.newest()
    for number in store.numbers():
        assert f"{number:06d}/tail.safetensors: damaged" in str(caught.value)


def test_a_folder_renamed_by_hand_is_not_another_generation(store: GenerationStore) -> None:
    (store.generations_dir / "000002").rename(store.generations_dir / "000009")
    with pytest.raises(StoreError, match="committed as generation 2"):
        store.open(9)
    assert store.newest().number == 1


def test_an_unknown_generation_lists_those_there_are(store: GenerationStore) -> None:
    with pytest.raises(StoreError, match=r"no such generation; there are \[0, 1, 2\]"):
        store.open(7)


# Going back and tidying up


def test_rollback_withdraws_the_newest_and_never_reuses_its_number(store: GenerationStore) -> None:
    assert store.rollback().number == 1
    assert content(store) == "one"
    assert store.numbers() == [0, 1]
    store.prune()
    assert commit(store, b"three") == 3
    assert content(store) == "three"


def test_rollback_of_the_only_intact_generation_is_refused(store: GenerationStore) -> None:
    store.rollback()
    store.rollback()
    with pytest.raises(StoreError, match="none to roll back to"):
        store.rollback()
    assert content(store) == "zero"


def test_rollback_passes_over_damaged_generations(store: GenerationStore) -> None:
    flip(store.generations_dir / "000002" / "replay.h5")
    assert store.rollback().number == 0
    assert store.numbers() == [0]


@pytest.mark.parametrize(("keep", "left"), [(0, [2, 3]), (2, [2, 3]), (3, [1, 2, 3]), (9, [0, 1, 2, 3])])
def test_prune_keeps_the_newest_and_never_fewer_than_two(store: GenerationStore, keep: int, left: list[int]) -> None:
    commit(store, b"three")
    store.prune(keep)
    assert store.numbers() == left
    assert names(store.generations_dir) == [f"{number:06d}" for number in left]


def test_prune_counts_intact_generations_only(store: GenerationStore) -> None:
    commit(store, b"three")
    flip(store.generations_dir / "000003" / "tail.safetensors")
    store.prune()
    assert store.numbers() == [1, 2, 3]
    assert content(store) == "two"


def test_prune_keeps_as_many_withdrawn_generations_as_others(store: GenerationStore) -> None:
    store.rollback()
    commit(store, b"three")
    store.prune(3)
    assert names(store.generations_dir) == ["000000", "000001", "000002.withdrawn", "000003"]
    for _ in range(5):
        store.rollback()
        commit(store, b"again")
        store.prune(3)
    withdrawn = [name for name in names(store.generations_dir) if name.endswith("withdrawn")]
    assert withdrawn == ["000005.withdrawn", "000006.withdrawn", "000007.withdrawn"]
    assert store.numbers() == [0, 1, 8]


# One learner at a time

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


# Missions


def learn(store: GenerationStore, mission: Path) -> None:
    commit(store, b"learnt", dispose=[store.disposable(mission)])


def test_missions_wait_oldest_first_and_unfinished_ones_do_not(store: GenerationStore) -> None:
    for name in ("2026-11-16", "2026-11-15", ".recording-2026-11-17", ".disposed-2026-11-14"):
        write_bag(store.missions_dir / name)
    (store.missions_dir / "notes").mkdir()
    (store.missions_dir / "metadata.yaml").write_text("")
    assert [path.name for path in store.waiting_missions()] == ["2026-11-15", "2026-11-16"]


@pytest.mark.parametrize("place", ["store/missions/b", "elsewhere/b"])
def test_disposal_deletes_exactly_the_learnt_mission(store: GenerationStore, tmp_path: Path, place: str) -> None:
    mission = write_bag(tmp_path / place)
    others = [write_bag(mission.parent / name) for name in ("a", "c")]
    learn(store, mission)
    assert mission.is_dir()
    store.dispose(mission)
    assert names(mission.parent) == ["a", "c"]
    assert all(names(other) == [f"{other.name}_0.mcap", f"{other.name}_1.mcap", "metadata.yaml"] for other in others)


def test_a_mission_that_no_generation_learnt_is_not_deleted(store: GenerationStore) -> None:
    mission = write_bag(store.missions_dir / "a")
    with pytest.raises(StoreError, match="no generation was committed with it"):
        store.dispose(mission)
    learn(store, mission)
    store.rollback()
    with pytest.raises(StoreError, match="no generation was committed with it"):
        store.dispose(mission)
    assert store.finish_disposal() == []
    assert store.waiting_missions() == [mission]


def test_a_mission_whose_generation_is_damaged_is_not_deleted(store: GenerationStore) -> None:
    mission = write_bag(store.missions_dir / "a")
    learn(store, mission)
    flip(store.generations_dir / "000003" / "tail.safetensors")
    assert store.finish_disposal() == []
    with pytest.raises(StoreError, match="raw frames stay"):
        store.dispose(mission)
    assert store.waiting_missions() == [mission]


def test_frames_that_came_after_the_mission_was_marked_are_not_deleted(store: GenerationStore) -> None:
    mission = write_bag(store.missions_dir / "a")
    learn(store, mission)
    (mission / "a_0.mcap").write_bytes(b"frames and more")
    with pytest.raises(StoreError, match="has changed since it was learnt"):
        store.dispose(mission)
    assert store.finish_disposal() == []
    assert store.waiting_missions() == [mission]


def test_a_new_mission_of_an_old_name_is_not_taken_for_the_learnt_one(store: GenerationStore) -> None:
    mission = write_bag(store.missions_dir / "a")
    learn(store, mission)
    store.dispose(mission)
    write_bag(mission, b"other frames")
    assert store.finish_disposal() == []
    assert store.waiting_missions() == [mission]


@pytest.mark.parametrize("place", ["store/missions/b", "elsewhere/b"])
def test_disposal_is_finished_later_even_after_another_commit(
    store: GenerationStore, tmp_path: Path, place: str
) -> None:
    mission, half_deleted = (write_bag(tmp_path / f"{place}{i}", str(i).encode()) for i in range(2))
    marks = [store.disposable(mission), store.disposable(half_deleted)]
    commit(store, b"learnt", dispose=marks)
    commit(store, b"learnt more")
    half_deleted.rename(half_deleted.with_name(f".disposed-{half_deleted.name}"))
    if "elsewhere" in place:  # a manifest alone is no reason to delete outside the store
        assert store.finish_disposal() == [] and len(names(mission.parent)) == 2
    assert store.finish_disposal([mission, half_deleted]) == ["b0", "b1"]
    assert names(mission.parent) == []
    assert store.finish_disposal() == []


def test_a_half_deleted_mission_of_the_same_name_is_not_in_the_way(store: GenerationStore) -> None:
    write_bag(store.missions_dir / ".disposed-a")
    mission = write_bag(store.missions_dir / "a")
    learn(store, mission)
    store.dispose(mission)
    assert names(store.missions_dir) == []


def test_a_store_that_was_moved_still_knows_its_missions(store: GenerationStore, tmp_path: Path) -> None:
    learn(store, write_bag(store.missions_dir / "a"))
    moved = GenerationStore(store.root.rename(tmp_path / "moved"))
    assert moved.finish_disposal() == ["a"]
    assert moved.waiting_missions() == []


def test_links_in_a_mission_are_removed_but_never_followed(store: GenerationStore, tmp_path: Path) -> None:
    precious = write_bag(tmp_path / "precious")
    mission = write_bag(store.missions_dir / "a")
    (mission / "link").symlink_to(precious)
    (mission / "more").mkdir()
    (mission / "more" / "link").symlink_to(precious)
    learn(store, mission)
    store.dispose(mission)
    assert names(store.missions_dir) == []
    assert len(names(precious)) == 3


def test_what_is_no_mission_is_never_marked_for_deletion(
    store: GenerationStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = write_bag(tmp_path / "home")
    monkeypatch.setenv("HOME", str(home))
    (tmp_path / "metadata.yaml").write_text("")
    link = store.missions_dir / "link"
    link.symlink_to(write_bag(tmp_path / "target"))
    with_folder, with_notes = write_bag(tmp_path / "with_folder"), write_bag(tmp_path / "with_notes")
    (with_folder / "photographs").mkdir()
    (with_notes / "notes.txt").write_text("precious")
    (store.map_dir / "metadata.yaml").write_text("")
    (store.missions_dir / "metadata.yaml").write_text("")
    refused = [
        (Path("/"), "not a bag"),
        (tmp_path / "nowhere", "not a bag"),
        (tmp_path / "metadata.yaml", "not a bag"),
        (store.generations_dir, "not a bag"),
        (tmp_path, "no mission of its own"),
        (store.map_dir, "no mission of its own"),
        (store.missions_dir, "no mission of its own"),
        (store.missions_dir / "..", "not a bag"),
        (home, "no mission of its own"),
        (link, "is a link"),
        (with_folder, "holds photographs"),
        (with_notes, r"holds notes\.txt"),
    ]
    for path, reason in refused:
        with pytest.raises(StoreError, match=reason):
            store.disposable(path)


def test_a_learnt_mission_that_is_restored_from_a_backup_stays(store: GenerationStore, tmp_path: Path) -> None:
    mission = write_bag(store.missions_dir / "a")
    shutil.copytree(mission, tmp_path / "backup")
    learn(store, mission)
    store.dispose(mission)
    shutil.copytree(tmp_path / "backup", mission)
    assert store.finish_disposal([mission]) == []
    with pytest.raises(StoreError, match="has changed since it was learnt"):
        store.dispose(mission)
    assert store.waiting_missions() == [mission] and len(names(mission)) == 3


def test_a_store_from_elsewhere_cannot_have_anything_outside_deleted(store: GenerationStore, tmp_path: Path) -> None:
    precious = write_bag(tmp_path / "precious")
    write_bag(tmp_path / ".disposed-precious")
    write_bag(store.root / ".disposed-missions")
    fingerprint = store.disposable(precious).fingerprint
    foreign = ["../precious", str(precious), "missions/../../precious", "missions/..", ".", "", 3, None]
    for place in foreign:
        with store.draft() as draft:
            (draft.path / "tail.safetensors").write_bytes(b"")
            facts = [{"mission": place, "fingerprint": fingerprint}, "precious"]
            write_manifest(draft.path, ["tail.safetensors"], generation=draft.number, dispose=facts)
            draft.path.rename(store.generations_dir / f"{draft.number:06d}")
    before = snapshot(tmp_path)
    assert store.finish_disposal() == []
    assert snapshot(tmp_path).keys() == before.keys()


@pytest.mark.parametrize("name", ["map", "generations"])
def test_a_learner_does_not_follow_a_folder_that_is_a_link(store: GenerationStore, tmp_path: Path, name: str) -> None:
    foreign = (store.root / name).rename(tmp_path / "foreign")
    (foreign / ".tmp-precious").mkdir()
    (store.root / name).symlink_to(foreign)
    with pytest.raises(StoreError, match=f"{name}: is a link"), store.learner_lock():
        pass
    assert (foreign / ".tmp-precious").is_dir()


def test_a_generation_that_is_a_link_is_removed_and_never_followed(store: GenerationStore, tmp_path: Path) -> None:
    precious = write_bag(tmp_path / "precious")
    shutil.rmtree(store.generations_dir / "000000")
    (store.generations_dir / "000000").symlink_to(precious)
    store.prune(2)
    assert names(store.generations_dir) == ["000001", "000002"] and len(names(precious)) == 3


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


FULL_DISK = """
    import resource, sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[2])
    from crash_support import commit
    from aerial_vpr_cl.errors import StoreError
    from aerial_vpr_cl.knowledge.generations import GenerationStore
    store = GenerationStore(Path(sys.argv[1]))
    mission = store.waiting_missions()[0]
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
    try:
        commit(store, bytes(int(sys.argv[4])), dispose=[store.disposable(mission)])
    except StoreError as error:
        print(error)
"""


@pytest.mark.parametrize(("size", "what"), [(1000, "replay"), (10, MANIFEST)])
def test_a_full_disk_leaves_the_old_generation_and_the_mission(store: GenerationStore, size: int, what: str) -> None:
    write_bag(store.missions_dir / "a")
    text = run([*python(FULL_DISK), str(store.root), str(Path(__file__).parent), "100", str(size)])
    assert "disk is full" in text and (what == MANIFEST) == (MANIFEST in text)
    assert names(store.generations_dir) == ["000000", "000001", "000002"]
    assert content(store) == "two"
    assert store.finish_disposal() == []
    assert len(store.waiting_missions()) == 1
