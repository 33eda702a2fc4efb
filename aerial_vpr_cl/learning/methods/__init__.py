"""Continual-learning methods by name: one short file each."""

from __future__ import annotations

from collections.abc import Callable

from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.learning.methods.base import Method
from aerial_vpr_cl.learning.methods.fine_tuning import FineTuning, FineTuningWithExemplars
from aerial_vpr_cl.learning.methods.replay import Replay
from aerial_vpr_cl.memory.strategies import STRATEGIES

METHODS: dict[str, Callable[[], Method]] = {
    "ft": FineTuning,
    "ft_ex": FineTuningWithExemplars,
}


def method_of(name: str) -> Method:
    """A fresh method by name; the name of a selection strategy gives replay with that strategy."""
    if name in METHODS:
        return METHODS[name]()
    if name in STRATEGIES:
        return Replay(name)
    raise SettingsError(f"unknown method '{name}'; valid names: {', '.join([*METHODS, *STRATEGIES])}")
