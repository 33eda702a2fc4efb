"""Whether a directory is a store that can fly or learn, and if not, the commands that make it one."""

from __future__ import annotations

import shutil
from pathlib import Path

from aerial_vpr_cl.knowledge.generations import GenerationStore

_BUILD = "{program} build-map MAP.tif --out {store}    # lay the grid over a satellite image of the ground (GeoTIFF)"
_TRAIN = "{program} train-base {store}                 # learn to recognise it: generation 0"


def what_is_missing(store: str) -> str:
    """Empty if the store has a map and a generation; else what is missing and the commands that make it."""
    if not store:
        return _text("no store is given", "STORE", _BUILD, _TRAIN) + "\nThen start again with store:=STORE."
    root = Path(store).expanduser()
    if not (root / "map" / "manifest.json").is_file():
        what = "there is no map in it" if root.is_dir() else "there is no such directory"
        return _text(f"{store} is not a store: {what}", store, _BUILD, _TRAIN)
    if not GenerationStore(root).numbers():
        return _text(f"{store} has a map but nothing was learnt on it yet", store, _TRAIN)
    return ""


def _text(problem: str, store: str, *commands: str) -> str:
    # In a colcon workspace only `ros2 run` finds the program.
    program = "aerial-vpr" if shutil.which("aerial-vpr") else "ros2 run aerial_vpr_cl aerial-vpr"
    steps = "\n".join(f"  {command.format(program=program, store=store)}" for command in commands)
    return f"{problem}. A store is made once, before the first flight:\n{steps}"
