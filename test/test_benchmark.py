"""The benchmark: files that are refused with words, runs that repeat to the byte, also when killed and resumed."""

from __future__ import annotations

import json
import queue
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from benchmark_support import CONFIG, prepared, write_config
from crash_support import environment

from aerial_vpr_cl.benchmark.records import read_records
from aerial_vpr_cl.benchmark.report import write_report
from aerial_vpr_cl.benchmark.runner import _serve, run_all, waiting
from aerial_vpr_cl.benchmark.settings import Run, load_benchmark
from aerial_vpr_cl.benchmark.work_folder import WorkFolder
from aerial_vpr_cl.cli import main
from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.evaluation.tables import METHOD_TITLES
from aerial_vpr_cl.learning.adapt import adapt
from aerial_vpr_cl.learning.adapt_settings import AdaptSettings
from aerial_vpr_cl.learning.recipes import EMBEDDED_RECIPE, RECIPES

ROOT = Path(__file__).parent.parent
CONFIGS = sorted((ROOT / "config" / "benchmarks").glob("*.yaml"))


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    """A prepared benchmark that tests copy."""
    return prepared(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def finished(ready):
    """The runs of the main study, made one after the other in this process."""
    work = WorkFolder(ready.path, ready.benchmark.narrowed(["main"]))
    run_all(work)
    return work


def copy_of(ready, folder, **choices):
    """The prepared folder without results and trunk outputs."""
    config = write_config(folder)
    shutil.copytree(ready.path, folder / "out", ignore=shutil.ignore_patterns("results", "trunk", "report"))
    return WorkFolder(folder / "out", load_benchmark(config).narrowed(["main"], **choices))


def results_of(work):
    """Bytes of every record without its timing."""
    found = {}
    for path in sorted(work.results.glob("*.json")):
        record = json.loads(path.read_text())
        assert record.pop("timing")["run_s"] > 0
        found[path.name] = json.dumps(record)
    return found


def test_one_record_a_run_and_none_is_made_twice(finished):
    names = ["dbs_hybrid-forward-B4-s0", "dbs_hybrid-forward-B4-s1", "ft-forward-s0", "ft-forward-s1"]
    assert list(results_of(finished)) == [f"{name}.json" for name in names]
    assert waiting(finished) == []
    times = {path: path.stat().st_mtime_ns for path in finished.results.glob("*.json")}
    run_all(finished)
    assert times == {path: path.stat().st_mtime_ns for path in finished.results.glob("*.json")}


def test_seeds_make_a_difference(finished):
    records = read_records(finished.results)
    first, second = (records[Run("dbs_hybrid", "forward", 4, seed)] for seed in (0, 1))
    assert first["losses"] != second["losses"]


def test_the_same_seeds_give_the_same_bytes_over_processes_in_any_order(finished, ready, tmp_path):
    shares = []
    work = copy_of(ready, tmp_path, methods=["dbs_hybrid", "ft"])
    run_all(work, workers=2, progress=lambda phase, done, total, **_: shares.append(done / total))
    assert results_of(work) == results_of(finished)
    assert shares == sorted(shares) and shares[-1] == 1.0


def test_a_ray_cluster_gives_the_same_bytes(finished, ready, tmp_path):
    ray = pytest.importorskip("ray", reason="Ray is optional")
    work = copy_of(ready, tmp_path)
    try:
        run_all(work, ray=True)
    finally:
        ray.shutdown()
    assert results_of(work) == results_of(finished)


def test_a_killed_benchmark_goes_on_and_ends_as_if_nothing_had_happened(finished, ready, tmp_path):
    work = copy_of(ready, tmp_path)
    command = [sys.executable, "-m", "aerial_vpr_cl", "benchmark", str(tmp_path / "bench.yaml")]
    command += ["--out", str(work.path), "--study", "main", "--workers", "2"]
    quiet = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    with subprocess.Popen(command, env=environment(OMP_NUM_THREADS="1"), **quiet) as process:
        deadline = time.monotonic() + 240
        while len(list(work.results.glob("[!.]*.json"))) < 1:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        started = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(signal.SIGKILL)
    while any(Path(f"/proc/{pid}").exists() for pid in started):  # its workers do not outlive it
        assert time.monotonic() < deadline
        time.sleep(0.02)
    done = results_of(work)
    assert 1 <= len(done) < 4
    run_all(work)
    assert results_of(work) == results_of(finished)


def test_results_of_other_settings_are_not_mixed_in(ready, tmp_path):
    other = load_benchmark(write_config(tmp_path, CONFIG.replace("cycles: 1", "cycles: 3")))
    with pytest.raises(SettingsError, match="results of other settings"):
        WorkFolder(ready.path, other).prepare()


def test_results_of_another_recipe_are_not_mixed_in(ready, monkeypatch):
    before = ready.benchmark.settings.digest()
    assert ready.benchmark.settings.digest() == before
    stronger = replace(EMBEDDED_RECIPE, mission_augmentation=replace(EMBEDDED_RECIPE.mission_augmentation, grey=0.9))
    monkeypatch.setitem(RECIPES, "embedded", stronger)
    with pytest.raises(SettingsError, match="results of other settings"):
        ready.prepare()


def test_records_that_were_laid_into_a_folder_are_not_taken_for_those_of_other_settings(finished, tmp_path):
    other = load_benchmark(write_config(tmp_path, CONFIG.replace("cycles: 1", "cycles: 3"))).narrowed(["main"])
    work = WorkFolder(tmp_path / "out", other)
    shutil.copytree(finished.results, work.results)
    for look in (waiting, run_all):
        with pytest.raises(SettingsError, match="4 records are of other settings"):
            look(work)


def test_a_store_that_learns_is_another_store_and_may_not_know_the_missions(ready, tmp_path):
    own = "bags: missions\nstore: store\nsequence: [A, B]\nheld_out: [C]"
    config = write_config(tmp_path, CONFIG.replace("scenario: scenario.yaml", own))
    shutil.copytree(ready.path / "missions", tmp_path / "missions")
    shutil.copytree(ready.path / "store", tmp_path / "store")
    work = WorkFolder(tmp_path / "out", load_benchmark(config))
    before = work.benchmark.settings.digest()
    work.open()
    settings = AdaptSettings(cycles=1, views=1, keep_raw=True, labels="gnss", gate_margin=1.0)
    adapt(tmp_path / "store", [tmp_path / "missions" / "C"], settings)
    assert work.benchmark.settings.digest() != before
    with pytest.raises(SettingsError, match="has learnt C"):
        work.open()


def test_a_worker_says_why_it_cannot_make_a_run(ready, tmp_path):
    work = copy_of(ready, tmp_path)
    shutil.rmtree(work.path / "store" / "map")
    tasks, reports = queue.Queue(), queue.Queue()
    tasks.put(work.benchmark.runs()[0])
    _serve(work, tasks, reports)
    name, share, problem = reports.get()
    assert (name, share) == ("ft-forward-s0", 0.0) and "build-map" in problem


def test_the_command_lists_runs_and_writes_tables_and_figures(finished, ready, tmp_path, capsys):
    work = copy_of(ready, tmp_path)
    shutil.copytree(finished.results, work.results)
    config = ["benchmark", str(tmp_path / "bench.yaml"), "--out", str(work.path)]
    assert main([*config, "--study", "main", "--list", "--json", str(tmp_path / "list.json")]) == 0
    assert all(run["done"] for run in json.loads((tmp_path / "list.json").read_text())["runs"].values())
    assert "4 of 4 runs are done" in capsys.readouterr().out
    assert main([*config, "--list", "--methods", "lwf", "--seeds", "7"]) == 0
    assert "waiting  lwf-forward-s7" in capsys.readouterr().out
    assert main([*config, "--study", "main", "capacity", "--report", "--json", str(tmp_path / "runs.json")]) == 0
    shown = capsys.readouterr().out
    assert "faa" in json.loads((tmp_path / "runs.json").read_text())["runs"]["ft-forward-s0"]["summary"]
    for text in (
        "| FT |",
        "| DBS-Hybrid |",
        "Base model",
        "Retrieval, 40 patches",
        "are still to be made",
        "VIS R@300",
    ):
        assert text in shown, text
    report = work.path / "report"
    for name in ("main-continual.md", "main-continual.csv", "main-continual.tex", "main-C1.png", "main-errors.png"):
        assert (report / name).stat().st_size > 100
    drawn = {"main-R-ft.png", "retained-A-B4.png", "retained-B-B4.png", "capacity-capacity.png"}
    assert drawn | {"capacity-orders.md", "main-queries.md"} <= {path.name for path in report.iterdir()}


def test_kept_records_are_enough_for_tables(finished, tmp_path, capsys):
    shutil.copytree(finished.results, tmp_path / "kept" / "results")
    config = str(write_config(tmp_path))
    assert main(["benchmark", config, "--out", str(tmp_path / "kept"), "--study", "main", "--report"]) == 0
    assert "| DBS-Hybrid |" in capsys.readouterr().out


def test_a_report_says_how_many_test_frames_lie_over_cells_that_were_learnt(finished, tmp_path):
    text = write_report(finished.benchmark, read_records(finished.results), tmp_path)
    assert "| A | VIS | sequence | 11 | 11 |" in text and "| C | VIS | held out | 0 | 24 | – |" in text


def test_a_store_is_evaluated_on_bags(ready, tmp_path, capsys):
    bags = [str(ready.bag(name)) for name in ("A", "B")]
    assert main(["evaluate", str(ready.store), *bags, "--json", str(tmp_path / "found.json")]) == 0
    shown = capsys.readouterr().out
    assert "generation 0" in shown and {"A", "B", "IR", "VIS"} <= {line.split(" ")[0] for line in shown.splitlines()}
    values = json.loads((tmp_path / "found.json").read_text())
    assert [mission["positions"] for mission in values["missions"]] == ["truth", "truth"]
    assert values["summaries"]["all frames"]["frames"] == sum(mission["frames"] for mission in values["missions"])
    for mission in values["missions"]:
        assert mission["published"] == len(mission["errors_m"])
        assert mission["frames"] == mission["published"] + sum(mission["silences"].values())
        assert set(mission["recall"]) == set(mission["published_recall"]) == {"25", "50", "100", "300"}
        assert set(mission["coverage"]) == {"50", "90", "95"}
        assert {"first_fix_frame", "wrong_100m", "wrong_300m", "nees", "median_m"} <= set(mission)


# Benchmark files


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("scenario: scenario.yaml", "bags: here", "name the missions"),
        ("scenario: scenario.yaml", "scale: 1.0", "one of 'scenario', 'bags' and 'sues200'"),
        (
            "methods: [ft, dbs_hybrid], seeds: [0, 1]",
            "methods: [dbs_hibrid]",
            r"unknown method 'dbs_hibrid'.*dbs_hybrid",
        ),
        ("orders: [forward, backward]", "orders: [sideways]", "unknown mission order"),
        ("cycles: 1", "cicles: 2", "did you mean 'cycles'"),
        ("name: capacity", "name: main", "same name"),
    ],
)
def test_what_is_wrong_in_a_file_is_said(tmp_path, old, new, message):
    assert old in CONFIG
    with pytest.raises(SettingsError, match=message):
        load_benchmark(write_config(tmp_path, CONFIG.replace(old, new)))


def test_methods_without_a_buffer_run_once_whatever_the_budget(tmp_path):
    runs = load_benchmark(write_config(tmp_path)).runs()
    assert len(runs) == len(set(runs))
    assert sum(run.method == "ft" for run in runs) == 3 and all(run.budget == 0 for run in runs if run.method == "ft")
    assert sum(run.method == "dbs_hybrid" for run in runs) == 5


def test_choices_narrow_the_first_study(tmp_path):
    benchmark = load_benchmark(write_config(tmp_path))
    assert [run.name for run in benchmark.narrowed(methods=["udil"], seeds=[3]).runs()] == ["udil-forward-B4-s3"]
    assert benchmark.narrowed(["capacity"]).studies[0].name == "capacity"
    with pytest.raises(SettingsError, match="it has main, capacity"):
        benchmark.narrowed(["mean"])


def test_the_tables_of_the_real_dates_follow_from_their_records(tmp_path, capsys):
    kept = ROOT / "benchmarks" / "results" / "naip_nd_imprinted"
    shutil.copytree(kept / "results", tmp_path / "results")
    config = ROOT / "config" / "benchmarks" / "naip_nd_imprinted.yaml"
    assert main(["benchmark", str(config), "--out", str(tmp_path), "--report", "--study", "main"]) == 0
    for name in ("continual", "sequence", "held_out", "retrieval"):
        table = f"main-{name}.md"
        assert (tmp_path / "report" / table).read_text() == (kept / "report" / table).read_text()


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_benchmarks_that_come_with_the_package_can_be_read(path):
    benchmark = load_benchmark(path, raster_dir=ROOT)
    assert {"random", "dbs_hybrid"} <= {run.method for run in benchmark.runs()}
    if benchmark.settings.sues200:
        return
    work = WorkFolder(Path("nowhere"), benchmark)
    sequence, held_out = work.roles
    assert len(sequence) >= 4 and len(held_out) >= 2
    assert {spec.name for spec in work.scenario.chosen([*sequence, *held_out])} == {*sequence, *held_out}


@pytest.mark.parametrize("name", ["demo", "naip_nd", "naip_nd_apart", "naip_nd_imprinted", "naip_nd_quick"])
def test_all_methods_of_the_paper_are_compared(name):
    path = ROOT / "config" / "benchmarks" / f"{name}.yaml"
    methods = {run.method for run in load_benchmark(path, raster_dir=ROOT).runs()}
    assert {*METHOD_TITLES} <= methods
