"""Files are there whole or not at all; a manifest notices every damage."""

import errno
import json
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aerial_vpr_cl.errors import StoreError
from aerial_vpr_cl.files import (
    MANIFEST,
    TEMPORARY_PREFIX,
    full_disk_explained,
    new_file,
    read_manifest,
    replace_file,
    sha256_of,
    verify_manifest,
    write_manifest,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tail.safetensors").write_bytes(bytes(range(256)) * 10)
    (tmp_path / "replay.h5").write_bytes(b"frames")
    (tmp_path / "empty").write_bytes(b"")
    write_manifest(tmp_path, ["tail.safetensors", "replay.h5", "empty"], grid_hash="abc", learnt_missions=["a", "b"])
    return tmp_path


def test_a_new_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "map.tif"
    with new_file(path) as temporary:
        assert temporary.parent == tmp_path and temporary.suffix == ".tif"
        assert temporary.name.startswith(TEMPORARY_PREFIX)
        temporary.write_bytes(b"whole")
        assert not path.exists()
    assert path.read_bytes() == b"whole"
    assert names(tmp_path) == ["map.tif"]


@pytest.mark.parametrize("interruption", [RuntimeError, KeyboardInterrupt])
def test_an_interrupted_write_leaves_the_old_file_and_no_temporary(
    tmp_path: Path, interruption: type[BaseException]
) -> None:
    path = tmp_path / "grid.json"
    replace_file(path, b"old")
    with pytest.raises(interruption), new_file(path) as temporary:
        temporary.write_bytes(b"ne")
        raise interruption
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["grid.json"]


def test_a_writer_that_wrote_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), new_file(tmp_path / "grid.json"):
        pass


def test_new_files_are_as_readable_as_the_umask_allows(tmp_path: Path) -> None:
    replace_file(tmp_path / "grid.json", b"{}")
    (tmp_path / "plain").write_bytes(b"{}")
    assert stat.S_IMODE((tmp_path / "grid.json").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_an_open_reader_keeps_the_old_content_when_the_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "tail.safetensors"
    replace_file(path, b"old")
    with path.open("rb") as reader:
        replace_file(path, b"new")
        assert reader.read() == b"old"
    assert path.read_bytes() == b"new"


FULL_DISK = """
    import resource, sys
    from pathlib import Path
    from aerial_vpr_cl.errors import StoreError
    from aerial_vpr_cl.files import replace_file
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    try:
        replace_file(Path(sys.argv[1]), bytes(5000))
    except StoreError as error:
        print(error)
"""


def test_a_full_disk_leaves_the_old_file_and_names_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "replay.h5"
    replace_file(path, b"old")
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FULL_DISK), str(path)], capture_output=True, text=True, check=True
    )
    assert str(path) in run.stdout and "disk is full" in run.stdout
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["replay.h5"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError("Can't write data (file write failed: errno = 28, error message = 'No space left on device')"),
        RuntimeError("Error while serializing: I/O error: File too large (os error 27)"),
    ],
)
def test_every_librarys_word_for_a_full_disk_is_understood(error: Exception) -> None:
    with pytest.raises(StoreError, match=r"replay\.h5: .*disk is full"), full_disk_explained(Path("replay.h5")):
        raise error


def test_other_errors_pass_unchanged() -> None:
    with pytest.raises(PermissionError), full_disk_explained(Path("replay.h5")):
        raise PermissionError(errno.EACCES, "Permission denied")


def test_a_manifest_says_sizes_hashes_and_facts(folder: Path) -> None:
    manifest = verify_manifest(folder)
    assert manifest == read_manifest(folder)
    assert manifest["format"] == 1
    assert manifest["grid_hash"] == "abc" and manifest["learnt_missions"] == ["a", "b"]
    assert manifest["files"]["replay.h5"] == {"bytes": 6, "sha256": sha256_of(folder / "replay.h5")}


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    facts = {"name": "Grand Forks – été", "missions": ("a",), "loss": 0.1, "none": None, "by_group": {0: 3}}
    assert write_manifest(tmp_path, [], **facts) == read_manifest(tmp_path)


@pytest.mark.parametrize("facts", [{"format": 1}, {"sha256": ""}, {"loss": float("nan")}])
def test_facts_that_cannot_be_told_are_refused(tmp_path: Path, facts: dict) -> None:
    with pytest.raises(ValueError):
        write_manifest(tmp_path, [], **facts)
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../b", MANIFEST, ""])
def test_a_manifest_lists_only_files_of_its_folder(folder: Path, name: str) -> None:
    with pytest.raises(StoreError, match="inside the folder"):
        write_manifest(folder, [name])


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_flipped_bit_is_noticed_and_the_file_named(folder: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["tail.safetensors", "replay.h5", MANIFEST]))
    good = (folder / name).read_bytes()
    at = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[at] ^= 1 << data.draw(st.integers(0, 7))
    (folder / name).write_bytes(bad)
    try:
        with pytest.raises(StoreError, match=name):
            verify_manifest(folder)
    finally:
        (folder / name).write_bytes(good)
    verify_manifest(folder)


@pytest.mark.parametrize("name", ["tail.safetensors", "replay.h5", "empty", MANIFEST])
def test_a_truncated_longer_or_missing_file_is_named(folder: Path, name: str) -> None:
    good = (folder / name).read_bytes()
    for bad in {good[: len(good) // 2], b"", good + b"!"} - {good}:
        (folder / name).write_bytes(bad)
        with pytest.raises(StoreError, match=name):
            verify_manifest(folder)
    (folder / name).unlink()
    with pytest.raises(StoreError, match=f"{name}: missing"):
        verify_manifest(folder)


def test_a_file_may_be_compared_by_size_alone(folder: Path) -> None:
    (folder / "replay.h5").write_bytes(b"FRAMES")
    verify_manifest(folder, size_only=["replay.h5"])
    (folder / "replay.h5").write_bytes(b"FRAME")
    with pytest.raises(StoreError, match=r"replay\.h5"):
        verify_manifest(folder, size_only=["replay.h5"])


def test_a_manifest_of_a_later_format_asks_for_new_software(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aerial_vpr_cl.files.FORMAT", 2)
    write_manifest(tmp_path, [])
    monkeypatch.undo()
    with pytest.raises(StoreError, match=r"format 2.*update"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("text", ["[]", "null", '"a"', json.dumps({"format": 1, "files": {}})])
def test_json_that_is_no_manifest_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(StoreError, match="damaged"):
        read_manifest(tmp_path)
