"""Recipes: how each backbone family is trained. The paper's is DINOv2's; the embedded one is what measured best."""

from __future__ import annotations

from dataclasses import dataclass

from aerial_vpr_cl.learning.augmentation import PAPER, PHOTOMETRIC, Augmentation


@dataclass(frozen=True)
class Recipe:
    """Numbers of the optimisation that belong to a backbone, not to a mission."""

    tail_rate: float  # Adam's learning rate for tail and aggregation, in base training
    head_rate: float  # Adam's learning rate for each head, in base training
    mission_tail_rate: float  # the same while a mission is learnt
    mission_head_rate: float
    scale: float  # logit scale s of the angular-margin heads
    margin: float  # angular margin m, radians
    batch: int  # patches a step of base training
    augmentation: Augmentation  # of satellite patches in base training
    mission_augmentation: Augmentation  # of all views while a mission is learnt
    zoom: tuple[float, float] = (1.0, 1.0)  # factor of the footprint of satellite patches, for altitudes not flown yet
    jitter: bool = False  # read satellite patches between the places and headings of the lattice, too


PAPER_RECIPE = Recipe(
    tail_rate=1e-5,
    head_rate=1e-3,
    mission_tail_rate=1e-5,
    mission_head_rate=1e-3,
    scale=100.0,
    margin=0.2,
    batch=40,
    augmentation=PAPER,
    mission_augmentation=PAPER,
)
EMBEDDED_RECIPE = Recipe(
    tail_rate=3e-4,
    head_rate=3e-3,
    # A mission flies over a few cells: at the rates of base training it drew the rest of the map towards them.
    mission_tail_rate=1e-4,
    mission_head_rate=1e-3,
    scale=30.0,
    margin=0.2,
    batch=64,
    augmentation=PHOTOMETRIC,
    mission_augmentation=PHOTOMETRIC,
    zoom=(0.8, 1.35),
    jitter=True,
)


def recipe_of(backbone: str) -> Recipe:
    """The recipe of a backbone by its timm name."""
    return EMBEDDED_RECIPE if "efficientnet_lite" in backbone else PAPER_RECIPE
