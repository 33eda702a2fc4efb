"""Where base training stands, in one safetensors file that is replaced atomically: a killed run goes on from there."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from aerial_vpr_cl.files import new_file
from aerial_vpr_cl.learning.optimisers import Optimisers
from aerial_vpr_cl.model.network import Network

log = logging.getLogger(__name__)

FORMAT = 2
"""Of the file; 1 had no mean of the weights."""


class TrainingState:
    """Step, best figures, and the values of network, mean and optimisers. Random draws follow from the step."""

    def __init__(self, path: Path, identity: dict[str, Any]) -> None:
        self.path = path
        self.identity = identity
        self.step = 0
        self.best_recall = 0.0
        self.best_loss = float("inf")
        self.stale_cycles = 0

    @staticmethod
    def file_in(store: Path) -> Path:
        """Where the state of a store's base training lies."""
        return store / "training.safetensors"

    @classmethod
    def resume(
        cls, store: Path, network: Network, mean: Network, optimisers: Optimisers, settings: dict[str, Any]
    ) -> TrainingState:
        """Continue the run of the same settings, map and grid, or start at step 0."""
        identity = json.loads(json.dumps({"format": FORMAT, "grid": network.grid.hash, "settings": settings}))
        state = cls(cls.file_in(store), identity)
        if not state.path.exists():
            return state
        try:
            with safe_open(state.path, framework="pt") as file:
                facts = json.loads((file.metadata() or {})["state"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            log.warning("%s: cannot be read (%s); training starts over", state.path, error)
            return state
        if facts["identity"] != identity:
            log.warning("%s: is of other settings, another map or another grid; training starts over", state.path)
            return state
        with torch.no_grad():
            for part, owner in (("net", network), ("mean", mean)):
                for name, own in owner.living_tensors().items():
                    own.copy_(tensors[f"{part}.{name}"])
        optimisers.load(facts["optimisers"], {n[4:]: value for n, value in tensors.items() if n.startswith("opt.")})
        for name in ("step", "best_recall", "best_loss", "stale_cycles"):
            setattr(state, name, facts[name])
        log.warning("%s: training goes on at step %d", state.path, state.step)
        return state

    def note(self, step: int, recall: float, loss: float) -> None:
        """Remember the figures of a cycle and whether anything became better."""
        better = recall > self.best_recall + 0.002 or loss < 0.97 * self.best_loss
        self.stale_cycles = 0 if better else self.stale_cycles + 1
        self.best_recall = max(self.best_recall, recall)
        self.best_loss = min(self.best_loss, loss)
        self.step = step

    def is_done(self, good_recall: float, patience: int) -> bool:
        """Whether training has reached what was asked of it, or no longer improves."""
        return self.step > 0 and (self.best_recall >= good_recall or self.stale_cycles >= patience)

    def save(self, network: Network, mean: Network, optimisers: Optimisers) -> None:
        """Write everything needed to go on."""
        facts, moments = optimisers.state()
        names = ("step", "best_recall", "best_loss", "stale_cycles")
        metadata = {"identity": self.identity, "optimisers": facts, **{name: getattr(self, name) for name in names}}
        tensors = {f"net.{name}": value for name, value in network.living_tensors().items()}
        tensors |= {f"mean.{name}": value for name, value in mean.living_tensors().items()}
        tensors |= {f"opt.{name}": value for name, value in moments.items()}
        plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        with new_file(self.path) as temporary:
            save_file(plain, temporary, metadata={"state": json.dumps(metadata)})
