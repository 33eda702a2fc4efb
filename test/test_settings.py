"""Settings: one declaration for YAML, command line and ROS parameters; mistakes are named."""

import argparse
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.settings import add_arguments, from_arguments, load_settings, setting


@dataclass(frozen=True)
class Inner:
    depth: int = setting(1, "how deep", low=0, high=3)


@dataclass(frozen=True)
class Example:
    cell_side_m: float = setting(200.0, "side of a cell", low=1.0)
    modulus: int = setting(2, "groups along each axis", low=1, high=9)
    sensor: str = setting("VIS", "camera", choices=("VIS", "IR"))
    record: bool = setting(True, "keep the flight")
    bands: tuple[int, ...] = setting((1, 2, 3), "bands of the raster")
    folder: Path | None = setting(None, "where to write")
    inner: Inner = field(default_factory=Inner)


def test_a_file_overrides_defaults_and_options_override_the_file(tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text("cell_side_m: 250\nmodulus: 3\nbands: [4]\ninner: {depth: 2}\n")
    example = load_settings(Example, file, modulus=4, sensor=None)
    assert example == Example(cell_side_m=250.0, modulus=4, bands=(4,), inner=Inner(2))


def test_a_number_with_an_exponent_needs_no_point(tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text("cell_side_m: 1e2\n")  # text to YAML 1.1
    assert load_settings(Example, file).cell_side_m == 100.0


def test_an_unknown_key_is_refused_with_the_nearest_name(tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text("cell_side: 250\n")
    with pytest.raises(SettingsError, match=r"settings\.yaml.*'cell_side'.*cell_side_m"):
        load_settings(Example, file)


@pytest.mark.parametrize(
    "values",
    [
        {"modulus": 0},
        {"modulus": 2.5},
        {"modulus": True},
        {"sensor": "UV"},
        {"record": "yes"},
        {"cell_side_m": "big"},
        {"bands": 3},
        {"inner": {"depth": 9}},
        {"inner": {"height": 1}},
    ],
)
def test_wrong_types_ranges_and_choices_are_refused(values):
    with pytest.raises(SettingsError):
        load_settings(Example, values)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), 10**400])
def test_what_no_file_can_hold_is_no_number(number):
    with pytest.raises(SettingsError, match="must be a number"):
        load_settings(Example, {"cell_side_m": number})


@pytest.mark.parametrize("text", ["- a\n- b\n", "a: [1\n"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path, text):
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=r"settings\.yaml"):
        load_settings(Example, file)


def test_a_missing_file_is_named():
    with pytest.raises(SettingsError, match=r"nowhere\.yaml"):
        load_settings(Example, "nowhere.yaml")


def test_every_field_is_an_option_and_unset_options_leave_the_default():
    parser = argparse.ArgumentParser()
    add_arguments(parser, Example, skip=["folder"])
    assert from_arguments(parser.parse_args([]), Example) == Example()
    options = ["--modulus", "5", "--no-record", "--bands", "4", "1", "--sensor", "IR"]
    expected = Example(modulus=5, record=False, bands=(4, 1), sensor="IR")
    assert from_arguments(parser.parse_args(options), Example) == expected
    assert "side of a cell (default: 200.0)" in parser.format_help()
