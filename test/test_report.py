"""The report: budgets stand apart, and costs do not tell who ran first."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from benchmark_support import prepared

from aerial_vpr_cl.benchmark import pictures
from aerial_vpr_cl.benchmark.cost_tables import adaptation_figures
from aerial_vpr_cl.benchmark.costs import PeakMemory, own_memory_bytes
from aerial_vpr_cl.benchmark.records import by_method, read_records
from aerial_vpr_cl.benchmark.report import tables_of
from aerial_vpr_cl.benchmark.runner import run_all
from aerial_vpr_cl.benchmark.settings import Run, Study
from aerial_vpr_cl.benchmark.work_folder import WorkFolder
from aerial_vpr_cl.evaluation.tables import markdown

STUDY = Study("s", methods=("random", "dbs_hybrid"), orders=("forward", "backward"), seeds=(0, 1), budgets=(2, 4))


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Two methods with two budgets and two seeds, really run."""
    ready = prepared(tmp_path_factory.getbasetemp())
    benchmark = replace(ready.benchmark, studies=(replace(STUDY, orders=("forward",)),))
    work = WorkFolder(ready.path, benchmark)
    run_all(work)
    return work


@pytest.fixture
def records(work):
    return {run: record for run, record in read_records(work.results).items() if run in work.benchmark.runs()}


def invented(records):
    """Records of every run of the study, whose every figure is its budget in percent."""
    some = next(iter(records.values()))
    found = {}
    for run in STUDY.runs():
        share = run.budget / 100
        retrieval = {
            "patches": 9,
            "classification": {"recall_100": share, "recall_300": share, "median_m": 1.0},
            "retrieval": {"recall_100": share, "recall_300": share, "median_m": 1.0},
            "classification_bytes": 1,
            "retrieval_bytes": 1,
        }
        times = {"classification_ms": 1.0, "retrieval_ms": 1.0}
        found[run] = {
            **some,
            "summary": dict.fromkeys(some["summary"], share),
            "retrieval": {"base": retrieval, "final": retrieval},
            "timing": {**some["timing"], "search_ms": {"base": times, "final": times}},
        }
    return found


@pytest.mark.parametrize("name", ["continual", "orders", "orders-criteria", "over-orders", "retrieval"])
def test_no_figure_is_the_mean_of_two_budgets(records, name):
    table = tables_of(STUDY, invented(records))[name]
    panels = [panel for panel in table.panels if "B = " in panel.title]
    assert len(panels) >= 2
    for panel in panels:
        budget = int(panel.title.rsplit("B = ", 1)[1])
        shares = [
            figure.mean
            for row in panel.rows.values()
            for key, figure in row.items()
            if key.rsplit(".")[-1] not in ("median_m", "megabytes", "search_ms")
        ]
        np.testing.assert_allclose(shares, budget / 100, err_msg=panel.title)


def test_pictures_are_drawn_for_each_budget_and_show_its_runs(work, records, tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr(pictures, "draw_retained", lambda panels, path: shown.append((path.name, panels)))
    pictures.draw_pictures(work, records, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["qualitative-B2.png", "qualitative-B4.png"]
    assert [name for name, _ in shown] == [f"retained-{name}-B{b}.png" for b in (2, 4) for name in ("A", "B")]
    for name, panels in shown:
        mission, budget = name[9], int(name[-5])
        for title, (_, retained) in panels.items():
            method = {"Random": "random", "DBS-Hybrid": "dbs_hybrid"}[title.split(",")[0]]
            kept = records[Run(method, "forward", budget, 0)]["buffer"]["kept"][mission]
            assert np.flatnonzero(retained).tolist() == kept


def test_qualitative_panels_have_a_row_a_case_and_tiles_of_the_places_that_were_named(work, records):
    own = {run: record for run, record in records.items() if run.budget == 4}
    cases = pictures.qualitative_cases(work, own)
    assert [case.title for case in cases] == ["A, VIS, sequence", "B, IR, sequence", "C, VIS, held out"]
    for case in cases:
        assert set(case.predicted) == set(case.notes) == {"Random", "DBS-Hybrid"}
        for label, tile in case.predicted.items():
            metres = float(case.notes[label].split(" m;")[0])
            assert tile.shape == (160, 160, 3)
            # Far away lies other ground; the true tile is centred on the frame, the named one on its cell.
            assert metres < 100 or not np.array_equal(tile, case.true_tile)
            assert case.right[label] == (metres <= 300)


def test_retained_frames_are_shown_in_the_space_of_the_backbone_before_any_training(work):
    course, _ = work.open()
    before = pictures.pretrained_network(course.base, "random")
    images = before.preprocess(np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), np.uint8))
    again = pictures.pretrained_network(course.base, "random")
    assert np.allclose(before.features(images).detach(), again.features(images).detach())
    assert not np.allclose(before.features(images).detach(), course.base.features(images).detach(), atol=1e-3)
    trained = dict(course.base.backbone.trunk.state_dict())
    assert all(np.array_equal(value, trained[name]) for name, value in before.backbone.trunk.state_dict().items())


def test_a_run_costs_the_same_views_whether_it_finds_them_computed_or_not(work, records):
    run = Run("random", "forward", 2, 0)
    first = records[run]["timing"]
    (work.results / f"{run.name}.json").unlink()
    run_all(work)
    again = read_records(work.results)[run]["timing"]
    assert again["learn_views"] == first["learn_views"] and min(first["learn_views"]) > 10
    assert again["select_views"] == first["select_views"] and min(first["select_views"]) > 5


def test_costs_add_up_to_what_the_run_would_take_alone():
    timing = {
        "learn_s": [10.0, 20.0],
        "learn_views": [100, 200],
        "select_s": [1.0, 2.0],
        "select_views": [10, 20],
        "trunk_ms": 50.0,
        "peak_memory_mb": 7.0,
    }
    figures = adaptation_figures({"timing": timing, "buffer": {"bytes": 2_000_000}})
    total = 30 + 300 * 0.05 + 3 + 30 * 0.05
    assert figures["total_min"] == pytest.approx(total / 60) and figures["mission_s"] == pytest.approx(total / 2)
    assert figures["trunk_share"] == pytest.approx(330 * 0.05 / total)
    assert figures["update_share"] == pytest.approx((3 + 30 * 0.05) / total)
    assert figures["buffer_mb"] == 2.0 and math.isnan(figures["peak_accelerator_mib"])


def test_older_records_have_no_costs_that_could_be_compared():
    timing = {"learn_s": [1.0], "select_s": [0.5], "query_p50_ms": 3.0, "query_p95_ms": 4.0, "peak_memory_mb": 9.0}
    figures = adaptation_figures({"timing": timing, "buffer": {"bytes": 0}})
    assert math.isnan(figures["total_min"]) and math.isnan(figures["peak_memory_mb"])


def test_the_tables_of_costs_name_what_the_papers_table_has(records):
    tables = tables_of(replace(STUDY, orders=("forward",)), records)
    shown = markdown(tables["costs"]) + markdown(tables["queries"])
    for words in ("Total time", "of it buffer update", "Mean latency", "p95", "Throughput", "Peak accelerator"):
        assert words in shown, words
    rows = tables["queries"].panels[0].rows
    assert set(rows) == {"All missions of the sequence", "Held-out missions"}
    for figures in rows.values():
        assert 0 < figures["p50_ms"].mean <= figures["p95_ms"].mean
        assert figures["per_second"].mean > 0


@pytest.mark.skipif(not own_memory_bytes(), reason="the system does not say how much memory a process has")
def test_the_peak_of_a_small_run_is_not_that_of_a_large_one_before_it():
    with PeakMemory() as large:
        block = np.ones(80_000_000, np.uint8)
        large.bytes = max(large.bytes, own_memory_bytes())
        del block
    with PeakMemory() as small:
        pass
    assert 0 < small.bytes < large.bytes - 40_000_000


def test_a_buffer_of_nothing_is_not_one_of_every_size():
    runs = [Run("dbs_hybrid", "forward", 0, 0), Run("dbs_hybrid", "forward", 200, 0), Run("ft", "forward", 0, 0)]
    picked = by_method({run: {"run": run} for run in runs}, "forward", 200, lambda record: record["run"].budget)
    assert picked == {"dbs_hybrid": [200], "ft": [0]}
