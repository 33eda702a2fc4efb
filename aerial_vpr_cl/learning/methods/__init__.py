"""Continual-learning methods by name: one short file each. Their options are in method_options.py."""

from __future__ import annotations

from aerial_vpr_cl.learning.method_options import parse_method
from aerial_vpr_cl.learning.methods.anchored import AnchoredReplay, TurnedReplay
from aerial_vpr_cl.learning.methods.base import Method
from aerial_vpr_cl.learning.methods.derpp import DarkExperienceReplay
from aerial_vpr_cl.learning.methods.fine_tuning import FineTuning, FineTuningWithExemplars
from aerial_vpr_cl.learning.methods.icarl import IncrementalClassifier
from aerial_vpr_cl.learning.methods.lwf import LearningWithoutForgetting
from aerial_vpr_cl.learning.methods.replay import ExperienceReplay, Replay
from aerial_vpr_cl.learning.methods.udil import UnifiedDomainIncremental

METHODS: dict[str, type[Method]] = {
    "ft": FineTuning,
    "lwf": LearningWithoutForgetting,
    "ft_ex": FineTuningWithExemplars,
    "er": ExperienceReplay,
    "derpp": DarkExperienceReplay,
    "icarl": IncrementalClassifier,
    "udil": UnifiedDomainIncremental,
    "anchored": AnchoredReplay,
    "turned": TurnedReplay,
}
"""Methods with losses or memories of their own. Beside them the name of any selection strategy is a method."""


def method_of(text: str) -> Method:
    """A fresh method by name, with its options if they follow: NAME+OPTION=VALUE."""
    name, options = parse_method(text)
    return METHODS[name](options) if name in METHODS else Replay(options, name)
