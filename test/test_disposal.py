"""Of missions only what is learnt is deleted, and nothing else, whatever a store says."""

import shutil
from pathlib import Path

import pytest
from crash_support import commit, names, write_bag
from generation_support import flip, snapshot, three_generations

from aerial_vpr_cl.errors import StoreError
from aerial_vpr_cl.files import write_manifest
from aerial_vpr_cl.knowledge.generations import GenerationStore


@pytest.fixture
def store(tmp_path: Path) -> GenerationStore:
    return three_generations(tmp_path / "store")


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


def test_what_a_damaged_generation_learnt_is_not_deleted_when_another_has_learnt_something_else(
    store: GenerationStore,
) -> None:
    mission, other = (write_bag(store.missions_dir / name) for name in "ab")
    learn(store, mission)
    flip(store.generations_dir / "000003" / "tail.safetensors")
    learn(store, other)
    assert store.newest().facts.parent == 2
    assert store.finish_disposal() == ["b"]
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
