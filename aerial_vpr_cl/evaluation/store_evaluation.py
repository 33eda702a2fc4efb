"""A store's newest generation on recorded missions: position errors frame by frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from aerial_vpr_cl.evaluation.metrics import distance_errors
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.knowledge.networks import network_of
from aerial_vpr_cl.mission.mission import read_for_test
from aerial_vpr_cl.model.devices import pick_device
from aerial_vpr_cl.progress import Progress, silent

BATCH = 32


@dataclass(frozen=True)
class MissionErrors:
    """Errors of one bag; `positions` says what they were measured against: truth or gnss."""

    name: str
    modality: str
    positions: str
    stamps_ns: tuple[int, ...]
    errors_m: tuple[float, ...]
    refused: dict[str, int]  # frames without a known position, by reason

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "name": self.name,
            "modality": self.modality,
            "positions": self.positions,
            "stamps_ns": list(self.stamps_ns),
            "errors_m": [round(error, 2) for error in self.errors_m],
            "refused": self.refused,
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
    folder = open_map(store)
    generation = GenerationStore(store).newest(grid_hash=folder.grid.hash)
    network = network_of(folder, generation, device=pick_device(device))
    found = []
    for bag in bags:
        mission, positions = read_for_test(bag, folder.grid, image_topic=image_topic, fix_topic=fix_topic)
        predicted = []
        with torch.inference_mode():
            for start in range(0, len(mission.frames), BATCH):
                part = mission.frames[start : start + BATCH]
                scores = network.scores(network.preprocess([frame.decode() for frame in part]))
                predicted += scores.argmax(dim=1).tolist()
                progress(f"evaluating {mission.name}", len(predicted), len(mission.frames))
        errors = distance_errors(folder.grid.centres[predicted], mission.positions)
        found.append(
            MissionErrors(
                mission.name,
                mission.modality,
                positions,
                tuple(mission.stamps_ns.tolist()),
                tuple(errors.tolist()),
                mission.refused,
            )
        )
    return generation.number, found
