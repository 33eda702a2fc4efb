"""Settings: frozen dataclasses that YAML files, command line options and ROS parameters are all made from."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import math
import re
import reprlib
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, Union

import yaml

from aerial_vpr_cl.errors import SettingsError

Settings = TypeVar("Settings")

EXPONENT_WITHOUT_POINT = re.compile(r"[-+]?\d+[eE][-+]?\d+")
"""A number to people, but text to YAML 1.1, which wants `1.0e-4`."""


DEVICE_PATTERN = r"auto|(cpu|cuda|mps|xpu)(:\d+)?"
"""What a device can be called; whether the computer has it is another question."""


def setting(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[Any] | None = None,
    pattern: str | None = None,
    check: Callable[[Any], None] | None = None,
) -> Any:
    """Declare a dataclass field with its description and, where they exist, its range, choices or form (a regex).

    `check` raises SettingsError for what these cannot say.
    """
    metadata = {
        "help": help,
        "low": low,
        "high": high,
        "choices": tuple(choices) if choices else None,
        "pattern": pattern,
        "check": check,
    }
    if isinstance(default, list | dict):
        return dataclasses.field(default_factory=lambda: type(default)(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def load_settings(
    cls: type[Settings], source: str | Path | Mapping[str, Any] | None = None, **overrides: Any
) -> Settings:
    """Make settings from a YAML file or mapping; keyword arguments that are not None win.

    Unknown keys are refused with the nearest valid name, wrong types and ranges with what is allowed.
    """
    values: dict[str, Any] = {}
    origin = "settings"
    if isinstance(source, str | Path):
        origin = str(source)
        values = read_yaml(source)
    elif source is not None:
        values = dict(source)
    values.update({name: value for name, value in overrides.items() if value is not None})
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    checked = {}
    for name, value in values.items():
        if name not in fields:
            raise SettingsError(f"{origin}: unknown setting '{name}'; {nearest_name(name, fields)}")
        checked[name] = check_value(name, value, hints[name], fields[name].metadata, origin)
    return cls(**checked)


def nearest_name(name: str, valid: Iterable[str]) -> str:
    """What to use instead of a name that does not exist, in words."""
    names = sorted(valid)
    near = difflib.get_close_matches(str(name), names, n=1)  # keys of YAML may be numbers
    return f"did you mean '{near[0]}'?" if near else f"valid names: {', '.join(names)}"


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read a YAML file that must hold a mapping."""
    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file") from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not a text file in UTF-8: {error}") from None
    except RecursionError:
        raise SettingsError(f"{path}: nested too deeply for settings") from None
    except (yaml.YAMLError, ValueError) as error:  # a date such as 2026-99-99 is only a ValueError
        raise SettingsError(f"{path}: not valid YAML: {error}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise SettingsError(f"{path}: expected a mapping of names to values, found {type(values).__name__}")
    return values


def check_value(name: str, value: Any, hint: Any, metadata: Mapping[str, Any], origin: str = "settings") -> Any:
    """Convert a value to its declared type and hold it to its range; raise SettingsError otherwise."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        return load_settings(hint, value)
    kind, optional = _plain_type(hint)
    if value is None and optional:
        return None
    converted = _convert(value, kind, f"{origin}: '{name}'")
    low, high, choices = metadata.get("low"), metadata.get("high"), metadata.get("choices")
    if choices and converted not in choices:
        raise SettingsError(f"{origin}: '{name}' is {converted!r}; choose one of {', '.join(map(str, choices))}")
    pattern = metadata.get("pattern")
    if pattern and isinstance(converted, str) and not re.fullmatch(pattern, converted):
        raise SettingsError(f"{origin}: '{name}' is {converted!r}; expected: {metadata['help']}")
    if (low is not None and converted < low) or (high is not None and converted > high):
        bounds = f"at least {low}" if high is None else f"at most {high}" if low is None else f"{low} to {high}"
        raise SettingsError(f"{origin}: '{name}' is {converted}; it must be {bounds}")
    if check := metadata.get("check"):
        try:
            check(converted)
        except SettingsError as error:
            raise SettingsError(f"{origin}: '{name}': {error}") from None
    return converted


def add_arguments(parser: argparse.ArgumentParser, cls: type, skip: Sequence[str] = ()) -> None:
    """Add one option per field of a settings dataclass; unset options stay None so that files and defaults show."""
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        if field.name in skip or dataclasses.is_dataclass(hints[field.name]):
            continue
        kind, _ = _plain_type(hints[field.name])
        option = "--" + field.name.replace("_", "-")
        text = f"{field.metadata.get('help', '')} (default: {_default_of(field)})".replace("%", "%%")
        if kind is bool:
            parser.add_argument(option, action=argparse.BooleanOptionalAction, default=None, help=text)
        elif typing.get_origin(kind) in (tuple, list):
            item = typing.get_args(kind)[0]
            parser.add_argument(option, type=item, nargs="+", default=None, help=text, metavar="VALUE")
        else:
            choices = field.metadata.get("choices")
            parser.add_argument(
                option, type=kind, choices=choices, default=None, help=text, metavar=_metavar(kind, choices)
            )


def from_arguments(args: argparse.Namespace, cls: type[Settings], source: str | Path | None = None) -> Settings:
    """Settings from parsed options over an optional YAML file over the defaults."""
    names = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    return load_settings(cls, source, **{name: value for name, value in vars(args).items() if name in names})


def _metavar(kind: Any, choices: Any) -> str | None:
    return None if choices else {int: "N", float: "X"}.get(kind, "TEXT")


def _default_of(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _plain_type(hint: Any) -> tuple[Any, bool]:
    """The type without None, and whether None is allowed."""
    if typing.get_origin(hint) in (Union, types.UnionType):
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        return kinds[0], len(kinds) < len(typing.get_args(hint))
    return hint, False


def _convert(value: Any, kind: Any, what: str) -> Any:
    origin = typing.get_origin(kind)
    if origin in (tuple, list):
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise SettingsError(f"{what} must be a list, not {reprlib.repr(value)}")
        item = typing.get_args(kind)[0]
        return origin(_convert(entry, item, what) for entry in value)
    if kind is Path and isinstance(value, str | Path):
        return Path(value).expanduser()
    if kind is float and isinstance(value, str) and EXPONENT_WITHOUT_POINT.fullmatch(value):
        value = float(value)
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return _real(value, what)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind is int and isinstance(value, bool):
        raise SettingsError(f"{what} must be a whole number, not {value!r}")
    if kind in (int, float, bool, str) and not isinstance(value, kind):
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}[kind]
        raise SettingsError(f"{what} must be {words}, not {reprlib.repr(value)}")
    return value


def _real(value: int | float, what: str) -> float:
    """A number that can be compared and written down: NaN passes every range, and no file holds what is infinite."""
    try:
        number = float(value)
    except OverflowError:
        number = math.nan
    if not math.isfinite(number):
        raise SettingsError(f"{what} must be a number, not {reprlib.repr(value)}")
    return number
