"""Methods by name and what can be set about each, without PyTorch, so that a node can refuse a typing error at start.

Wherever a method is named, in a YAML file, on the command line, as a node's parameter or in a benchmark's study, its
options may follow: `derpp+logit_weight=0.3`, `dbs_hybrid+trim_ratio=0.1+exemplar_weight=2`.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

import yaml

from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.memory.strategies import STRATEGIES, SelectionSettings
from aerial_vpr_cl.settings import load_settings, setting

AUTO = "auto"
AS_SEEN_METHOD, NORTH_UP_METHOD = "turned", "anchored"
"""What `auto` stands for. A base model north up knows most looks already, and what a mission teaches it of a few cells
costs the others: over the ten missions of naip_nd DBS-Hybrid, the paper's method, loses three points on those not yet
learnt, anchored hardly any. Where frames are taken as seen turned gains most on them, and forgets little.
"""


@dataclass(frozen=True)
class MethodOptions:
    """Nothing to set: FT has the current mission alone."""


@dataclass(frozen=True)
class ExemplarOptions(MethodOptions):
    """Of methods that see the satellite exemplars."""

    exemplar_weight: float = setting(1.0, "λ_EX, weight of the loss on satellite exemplars", low=0.0)


@dataclass(frozen=True)
class ReplayOptions(MethodOptions):
    """Of methods that see the replay buffer."""

    replay_weight: float = setting(1.0, "λ_ER, weight of the loss on replayed frames", low=0.0)


@dataclass(frozen=True)
class MemoryOptions(ReplayOptions, ExemplarOptions):
    """Of the paper's framework: both memories."""


@dataclass(frozen=True)
class DiversityOptions(MemoryOptions):
    """Of strategies that choose by redundancy."""

    prototype_weight: float = setting(1.0, "λ of Eq. 4, weight of prototype similarity in the redundancy", low=0.0)


@dataclass(frozen=True)
class HybridOptions(MemoryOptions):
    """Of the Hybrid allocation."""

    trim_ratio: float = setting(0.05, "ρ of Eq. 10, share of each cell that is trimmed", low=0.0, high=1.0)


@dataclass(frozen=True)
class AnchoredOptions(HybridOptions):
    """Of anchored replay."""

    anchor: float = setting(0.5, "share of the weights before a mission in those after it", low=0.0, high=1.0)
    logit_weight: float = setting(0.0, "weight of the squared distance to stored logits, as in DER++", low=0.0)
    matched: float = setting(
        0.0, "share of the exemplars that are shown in the colours of flown frames, drawn at random", low=0.0, high=1.0
    )


@dataclass(frozen=True)
class TurnedOptions(AnchoredOptions):
    """Of anchored replay of turned frames: they have more to learn, so less is drawn back."""

    anchor: float = setting(0.3, "share of the weights before a mission in those after it", low=0.0, high=1.0)
    matched: float = setting(
        0.5, "share of the exemplars that are shown in the colours of flown frames, drawn at random", low=0.0, high=1.0
    )


@dataclass(frozen=True)
class LwfOptions(MethodOptions):
    """Of DIL-LwF."""

    distillation_weight: float = setting(0.5, "λ_LwF, weight of the distillation, summed over earlier heads", low=0.0)
    temperature: float = setting(2.0, "T of the distillation", low=0.1)


@dataclass(frozen=True)
class DerppOptions(MethodOptions):
    """Of DIL-DER++."""

    logit_weight: float = setting(0.5, "β_DER, weight of the squared distance of logits, at the paper's s", low=0.0)


@dataclass(frozen=True)
class IcarlOptions(MemoryOptions):
    """Of DIL-iCaRL."""

    distillation_weight: float = setting(1.0, "weight of the distillation, the mean over all heads", low=0.0)
    temperature: float = setting(2.0, "T of the distillation", low=0.1)


@dataclass(frozen=True)
class UdilOptions(MethodOptions):
    """Of UDIL (adapted)."""

    temperature: float = setting(2.0, "T of the distillation", low=0.1)
    distillation_limit: float = setting(2.0, "distillation on current and exemplar samples counts below this", low=0.0)
    alignment_weight: float = setting(0.1, "weight of the alignment of missions", low=0.0)
    stability_weight: float = setting(10.0, "weight of what the features of replayed frames have moved", low=0.0)
    bound_weight: float = setting(5.0, "C, weight of the generalisation bound's spread", low=0.0)
    contrast_weight: float = setting(0.1, "weight of the supervised contrast", low=0.0)
    contrast_temperature: float = setting(0.07, "temperature of the supervised contrast", low=1e-3)
    discriminator_rate: float | None = setting(
        None, "learning rate of the discriminator; unset: that of the tail, to which it is equal in the paper", low=0.0
    )
    coefficient_rate: float = setting(2e-3, "learning rate of the weights α, β and γ", low=0.0)


OPTIONS: dict[str, type[MethodOptions]] = {
    "ft": MethodOptions,
    "lwf": LwfOptions,
    "ft_ex": ExemplarOptions,
    "er": ReplayOptions,
    "derpp": DerppOptions,
    "icarl": IcarlOptions,
    "udil": UdilOptions,
    "anchored": AnchoredOptions,
    "turned": TurnedOptions,
    **dict.fromkeys(STRATEGIES, MemoryOptions),
    **dict.fromkeys(("dbs", "global_dbs", "round_robin_dbs"), DiversityOptions),
    **dict.fromkeys(("dbs_hybrid", "lbs_hybrid"), HybridOptions),
}
"""Method → what can be set. The name of any selection strategy is a method: replay with that strategy."""


def parse_method(text: str) -> tuple[str, MethodOptions]:
    """Name and options of a method written as NAME+OPTION=VALUE+...; SettingsError names the nearest valid ones."""
    name, *given = text.split("+")
    if name not in OPTIONS:
        near = difflib.get_close_matches(name, OPTIONS, n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise SettingsError(f"unknown method '{name}'; {hint}valid names: {', '.join(OPTIONS)}")
    values = {}
    for part in given:
        option, equals, value = part.partition("=")
        if not equals:
            raise SettingsError(f"method '{text}': '{part}' has no value; write {name}+OPTION=VALUE")
        values[option] = value
    try:
        return name, load_settings(OPTIONS[name], {option: yaml.safe_load(value) for option, value in values.items()})
    except yaml.YAMLError:
        raise SettingsError(f"method '{text}': a value cannot be read; write {name}+OPTION=VALUE") from None
    except SettingsError as error:
        raise SettingsError(f"method '{text}': {str(error).removeprefix('settings: ')}") from None


def check_method(text: str) -> None:
    """Raise SettingsError unless this names a method, and options that it has, or leaves the choice to `auto`."""
    if text != AUTO:
        parse_method(text)


def chosen_method(text: str, *, north_up: bool) -> str:
    """The method that is meant by a text: `auto` depends on the kind of view."""
    if text != AUTO:
        return text
    return NORTH_UP_METHOD if north_up else AS_SEEN_METHOD


def selection_settings(options: MethodOptions) -> SelectionSettings:
    """What the options say about the selection; the paper's values where they say nothing."""
    names = ("prototype_weight", "trim_ratio")
    return SelectionSettings(**{name: getattr(options, name) for name in names if hasattr(options, name)})
