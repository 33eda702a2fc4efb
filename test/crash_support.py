"""Run real processes and kill them at named steps, and look at what they leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from aerial_vpr_cl.knowledge.disposal import DisposableMission
from aerial_vpr_cl.knowledge.facts import GenerationFacts
from aerial_vpr_cl.knowledge.failpoints import KILL_AT
from aerial_vpr_cl.knowledge.generations import GenerationStore

REPOSITORY = Path(__file__).resolve().parents[1]
COMMIT_STEPS = ("commit.files_written", "commit.manifest_written", "commit.renamed", "commit.durable")
DISPOSE_STEPS = ("dispose.renamed", "dispose.deleting", "dispose.done")
STEPS = (*COMMIT_STEPS, *DISPOSE_STEPS)


def python(script: str) -> list[str]:
    """The command line of a script given as text; arguments are appended by the caller."""
    return [sys.executable, "-c", textwrap.dedent(script)]


def environment(**variables: str) -> dict[str, str]:
    """This process's environment with the package importable, and more variables."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *sys.path]), **variables}


def run_and_kill(command: Sequence[str], step: str) -> None:
    """Run a command that must reach the named step, and is killed there by SIGKILL."""
    run = subprocess.run(command, env=environment(**{KILL_AT: step}), capture_output=True, text=True, timeout=300)
    assert run.returncode == -signal.SIGKILL, f"not killed at {step}: {run.returncode}\n{run.stdout}\n{run.stderr}"


def run(command: Sequence[str]) -> str:
    """Run a command to its end, which must be a good one; returns what it printed."""
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def start(command: Sequence[str]) -> subprocess.Popen[str]:
    """Start a command whose output can be read line by line; to be ended by the caller."""
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)


def write_bag(path: Path, content: bytes = b"frames") -> Path:
    """A directory that looks like a rosbag2 mission."""
    path.mkdir(parents=True)
    (path / "metadata.yaml").write_text("rosbag2_bagfile_information: {}\n")
    (path / f"{path.name}_0.mcap").write_bytes(content)
    (path / f"{path.name}_1.mcap").write_bytes(content[::-1])
    return path


def commit(
    store: GenerationStore, content: bytes, *, grid_hash: str = "g", dispose: Iterable[DisposableMission] = ()
) -> int:
    """Commit a small generation whose two files hold the same content; returns its number."""
    parent = store.newest().number if store.numbers() else None
    with store.draft() as draft:
        for name in ("tail.safetensors", "replay.h5"):
            (draft.path / name).write_bytes(content)
        return draft.commit(facts=GenerationFacts(grid_hash, parent), dispose=dispose).number


def names(folder: Path) -> list[str]:
    """Names in a folder, hidden ones too."""
    return sorted(path.name for path in folder.iterdir())
