"""The digest of a benchmark: it tells trainings apart, and records of before stay those of their files."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from aerial_vpr_cl.benchmark.settings import BenchmarkSettings, load_benchmark
from aerial_vpr_cl.errors import SettingsError

TOP = Path(__file__).parents[1]
CONFIGS = TOP / "config" / "benchmarks"
RESULTS = TOP / "benchmarks" / "results"


def settings_of(name: str) -> BenchmarkSettings:
    return load_benchmark(CONFIGS / f"{name}.yaml", raster_dir=Path("rasters")).settings


def with_base(settings: BenchmarkSettings, **change: object) -> BenchmarkSettings:
    return replace(settings, base=replace(settings.base, **change))


@pytest.mark.parametrize(
    ("name", "records"),
    [
        ("naip_nd", "naip_nd_memory"),
        ("naip_nd_apart", "naip_nd_apart"),
        ("naip_nd_salad", "naip_nd_salad"),
        ("naip_nd_imprinted", "naip_nd_imprinted"),
        ("naip_nd_north_up", "naip_nd_north_up"),
        ("naip_nd_apart_north_up", "naip_nd_apart_north_up"),
    ],
)
def test_committed_records_can_be_gone_on_with(name, records):
    digests = {json.loads(path.read_text())["digest"] for path in (RESULTS / records / "results").glob("*.json")}
    assert digests == {settings_of(name).digest()}


@pytest.mark.parametrize("name", ["naip_nd_north_up", "naip_nd_quick"])
def test_trainings_that_begin_otherwise_have_other_digests(name):
    settings = settings_of(name)
    changes = ({}, {"living_blocks": 2}, {"imprint": 0}, {"living_blocks": 2, "imprint": 0}, {"imprint": 4})
    assert len({with_base(settings, **change).digest() for change in changes}) == len(changes)


@pytest.mark.parametrize("name", ["naip_nd_north_up", "naip_nd_quick"])
def test_spelling_out_what_the_recipe_says_changes_nothing(name):
    settings = settings_of(name)
    assert with_base(settings, living_blocks=4, imprint=8).digest() == settings.digest()


def test_heads_without_a_map_cannot_be_imprinted(tmp_path):
    config = tmp_path / "sues.yaml"
    config.write_text("sues200: SUES-200\nbase: {imprint: 8}\n")
    with pytest.raises(SettingsError, match="imprint"):
        load_benchmark(config)
