"""The measurements of benchmarks/ run, small, and say what they did not measure."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def run(script: str, *options: object) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(BENCHMARKS.parent), *sys.path])
    command = [sys.executable, BENCHMARKS / script, *map(str, options)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_report_tells_what_was_measured_from_what_is_quoted(tmp_path):
    for part in ("selection", "real"):  # parts may be measured apart
        run("bench.py", "--parts", part, "--repeats", 2, "--out", tmp_path / "bench")
    measured, rest = (tmp_path / "bench.md").read_text().split("## To be held, quoted")
    quoted, beside = rest.split("## Side by side")
    assert "DBS-Hybrid at n = 247" in measured and "results/" not in measured
    assert "Not measured, real: needs the dated GeoTIFFs" in measured
    assert "tracked, nothing learnt" in quoted and "| measured |" not in quoted
    assert "naive selector ÷ ours" in beside


def test_the_stages_of_a_map_leave_records_and_a_table(tmp_path):
    options = ("--tiles", 1, "--stages", "world", "map", "search", "--work", tmp_path, "--out", tmp_path / "out")
    run("scale.py", *options)
    record = json.loads((tmp_path / "out" / "tiles1.json").read_text())
    assert record["map"]["classes"] > 100 and record["search"]["error_m"] < 25.0
    assert record["map"]["peak_mb"] > record["map"]["start_mb"] > 0.0
    table = (tmp_path / "out" / "README.md").read_text()
    assert "| 10 km² |" in table and "registration on the whole map" in table.replace("… ", "registration ")
    assert (tmp_path / "out" / "growth.png").stat().st_size > 1000
    (tmp_path / "tiles1.tif").unlink()
    run("scale.py", *options)  # what has a record is not measured again


@pytest.mark.parametrize(
    "cell, least, held", [("97.0 / 99.9", 97.0, True), ("0 of 1,922", 1.0, False), ("–", 1.0, None)]
)
def test_a_quoted_cell_is_held_to_its_number(tmp_path, monkeypatch, cell, least, held):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import bench_records

    (tmp_path / "some.md").write_text(f"text\n\n| case | share |\n|---|--:|\n| other | 1 |\n| ours | {cell} |\n")
    monkeypatch.setattr(bench_records, "RESULTS", tmp_path)
    row = bench_records.Quote("what", "hold", "some.md", "ours", "share", least=least).line()
    assert (row.found, row.held) == (cell, held)
    assert bench_records.Quote("what", "hold", "none.md", "ours", "share").line().found == "no record"
