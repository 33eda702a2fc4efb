"""Dependencies point downward (design): a module never imports what stands above it."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "aerial_vpr_cl"

LAYERS = {
    "geo": set(),
    "satellite": {"geo"},
    "mission": {"geo"},
    "autopilot": {"geo"},
    "model": {"geo"},
    "memory": {"geo"},
    "knowledge": {"geo", "satellite", "model", "memory"},
    "simulation": {"geo", "satellite", "mission"},
    "localization": {"geo", "satellite", "mission", "model", "knowledge"},
    "learning": {"geo", "satellite", "mission", "model", "memory", "knowledge", "localization"},
    "evaluation": {"geo", "satellite", "mission", "model", "memory", "knowledge", "localization", "learning"},
    "page": {"geo", "satellite", "mission", "model", "memory", "knowledge", "localization", "evaluation"},
    "benchmark": {
        *("geo", "satellite", "mission", "model", "memory", "knowledge", "localization", "learning", "evaluation"),
        "simulation",
    },
}
"""Folder → folders it may import from, besides itself. Nodes, commands and cli know all and are known by nobody."""

GROUND = {"errors", "settings", "progress", "files", "image_headers", "images", "terminal", "unseen", "__init__"}


def imported_parts(path: Path) -> set[str]:
    parts = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        parts |= {name.split(".")[1] for name in names if name.startswith("aerial_vpr_cl.") and name.count(".") > 0}
    return parts


@pytest.mark.parametrize("folder", LAYERS)
def test_a_folder_imports_only_what_stands_below_it(folder):
    for path in (PACKAGE / folder).rglob("*.py"):
        extra = imported_parts(path) - GROUND - LAYERS[folder] - {folder}
        assert not extra, f"{path.relative_to(PACKAGE)} imports {sorted(extra)}"


def test_the_library_never_imports_ros():
    for folder in LAYERS:
        for path in (PACKAGE / folder).rglob("*.py"):
            assert "rclpy" not in path.read_text(), path


def test_nothing_on_disk_is_ever_pickled():
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        assert "import pickle" not in text
        assert "torch.load(" not in text.replace("weights_only=True", "") or "weights_only=True" in text, path
