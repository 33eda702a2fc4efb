"""The command line: whatever is typed is done, or refused in one line that says what to type instead."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rasterio
from crash_support import environment
from rasterio.transform import from_bounds
from store_support import make_store
from synthetic_rasters import noise_image, write_raster

from aerial_vpr_cl.cli import main

SCENARIO = Path(__file__).parent.parent / "config" / "scenarios" / "demo.yaml"


@pytest.fixture
def refused(capsys):
    """Run a verb that must be refused, and return its one line."""

    def run(*arguments: object) -> str:
        assert main([str(argument) for argument in arguments]) == 1
        printed = capsys.readouterr().err.strip()
        assert printed.startswith(f"aerial-vpr {arguments[0]}: ") and "Traceback" not in printed
        return printed

    return run


@pytest.fixture
def raster(tmp_path):
    return write_raster(tmp_path / "ground.tif", noise_image(400, 400))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("ground"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe", "not a text file in UTF-8"),
        (b"stride_m: 2026-99-99", "not valid YAML: month must be"),
        (b"stride_m: " + b"[" * 2000, "nested too deeply"),
        (b"7: 8", "unknown setting '7'"),
        (b"null: 8", "unknown setting 'None'"),
        (b"stride_m: .nan", "'stride_m' must be a number, not nan"),
        (b"stride_m: 1" + b"0" * 400, "'stride_m' must be a number"),
        (b"- 5", "expected a mapping"),
    ],
)
def test_a_settings_file_that_cannot_be_used_is_named(refused, raster, tmp_path, content, words):
    (tmp_path / "settings.yaml").write_bytes(content)
    text = refused("build-map", raster, "--out", tmp_path / "store", "--settings", tmp_path / "settings.yaml")
    assert words in text and "settings" in text
    assert not (tmp_path / "store").exists()


def test_a_directory_is_no_settings_file(refused, raster, tmp_path):
    text = refused("build-map", raster, "--out", tmp_path / "store", "--settings", tmp_path)
    assert f"{tmp_path}: cannot be read: Is a directory" in text


def test_not_a_number_passes_no_range(refused, raster, store, tmp_path):
    assert "'footprint_m' must be a number" in refused(
        "build-map", raster, "--out", tmp_path / "s", "--footprint-m", "nan"
    )
    assert "'gate_margin' must be a number" in refused("adapt", store, "--gate-margin", "nan")
    assert not (tmp_path / "s").exists()


def test_a_store_is_not_made_where_a_file_is(refused, raster, tmp_path):
    for place in (raster, raster / "store"):
        assert "ground.tif: is a file; a store is a directory" in refused("build-map", raster, "--out", place)


def test_more_patches_than_memory_are_refused_before_they_are_laid(refused, raster, tmp_path):
    assert "are too many" in refused("build-map", raster, "--out", tmp_path / "store", "--stride-m", "1e-9")


def test_a_map_of_the_world_is_refused(refused, tmp_path):
    profile = {"driver": "GTiff", "width": 720, "height": 360, "count": 3, "dtype": "uint8", "crs": "EPSG:4326"}
    with rasterio.open(
        tmp_path / "world.tif", "w", transform=from_bounds(-180, -90, 180, 90, 720, 360), **profile
    ) as file:
        file.write(np.full((3, 360, 720), 99, np.uint8))
    text = refused("build-map", tmp_path / "world.tif", "--out", tmp_path / "store")
    assert "world.tif" in text and "cut the map to where you fly" in text


def test_outputs_that_cannot_be_written_are_told_before_the_work(refused, store, tmp_path):
    (tmp_path / "file").touch()
    assert "is a directory" in refused("evaluate", store, tmp_path / "no bag", "--json", tmp_path)
    assert "file: cannot be made" in refused("inspect", store, "--sheet", tmp_path / "file" / "sheet.png")
    assert "is a directory" in refused("simulate", SCENARIO, "--world-map", tmp_path)


def test_a_negative_seed_is_refused(refused, tmp_path):
    assert "--seed is -3; it must be at least 0" in refused("simulate", SCENARIO, "--out", tmp_path, "--seed", "-3")


def test_adapt_on_what_is_no_store_says_how_to_make_one(refused, tmp_path):
    text = refused("adapt", tmp_path)
    assert "is not a store: there is no map in it" in text and "build-map" in text


def test_a_reader_that_has_seen_enough_gets_no_traceback(store):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "aerial_vpr_cl", "inspect", str(store)]
    done = subprocess.run(command, env=environment(), stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.returncode == 1 and done.stderr == ""
