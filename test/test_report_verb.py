"""aerial-vpr report: a recorded flight as a page, with what the tracker answered and what its pictures show."""

import json
import re
from dataclasses import replace

import pytest
from world_support import FLIGHT, small_world, world_store

from aerial_vpr_cl.cli import main
from aerial_vpr_cl.simulation.sorties import simulate_mission


@pytest.fixture(scope="module")
def flown(tmp_path_factory):
    """A store and a flight over it."""
    root, world = tmp_path_factory.mktemp("report"), small_world()
    store = world_store(world, root)
    simulate_mission(world, replace(FLIGHT, frames=12), root / "flight")
    return store, root / "flight"


def part(text, name):
    return json.loads(re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', text, re.S)[1])


def test_a_flight_becomes_a_page(flown, tmp_path, capsys):
    store, bag = flown
    assert main(["report", str(store), str(bag), "--out", str(tmp_path / "new" / "report.html")]) == 0
    text = (tmp_path / "new" / "report.html").read_text()
    (run,), (pictures,) = part(text, "data")["runs"], part(text, "images")
    frames = run["frames"]
    assert run["name"] == "flight" and len(frames["t"]) == 12
    answered = [k for k in range(12) if frames["x"][k] is not None]
    assert len(answered) >= 6
    assert all(frames["error_m"][k] < 100.0 and frames["state"][k] == "tracking" for k in answered)
    assert all(bool(frames["reason"][k]) == (k not in answered) for k in range(12))
    assert [picture["frame"] for picture in pictures] == list(range(12))
    assert all(picture["frame_jpeg"] and picture["view_jpeg"] for picture in pictures)
    assert all(bool(picture["map_jpeg"]) == (k in answered) for k, picture in enumerate(pictures))
    assert "open it in a browser" in capsys.readouterr().out


def test_a_page_that_cannot_be_written_is_said_before_the_flight_is_flown(flown, tmp_path, capsys):
    store, bag = flown
    (tmp_path / "report.html").mkdir()
    assert main(["report", str(store), str(bag), "--out", str(tmp_path / "report.html")]) == 1
    assert "report.html" in capsys.readouterr().err
