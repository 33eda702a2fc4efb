"""Scores of a flight say how many answers there were, how near and how honest."""

import json
from dataclasses import replace

import numpy as np
import pytest
from synthetic_rasters import write_raster

from aerial_vpr_cl.evaluation.flight_score import FlightAnswers, score
from aerial_vpr_cl.evaluation.score_tables import answers_of_values, flight_values, score_table, scores_of
from aerial_vpr_cl.evaluation.track_pictures import draw_flights
from aerial_vpr_cl.satellite.raster import SatelliteMap


def flight(errors_m, sigma_m=10.0, name="A", modality="VIS", unknown=()):
    """Answers off by these metres to the east; NaN: silent."""
    errors = np.asarray(errors_m, float)
    truth = np.stack([np.arange(len(errors)) * 30.0 + 500_000.0, np.full(len(errors), 4_000_000.0)], axis=1)
    given = truth + np.stack([errors, 0.0 * errors], axis=1)
    truth[list(unknown)] = np.nan
    return FlightAnswers(
        name=name,
        modality=modality,
        positions="truth",
        stamps_ns=np.arange(len(errors)) * 1_000_000_000,
        truth=truth,
        given=given,
        covariances=np.broadcast_to(np.eye(2) * sigma_m**2, (len(errors), 2, 2)).copy(),
        reasons=tuple("searching" if np.isnan(error) else "" for error in errors),
    )


def test_every_figure_counts_what_it_says():
    found = score([flight([np.nan, np.nan, 10.0, 40.0, np.nan, 120.0, 400.0, 5.0], unknown=[7])])
    assert (found.frames, found.published, found.first_fix_frame) == (8, 5, 3.0)
    assert found.recall == pytest.approx({"25": 1 / 7, "50": 2 / 7, "100": 2 / 7, "300": 3 / 7})
    assert found.published_recall == pytest.approx({"25": 0.25, "50": 0.5, "100": 0.5, "300": 0.75})
    assert (found.wrong_100m, found.wrong_300m) == (0.5, 0.25)
    assert found.median_m == 80.0
    assert found.silences == {"searching": 3}
    assert found.availability == pytest.approx(5 / 6)


def test_an_honest_gaussian_is_covered_as_it_says():
    rng = np.random.default_rng(0)
    answers = flight(np.zeros(4000), sigma_m=12.0)
    answers.given[:] += rng.normal(0.0, 12.0, (4000, 2))
    found = score([answers])
    assert found.nees == pytest.approx(2.0, abs=0.15)
    assert found.coverage == pytest.approx({"50": 0.5, "90": 0.9, "95": 0.95}, abs=0.03)


def test_a_flight_without_answers_has_a_score_too():
    values = score([flight([np.nan, np.nan])]).to_dict()
    assert values["published"] == 0 and values["recall"]["50"] == 0.0
    assert values["first_fix_frame"] is None and values["nees"] is None and values["published_recall"]["50"] is None
    json.dumps(values, allow_nan=False)


def test_flights_are_tabled_apart_and_together():
    flights = [flight([5.0, 6.0]), flight([7.0, np.nan], name="B", modality="IR")]
    scores = scores_of(flights)
    assert list(scores) == ["A", "B", "all frames", "VIS", "IR"]
    assert scores["all frames"].frames == 4
    head, *rows = score_table(scores).splitlines()
    assert len(rows) == 5 and len({len(line.rstrip()) for line in rows}) == 1
    assert rows[1].split()[:3] == ["B", "2", "1"] and "NEES" in head
    assert flight_values(flights[1])["errors_m"] == [7.0]


def test_two_flights_of_one_name_have_a_row_each():
    scores = scores_of([flight([1.0], name="A"), flight([2.0, 3.0], name="A"), flight([4.0], name="B")])
    assert [scores[name].frames for name in ("A", "A (2)", "B", "all frames")] == [1, 2, 1, 4]


def test_a_flight_comes_back_from_its_values():
    given = replace(flight([5.0, np.nan, 120.4, 3.0], unknown=[3]), refused={"duplicate": 2}, epsg=32614)
    again = answers_of_values(json.loads(json.dumps(flight_values(given), allow_nan=False)))
    assert score([again]).to_dict() == score([given]).to_dict()
    assert (again.name, again.modality, again.refused, again.epsg) == ("A", "VIS", {"duplicate": 2}, 32614)
    assert again.reasons == given.reasons and again.stamps_ns.tolist() == given.stamps_ns.tolist()


def test_flights_are_drawn(tmp_path):
    ground = np.full((40, 60, 3), 90, np.uint8)
    satellite = SatelliteMap.open(write_raster(tmp_path / "map.tif", ground, pixel=10.0))
    written = draw_flights(satellite, [flight([5.0, np.nan, 20.0])], tmp_path / "plots")
    assert sorted(path.name for path in written) == ["A_errors.png", "A_track.png", "reliability.png"]
    assert all(path.stat().st_size > 1000 for path in written)
