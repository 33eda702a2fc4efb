"""Continual-learning methods by name: one short file each."""

from __future__ import annotations

from collections.abc import Callable

from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.learning.methods.base import Method
from aerial_vpr_cl.learning.methods.derpp import DarkExperienceReplay
from aerial_vpr_cl.learning.methods.er import ExperienceReplay
from aerial_vpr_cl.learning.methods.fine_tuning import FineTuning, FineTuningWithExemplars
from aerial_vpr_cl.learning.methods.icarl import IncrementalClassifier
from aerial_vpr_cl.learning.methods.lwf import LearningWithoutForgetting
from aerial_vpr_cl.learning.methods.replay import Replay
from aerial_vpr_cl.learning.methods.udil import UnifiedDomainIncremental
from aerial_vpr_cl.memory.strategies import STRATEGIES

METHODS: dict[str, Callable[[], Method]] = {
    "ft": FineTuning,
    "lwf": LearningWithoutForgetting,
    "ft_ex": FineTuningWithExemplars,
    "er": ExperienceReplay,
    "derpp": DarkExperienceReplay,
    "icarl": IncrementalClassifier,
    "udil": UnifiedDomainIncremental,
}
"""Methods with losses or memories of their own. Beside them the name of any selection strategy is a method."""


def method_of(name: str) -> Method:
    """A fresh method by name; the name of a selection strategy gives replay with that strategy."""
    if name in METHODS:
        return METHODS[name]()
    if name in STRATEGIES:
        return Replay(name)
    raise SettingsError(f"unknown method '{name}'; valid names: {', '.join([*METHODS, *STRATEGIES])}")
