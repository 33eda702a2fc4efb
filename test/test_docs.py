"""What the documents promise is what the code has."""

import importlib.util
import re
from pathlib import Path

from aerial_vpr_cl.cli import VERBS

ROOT = Path(__file__).parent.parent


def test_the_parameter_tables_are_those_of_the_code():
    spec = importlib.util.spec_from_file_location("write_parameters", ROOT / "docs" / "write_parameters.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    text = writer.PAGE.read_text()
    assert writer.page(text) == text, "run python docs/write_parameters.py"
    assert "`min_confidence` *" in text and "`cycles` *" in text and "`rate`" in text


def test_every_topic_and_service_of_the_nodes_is_documented():
    page = (ROOT / "docs" / "nodes.md").read_text()
    sources = [file.read_text() for file in (ROOT / "aerial_vpr_cl" / "nodes").rglob("*.py")]
    names = set(re.findall(r'"(~/[\w/]+|/diagnostics)"', "".join(sources)))
    assert len(names) > 8 and all(f"`{name}`" in page for name in names), names


def test_the_readme_lists_every_verb():
    readme = (ROOT / "README.md").read_text()
    assert all(f"| `{verb}" in readme for verb in VERBS)


def test_links_between_documents_lead_somewhere():
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_every_file_that_the_architecture_names_is_there():
    text = (ROOT / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`([\w/]+\.(?:py|md)|[\w/]+/)`", text))
    assert len(named) > 40
    for name in named:
        assert (ROOT / "aerial_vpr_cl" / name).exists() or (ROOT / name).exists(), name


def test_launch_arguments_in_the_documents_exist():
    declared = re.findall(r'DeclareLaunchArgument\(\s*"(\w+)"', (ROOT / "launch" / "flight.launch.py").read_text())
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        text = document.read_text()
        for command in re.findall(r"ros2 launch aerial_vpr_cl flight.launch.py[^\n]*", text):
            assert set(re.findall(r"(\w+):=", command)) <= set(declared), command
        assert "raw_image_profile" in declared
