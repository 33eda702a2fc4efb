"""Going back to an earlier generation, and how many of them are kept."""

import shutil
from pathlib import Path

import pytest
from crash_support import commit, names, write_bag
from generation_support import content, flip, three_generations

from aerial_vpr_cl.errors import StoreError
from aerial_vpr_cl.knowledge.generations import GenerationStore


@pytest.fixture
def store(tmp_path: Path) -> GenerationStore:
    return three_generations(tmp_path / "store")


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


def test_a_generation_that_is_a_link_is_removed_and_never_followed(store: GenerationStore, tmp_path: Path) -> None:
    precious = write_bag(tmp_path / "precious")
    shutil.rmtree(store.generations_dir / "000000")
    (store.generations_dir / "000000").symlink_to(precious)
    store.prune(2)
    assert names(store.generations_dir) == ["000001", "000002"] and len(names(precious)) == 3
