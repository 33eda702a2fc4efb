"""aerial-vpr report: a recorded flight as a page, with what the tracker answered and what its pictures show."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from world_support import FLIGHT, small_world, world_store

from aerial_vpr_cl.cli import main
from aerial_vpr_cl.evaluation.score_tables import answers_of_values
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.memory.buffer import Observation
from aerial_vpr_cl.mission.bag_writer import MissionWriter
from aerial_vpr_cl.mission.gnss import OWN_HEIGHT_VARIANCE_M2
from aerial_vpr_cl.mission.messages import NAV_SAT_FIX, nav_sat_fix
from aerial_vpr_cl.page.learnt import marked
from aerial_vpr_cl.page.runs import FlightRun, Moment
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
    (run,), pictures = part(text, "data")["runs"], part(text, "images-0")
    frames = run["frames"]
    assert run["name"] == "flight" and len(frames["t"]) == 12
    answered = [k for k in range(12) if frames["x"][k] is not None]
    assert len(answered) >= 6
    assert all(frames["error_m"][k] < 100.0 and frames["state"][k] == "tracking" for k in answered)
    assert all(bool(frames["reason"][k]) == (k not in answered) for k in range(12))
    assert [picture["frame"] for picture in pictures] == list(range(12))
    assert all(picture["frame_jpeg"] and picture["view_jpeg"] for picture in pictures)
    assert all(bool(picture["map_jpeg"]) == (k in answered) for k, picture in enumerate(pictures))
    laid = [k for k, picture in enumerate(pictures) if picture["peak_jpeg"]]
    assert len(laid) >= 6 and all(pictures[k]["searched_m"] > 50 and frames["z"][k] is not None for k in laid)
    assert "MB; open it in a browser" in capsys.readouterr().out


def test_results_of_evaluate_stand_beside_the_flight_that_is_flown_again(flown, tmp_path):
    store, bag = flown
    assert main(["evaluate", str(store), str(bag), "--json", str(tmp_path / "before.json")]) == 0
    record = {
        "run": {"method": "ft", "order": "forward", "seed": 0, "budget": 0},
        "summary": {"c1": 0.5, "faa": 0.4, "bwt": None, "fwt": 0.0},
        "final": {"a": {"errors_m": [10.0, None]}},
        "missions": ["a"],
        "matrix": {"300": [[0.1], [0.5]]},
        "threshold_m": 300.0,
    }
    (tmp_path / "record.json").write_text(json.dumps(record))
    sources = [str(bag), str(tmp_path / "before.json"), str(tmp_path / "record.json")]
    assert main(["report", str(store), *sources, "--out", str(tmp_path / "page.html")]) == 0
    data = part((tmp_path / "page.html").read_text(), "data")
    again, before = data["runs"]
    assert before["figures"] == again["figures"]
    # A file holds centimetres: one of ten positions may lie on the edge of a region, and fall on either side.
    assert before["coverage"] == pytest.approx(again["coverage"], abs=0.11)
    assert before["frames"]["reason"] == again["frames"]["reason"]
    assert before["frames"]["error_m"] == pytest.approx(again["frames"]["error_m"], abs=0.02, nan_ok=True)
    (benchmark,) = data["results"]
    assert benchmark["name"] == "ft, forward, seed 0" and benchmark["within_m"] == [10.0] * 25 + [None] * 25


def test_answers_of_a_node_are_shown_as_they_were_given(flown, tmp_path):
    store, bag = flown
    projection = open_map(store).grid.projection
    evaluated = tmp_path / "evaluated.json"
    assert main(["evaluate", str(store), str(bag), "--json", str(evaluated)]) == 0
    answers = answers_of_values(json.loads(evaluated.read_text())["missions"][0])
    with MissionWriter(tmp_path / "answers", name="answered", modality="VIS") as writer:
        for row, stamp_ns in enumerate(answers.stamps_ns.tolist()):
            latitude, longitude = projection.to_wgs84(answers.truth[row])
            writer.write_truth(stamp_ns, float(latitude), float(longitude))
            status = 0 if answers.published[row] else -1
            own = nav_sat_fix(stamp_ns, latitude, longitude, 0.0, status=status, variance_m2=OWN_HEIGHT_VARIANCE_M2)
            writer.write_serialized("/localization/fix", NAV_SAT_FIX, stamp_ns, own)
    assert main(["report", str(store), str(tmp_path / "answers"), "--out", str(tmp_path / "page.html")]) == 0
    (run,) = part((tmp_path / "page.html").read_text(), "data")["runs"]
    assert run["name"] == "answered" and len(run["frames"]["x"]) == 12
    found = [x is not None for x in run["frames"]["x"]]
    assert found == answers.published.tolist()


@pytest.mark.parametrize("text", ["{", "[]", '{"missions": [{}]}', '{"matrix": {}}', '"x"'])
def test_a_file_that_is_no_result_is_refused_by_name(flown, tmp_path, capsys, text):
    store, _ = flown
    (tmp_path / "other.json").write_text(text)
    assert main(["report", str(store), str(tmp_path / "other.json"), "--out", str(tmp_path / "page.html")]) == 1
    assert "other.json" in capsys.readouterr().err


def test_frames_that_the_store_remembers_are_marked():
    moments = [Moment(second * 10**9, truth=np.array([500_000.0, 5_200_000.0])) for second in range(10)]
    elsewhere = [replace(moment, truth=np.zeros(2)) for moment in moments]
    kept = [Observation(b"x", 0, moments[row].truth, moments[row].stamp_ns, "flight", "VIS") for row in (2, 7)]
    assert list(marked(FlightRun("here", moments), kept).kept) == [2, 7]
    assert list(marked(FlightRun("the same time elsewhere", elsewhere), kept).kept) == []


def test_a_page_that_cannot_be_written_is_said_before_the_flight_is_flown(flown, tmp_path, capsys):
    store, bag = flown
    (tmp_path / "report.html").mkdir()
    assert main(["report", str(store), str(bag), "--out", str(tmp_path / "report.html")]) == 1
    assert "report.html" in capsys.readouterr().err
