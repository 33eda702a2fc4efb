"""Node parameters made of settings dataclasses: one truth for YAML files, `ros2 param` and the documentation."""

from __future__ import annotations

import dataclasses
import threading
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.settings import load_settings, nearest_name

Settings = TypeVar("Settings")

_UNBOUNDED = 1e15
"""ROS ranges have two ends; an open one is put here."""
_OF_ROS = ("use_sim_time", "start_type_description_service", "qos_overrides.")
"""Parameters, or beginnings of their names, that every node has."""


class NodeSettings:
    """Settings dataclasses as the parameters of a node, current at all times.

    `groups` maps a prefix ("" or "recording") to a dataclass; `fixed` names parameters that are read-only. A change is
    checked as a YAML file would be, all or nothing, and `changed` is called after it. A node made with
    `automatically_declare_parameters_from_overrides` is refused names that it does not know.
    """

    def __init__(
        self,
        node: Node,
        groups: Mapping[str, Sequence[type]],
        *,
        fixed: Collection[str] = (),
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._classes = [(prefix, cls) for prefix, classes in groups.items() for cls in classes]
        self._changed = changed
        self._lock = threading.Lock()
        given = set(node.get_parameters_by_prefix(""))
        names = {_join(prefix, field.name) for prefix, cls in self._classes for field in _fields(cls)}
        _refuse_unknown(node.get_name(), given, names)
        for name in given & names:  # declared by rclpy as it was given; now with its description and range
            node.undeclare_parameter(name)
        for prefix, cls in self._classes:
            hints = typing.get_type_hints(cls)
            for field in dataclasses.fields(cls):
                name = _join(prefix, field.name)
                descriptor = describe(field, hints[field.name], read_only=name in fixed or prefix in fixed)
                node.declare_parameter(name, field.default, descriptor)
        self._current: dict[type, Any] = {
            cls: load_settings(
                cls, {field.name: node.get_parameter(_join(prefix, field.name)).value for field in _fields(cls)}
            )
            for prefix, cls in self._classes
        }
        node.add_on_set_parameters_callback(self._on_set)

    def __getitem__(self, cls: type[Settings]) -> Settings:
        return self._current[cls]

    def _on_set(self, parameters: list[Parameter]) -> SetParametersResult:
        values = {parameter.name: parameter.value for parameter in parameters}
        try:
            with self._lock:
                renewed: dict[type, Any] = {}
                for prefix, cls in self._classes:
                    own = {
                        field.name: values[_join(prefix, field.name)]
                        for field in _fields(cls)
                        if _join(prefix, field.name) in values
                    }
                    if own:
                        renewed[cls] = load_settings(cls, {**dataclasses.asdict(self._current[cls]), **own})
                self._current = {**self._current, **renewed}
        except SettingsError as error:
            return SetParametersResult(successful=False, reason=str(error))
        if renewed:
            self._changed()
        return SetParametersResult(successful=True)


def describe(field: dataclasses.Field[Any], hint: Any, *, read_only: bool) -> ParameterDescriptor:
    """The ROS description of a setting: its help, and its range or choices."""
    low, high, choices = (field.metadata.get(name) for name in ("low", "high", "choices"))
    descriptor = ParameterDescriptor(
        description=field.metadata.get("help", ""),
        additional_constraints=f"one of {', '.join(map(str, choices))}" if choices else "",
        read_only=read_only,
        # A whole number is as good as a number with a point, and what has no default has no type yet: settings.py
        # converts and checks both.
        dynamic_typing=hint is float or field.default is None,
    )
    if hint is float and (low is not None or high is not None):
        bounds = FloatingPointRange(
            from_value=-_UNBOUNDED if low is None else float(low), to_value=_UNBOUNDED if high is None else float(high)
        )
        descriptor.floating_point_range = [bounds]
    if hint is int and (low is not None or high is not None):
        limits = IntegerRange(
            from_value=-int(_UNBOUNDED) if low is None else int(low),
            to_value=int(_UNBOUNDED) if high is None else int(high),
            step=1,
        )
        descriptor.integer_range = [limits]
    return descriptor


def _refuse_unknown(node: str, given: Collection[str], valid: Collection[str]) -> None:
    """A typo in a parameters file would otherwise fly at the default."""
    for name in sorted(given):
        if name not in valid and not name.startswith(_OF_ROS):
            raise SettingsError(
                f"unknown parameter '{name}' of {node}; {nearest_name(name, valid)} "
                "(what belongs to another node stands under its name in the file, such as /**/learner)"
            )


def _fields(cls: type) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cls)


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
