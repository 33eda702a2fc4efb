"""A store's newest generation on recorded missions: position errors frame by frame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.localization.estimate import Rejection
from aerial_vpr_cl.localization.localizer import Localizer, LocalizerSettings
from aerial_vpr_cl.mission.mission import read_for_test
from aerial_vpr_cl.model.devices import pick_device
from aerial_vpr_cl.progress import Progress, silent

ALWAYS = LocalizerSettings(min_confidence=0.0)
"""Every frame is answered: how well confidence tells right from wrong is another question."""


@dataclass(frozen=True)
class MissionErrors:
    """Errors of one bag; `positions` says what they were measured against: truth or gnss."""

    name: str
    modality: str
    positions: str
    stamps_ns: tuple[int, ...]
    errors_m: tuple[float, ...]
    refused: dict[str, int]  # frames without a known position, by reason
    silent: dict[str, int]  # frames without an answer, by reason

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "name": self.name,
            "modality": self.modality,
            "positions": self.positions,
            "stamps_ns": list(self.stamps_ns),
            "errors_m": [round(error, 2) for error in self.errors_m],
            "refused": self.refused,
            "silent": self.silent,
        }


def evaluate_store(
    store: Path,
    bags: Sequence[Path],
    *,
    device: str = "auto",
    image_topic: str | None = None,
    fix_topic: str | None = None,
    progress: Progress = silent,
) -> tuple[int, list[MissionErrors]]:
    """Number of the newest generation, and its errors on every bag."""
    localizer = Localizer.open(store, device=pick_device(device))
    assert localizer.generation is not None
    terrain, found = open_map(store).terrain, []
    for bag in bags:
        mission, positions = read_for_test(
            bag, localizer.grid, image_topic=image_topic, fix_topic=fix_topic, terrain=terrain
        )
        stamps, errors, unanswered = [], [], Counter[str]()
        for done, frame in enumerate(mission.frames, start=1):
            answer = localizer.localize(frame.decode(), ALWAYS, frame.situation)
            if isinstance(answer, Rejection):
                unanswered[answer.reason] += 1
            else:
                stamps.append(frame.stamp_ns)
                errors.append(float(np.hypot(*(answer.position - frame.position))))
            progress(f"evaluating {mission.name}", done, len(mission.frames))
        found.append(
            MissionErrors(
                mission.name,
                mission.modality,
                positions,
                tuple(stamps),
                tuple(errors),
                mission.refused,
                dict(unanswered),
            )
        )
    return localizer.generation.number, found
