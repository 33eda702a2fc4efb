"""Generations whose files say their number, and ways to look at and damage them."""

from pathlib import Path

from crash_support import commit

from aerial_vpr_cl.knowledge.generations import GenerationStore


def three_generations(root: Path) -> GenerationStore:
    """A store with generations 0, 1 and 2, whose files say their number."""
    store = GenerationStore.create(root)
    for number in (b"zero", b"one", b"two"):
        commit(store, number)
    return store


def content(store: GenerationStore) -> str:
    """What both files of the newest generation hold."""
    newest = store.newest()
    tail, replay = ((newest.path / name).read_bytes() for name in ("tail.safetensors", "replay.h5"))
    assert tail == replay
    return tail.decode()


def snapshot(folder: Path) -> dict[str, int]:
    """Everything in a folder, with its time."""
    return {str(path): path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]}


def flip(path: Path) -> None:
    """One bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)
