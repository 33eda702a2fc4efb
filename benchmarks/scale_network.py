"""What scale.py measures of a network: stages as functions of a country, the folder of its store and its training."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scale_first_fix import AUTUMN, fly
from scale_map import median_ms
from scale_world import Country, Training

from aerial_vpr_cl.knowledge.draft import TAIL_FILE
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.learning.adapt import adapt as learn
from aerial_vpr_cl.learning.adapt_settings import AdaptSettings
from aerial_vpr_cl.learning.base_training import train_base
from aerial_vpr_cl.learning.base_training_settings import BaseTrainingSettings
from aerial_vpr_cl.localization.localizer import Localizer

ADAPTED_FRAMES = 40


def train(country: Country, folder: Path, training: Training) -> dict[str, Any]:
    """Base training for so many steps, or until it knows its own date."""
    moments: list[float] = []

    def note(phase: str, done: int, total: int, **figures: float) -> None:
        if phase == "train":
            moments.append(time.process_time())

    settings = BaseTrainingSettings(
        backbone="tf_efficientnet_lite0",
        max_steps=training.steps,
        begin_with=training.begin_with,
        imprint=training.imprint,
        good_recall=0.95,
        patience=100,
        exemplar_candidates=12,
    )
    start = time.process_time()
    generation = train_base(folder, settings, note)
    assert generation is not None
    return {
        "steps": len(moments) - 1,
        "step_s": float(np.median(np.diff(moments))),
        "until_first_step_s": moments[0] - start,
        "begun_with_another_map": training.begin_with is not None,
        "recall": generation.facts.held_out_recall,
        "generation_mb": sum(file.stat().st_size for file in generation.path.iterdir()) / 1e6,
    }


def query(country: Country, folder: Path, training: Training) -> dict[str, Any]:
    """From a cold start to an answer, and what network and heads take of one."""
    start = time.process_time()
    localizer = Localizer.open(folder)
    localizer.warm_up()
    opened_s = time.process_time() - start
    network, side = localizer.network, localizer.network.input_size
    image = np.random.default_rng(0).integers(0, 256, (1, side, side, 3), np.uint8)
    with torch.inference_mode():
        tensor = network.preprocess(image)
        features = network.features(tensor)
        return {
            "open_s": opened_s,
            "features_ms": median_ms(lambda: network.features(tensor)),
            "heads_ms": median_ms(lambda: network.heads.cosines(features)),
            "estimate_ms": median_ms(lambda: localizer.estimator.estimate(np.ones(localizer.grid.n_classes))),
            "heads_mb": sum(weight.numel() for weight in network.heads.weights) * 4 / 1e6,
        }


def adapt(country: Country, folder: Path, training: Training) -> dict[str, Any]:
    """A mission learnt with two passes."""
    bag = folder / "missions" / "autumn"
    fly(country, country.upright[-1], replace(AUTUMN, frames=ADAPTED_FRAMES), bag)
    start = time.process_time()
    (report,) = learn(folder, [bag], AdaptSettings(cycles=2, gate_margin=1.0, labels="gnss"))
    newest = GenerationStore(folder).newest()
    return {
        "adapt_s": time.process_time() - start,
        "frames": report.frames,
        "committed": report.committed,
        "tail_mb": (newest.path / TAIL_FILE).stat().st_size / 1e6,
    }
