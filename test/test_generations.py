"""The store makes the next generation or nothing, and finds damage."""

import logging
import os
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
from crash_support import commit, names, python, run, write_bag
from generation_support import content, flip, snapshot, three_generations

from aerial_vpr_cl.errors import StoreError
from aerial_vpr_cl.files import MANIFEST
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
    return three_generations(tmp_path / "store")


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
