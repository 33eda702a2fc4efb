"""The package as ROS and pip see it: valid, complete, installable."""

import ast
import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from catkin_pkg.package import parse_package

import aerial_vpr_cl
from aerial_vpr_cl.cli import VERBS, command_of, main

ROOT = Path(__file__).parent.parent


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_package_xml_is_valid_and_says_what_it_is():
    package = parse_package(ROOT / "package.xml", warnings=(warnings := []))
    assert not warnings
    assert package.get_build_type() == "ament_python"
    assert package.licenses == ["Apache-2.0"]
    assert (ROOT / package.licenses[0].file).read_text().lstrip().startswith("Apache License")


def test_versions_agree():
    assert parse_package(ROOT / "package.xml").version == aerial_vpr_cl.__version__
    assert f'version="{aerial_vpr_cl.__version__}"' in (ROOT / "setup.py").read_text()


BROUGHT_ALONG = {"torch": "timm", "safetensors": "timm", "lz4": "mcap", "zstandard": "mcap", "cv2": "opencv"}
"""Import → what brings it, or how it is called there."""
OPTIONAL = {"onnx", "onnxruntime"}


def imported() -> set[str]:
    """Every package that ours imports and Python does not bring."""
    found: set[str] = set()
    for path in (ROOT / "aerial_vpr_cl").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.split(".")[0])
    return found - {*sys.stdlib_module_names, "aerial_vpr_cl"}


def test_all_that_is_imported_comes_by_rosdep_or_by_the_pip_line_of_the_guide():
    by_rosdep = {depend.name for depend in parse_package(ROOT / "package.xml").exec_depends}
    line = re.search(
        r"^ +pip install (.+?) +# .* no rosdep key$", (ROOT / "docs" / "guide.md").read_text(), re.MULTILINE
    )
    by_pip = set(shlex.split(line[1]))
    assert by_pip <= set((ROOT / "requirements" / "runtime.txt").read_text().splitlines())
    there = by_rosdep | {re.split("[<>=]", wanted)[0] for wanted in by_pip}
    names = {BROUGHT_ALONG.get(name, name) for name in imported() - OPTIONAL}
    assert {name for name in names if not there & {name, f"python3-{name}", f"python3-{name}-pip"}} == set()


@pytest.fixture(scope="module")
def clean_source(tmp_path_factory) -> Path:
    """The tracked and new files of this tree in a place of their own, as a fresh clone would have them."""
    source = tmp_path_factory.mktemp("workspace") / "aerial_vpr_cl"
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines()
    for name in listed:
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    return source


def test_colcon_builds_and_installs_what_ros_looks_for(clean_source):
    colcon = Path(sys.executable).parent / "colcon"
    assert "(ros.ament_python)" in run(colcon, "list", cwd=clean_source)
    run(colcon, "build", cwd=clean_source)
    prefix = clean_source / "install" / "aerial_vpr_cl"
    assert (prefix / "share/ament_index/resource_index/packages/aerial_vpr_cl").is_file()
    share = prefix / "share/aerial_vpr_cl"
    for folder in ["launch", "config", "maps"]:
        installed = {path.relative_to(share) for path in (share / folder).rglob("*") if path.is_file()}
        tracked = {path.relative_to(clean_source) for path in (clean_source / folder).rglob("*") if path.is_file()}
        assert installed == tracked
    programs = {path.name for path in (prefix / "lib/aerial_vpr_cl").iterdir()}
    assert programs >= {"aerial-vpr", "localization_node", "learner_node", "replay_node"}


def test_pip_builds_a_wheel_with_every_module(clean_source, tmp_path):
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"]
    run(*pip, "--wheel-dir", tmp_path, ".", cwd=clean_source)
    (wheel,) = tmp_path.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(path.relative_to(clean_source)) for path in (clean_source / "aerial_vpr_cl").rglob("*.py")}
    assert modules <= packed


def test_the_program_of_a_clone_runs_from_anywhere_also_through_a_link(tmp_path):
    (tmp_path / "aerial-vpr").symlink_to(ROOT / "bin" / "aerial-vpr")
    done = subprocess.run(
        [tmp_path / "aerial-vpr", "--version"],
        env={**os.environ, "AERIAL_VPR_ENV": sys.prefix},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.stdout.strip(), done.stderr) == (aerial_vpr_cl.__version__, "")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb, capsys):
    command = command_of(verb)
    assert len(command.HELP) > 20
    with pytest.raises(SystemExit) as ended:
        main([verb, "--help"])
    assert ended.value.code == 0
    assert "usage: aerial-vpr" in capsys.readouterr().out
