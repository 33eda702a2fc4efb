"""--json: the same option at every verb, to a file or to standard output, with nothing but JSON in it."""

import io
import json
import os
import pty
import subprocess
import sys

import pytest
from crash_support import environment
from store_support import commit_generation, jpeg, make_store, track, view, write_flight
from synthetic_rasters import noise_image, write_raster

from aerial_vpr_cl.cli import VERBS, main
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.knowledge import network_of
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.terminal import styled, table

SCENARIO = """
world: {seed: 5, width_m: 1800, height_m: 1800, resolution_m: 6}
missions:
  - {name: short, frames: 4, track: {kind: random, altitude_m: 300, spacing_m: 30}}
"""


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """A folder with all that the verbs need."""
    root = tmp_path_factory.mktemp("ground")
    store = make_store(root)
    commit_generation(store, network_of(open_map(store), GenerationStore(store).newest()))
    write_flight(store, root / "flight", 8)
    (root / "photo.jpg").write_bytes(jpeg(view(store, track(1)[1])[0]))
    write_raster(root / "ground.tif", noise_image(400, 400))
    (root / "scenario.yaml").write_text(SCENARIO)
    return root, store


COMMANDS = {
    "build-map": (["{root}/ground.tif", "--out", "{out}/store"], {"cells", "epsg", "stored_bytes"}),
    "simulate": (["{root}/scenario.yaml", "--out", "{out}/bags"], {"missions"}),
    "localize": (["{store}", "{root}/photo.jpg"], {"images"}),
    "evaluate": (["{store}", "{root}/flight", "--alone"], {"generation", "summaries", "missions"}),
    "report": (["{store}", "{root}/flight", "--out", "{out}/page.html"], {"page", "bytes", "flights"}),
    "inspect": (["{store}"], {"buffer", "frames", "groups", "missions"}),
    "adapt": (["{store}"], {"missions"}),
    "rollback": (["{store}"], {"generation"}),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_the_option(verb, capsys):
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    assert "--json FILE" in capsys.readouterr().out


@pytest.mark.parametrize("verb", COMMANDS)
def test_standard_output_holds_the_figures_and_standard_error_the_words(verb, ground, tmp_path, capsys):
    root, store = ground
    words, keys = COMMANDS[verb]
    arguments = [word.format(root=root, store=store, out=tmp_path) for word in words]
    assert main([verb, *arguments, "--json", "-"]) == 0
    printed = capsys.readouterr()
    assert keys <= set(json.loads(printed.out))
    assert printed.err.strip(), "the words are still there"


def test_a_file_holds_the_same_and_the_words_stay_where_they_were(ground, tmp_path, capsys):
    root, store = ground
    assert main(["localize", str(store), str(root / "photo.jpg"), "--json", str(tmp_path / "new" / "a.json")]) == 0
    assert "latitude" in capsys.readouterr().out
    (found,) = json.loads((tmp_path / "new" / "a.json").read_text())["images"]
    assert found["image"] == str(root / "photo.jpg") and {"reason", "latitude"} & set(found)


def test_a_file_that_cannot_be_written_is_refused_before_the_work(ground, tmp_path, capsys):
    root, _ = ground
    assert main(["build-map", f"{root}/ground.tif", "--out", str(tmp_path / "s"), "--json", str(tmp_path)]) == 1
    assert "is a directory" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


def test_figures_that_could_not_be_measured_are_null(ground, tmp_path):
    root, store = ground
    assert main(["evaluate", str(store), str(root / "flight"), "--json", str(tmp_path / "a.json")]) == 0
    assert "NaN" not in (tmp_path / "a.json").read_text()


# One look


def on_a_terminal(**variables):
    """What a refused command prints to a real terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "aerial_vpr_cl", "rollback", "nowhere"]
    variables = {"TERM": "xterm", "NO_COLOR": "", **variables}
    subprocess.run(command, stdout=theirs, stderr=theirs, env=environment(**variables), timeout=120, check=False)
    os.close(theirs)
    try:
        return os.read(ours, 65536).decode()
    finally:
        os.close(ours)


def test_errors_are_red_on_a_terminal_unless_nobody_wants_colours():
    assert "\x1b[31maerial-vpr rollback\x1b[0m: " in on_a_terminal()
    assert "\x1b" not in on_a_terminal(NO_COLOR="1")
    assert "\x1b" not in on_a_terminal(TERM="dumb")


def test_a_log_gets_plain_words():
    assert styled("words", "bold", io.StringIO()) == "words"


def test_columns_are_as_wide_as_they_need_to_be():
    lines = table(["flight", "frames", "median"], [["a", "8", "12 m"], ["longer name", "1200", "–"]]).splitlines()
    assert lines == ["flight       frames  median", "a                 8    12 m", "longer name    1200       –"]
