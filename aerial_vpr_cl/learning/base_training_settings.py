"""Settings of base training; what is left unset follows the backbone's recipe."""

from __future__ import annotations

from dataclasses import dataclass

from aerial_vpr_cl.learning.augmentation import AUGMENTATIONS
from aerial_vpr_cl.model.aggregation import AGGREGATIONS, SaladSettings
from aerial_vpr_cl.model.network import AUTO
from aerial_vpr_cl.settings import setting

WHEN_TO_STOP = {
    "max_steps",
    "patience",
    "good_recall",
    "exemplars",
    "exemplar_candidates",
    "carry_pixels",
    "device",
    "readers",
}
"""Settings that may change between an interrupted run and its continuation: they do not change the steps themselves."""


@dataclass(frozen=True)
class BaseTrainingSettings:
    """How generation 0 is trained; what is left unset follows the backbone's recipe."""

    backbone: str = setting("auto", "timm name; auto: DINOv2 ViT-B/14 with a GPU, EfficientNet-Lite0 without")
    weights: str | None = setting(
        None, "file with pretrained weights (.safetensors, .pth); unset: where the backbone finds its own"
    )
    aggregation: str = setting(
        AUTO,
        "pooling of patch features: gem (the paper's), salad, or quarters: GeM of each quarter of the view, four times "
        f"as many numbers a cell; {AUTO}: quarters north up, gem as seen",
        choices=(AUTO, *AGGREGATIONS),
    )
    salad: SaladSettings = setting(SaladSettings(), "sizes of SALAD; small feature maps need fewer clusters")
    input_size: int | None = setting(None, "side of the network's input, pixels; unset: the backbone's default")
    living_blocks: int | None = setting(
        None, "last blocks of the backbone that learn, the others are frozen for life; unset: the recipe", low=1
    )
    batch: int | None = setting(None, "patches a step, over all processes; unset: the recipe", low=1)
    tail_rate: float | None = setting(None, "learning rate of the tail; unset: the recipe", low=1e-12)
    head_rate: float | None = setting(None, "learning rate of the heads; unset: the recipe", low=1e-12)
    augmentation: str | None = setting(
        None,
        "how much the look of patches is changed: not (crop), brightness and colour (photometric), or also tones, "
        "channels, texture, fields and shading (style); unset: the recipe",
        choices=tuple(AUGMENTATIONS),
    )
    imprint: int | None = setting(
        None,
        "views of each cell as whose mean feature its classifier begins; 0: at random, as in the paper; unset: the "
        "recipe",
        low=0,
    )
    begin_with: str | None = setting(
        None,
        "store of another map whose network has learnt to look past season and sensor: training begins with its tail "
        "and needs few steps; unset: with the pretrained weights",
    )
    plateau_cycles: int = setting(3, "cycles without a lower loss that are borne before a rate is halved", low=0)
    epoch_steps: int = setting(10, "steps of an epoch; each epoch trains one group", low=1)
    max_steps: int = setting(1200, "most steps; training stops earlier when it no longer improves", low=1)
    patience: int = setting(8, "cycles over all groups without better recall or loss after which training stops", low=1)
    good_recall: float = setting(
        0.995,
        "recall on held-out views, in other looks if training shows any, that is enough to stop; 2: never",
        low=0.0,
        high=2.0,
    )
    held_out: int = setting(384, "held-out views on which recall and temperature are measured", low=16)
    exemplars: int = setting(12, "satellite exemplars a cell", low=1)
    exemplar_candidates: int = setting(
        24,
        "patches a cell among which herding chooses, each of which passes the network; 0: all; if not more than "
        "exemplars, all are taken and none passes: for maps of thousands of cells",
        low=0,
    )
    carry_pixels: bool = setting(False, "store exemplars as JPEG, for drones that do not carry the raster")
    seed: int = setting(0, "fixes everything that is drawn", low=0)
    device: str = setting("auto", "cpu, cuda, ...; auto takes a GPU if there is one")
    readers: int = setting(2, "threads that read patches ahead", low=1)
