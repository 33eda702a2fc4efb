"""An image to a position: the network of the newest generation, and what its scores mean on the ground."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.knowledge.draft import Generation
from aerial_vpr_cl.knowledge.engines import engines_of
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.knowledge import network_of
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.localization.estimate import BLANK_IMAGE, LOW_CONFIDENCE, Estimate, Estimator, Rejection
from aerial_vpr_cl.localization.image_faults import is_blank
from aerial_vpr_cl.localization.turned_views import CellAnswer, turned_images, turns_to_try
from aerial_vpr_cl.localization.view import View, ViewSettings, make_view
from aerial_vpr_cl.mission.situation import Motion, Situation
from aerial_vpr_cl.model.network import Network
from aerial_vpr_cl.model.runtimes.choice import Chosen, choose_engine
from aerial_vpr_cl.model.runtimes.engine import TorchEngine
from aerial_vpr_cl.model.runtimes.names import AUTO
from aerial_vpr_cl.settings import setting


@dataclass(frozen=True)
class LocalizerSettings:
    """What is asked of an answer."""

    min_confidence: float = setting(
        0.5,
        "single frames only: least probability of the best cell and its neighbours for a position to be published; "
        "0.5: more likely right than wrong",
        low=0.0,
        high=1.0,
    )
    top_k: int = setting(5, "single frames only: most probable cells that are reported", low=1, high=100)


class Localizer:
    """One generation, ready to answer. Not changed once made: to learn of a newer one, make another with `open`."""

    def __init__(
        self,
        network: Network,
        generation: Generation | None = None,
        *,
        footprint_m: float = ViewSettings.footprint_m,
        chosen: Chosen | None = None,
    ) -> None:
        self.network = network.eval()
        self.generation = generation
        self.engine, self.runtime_problem = chosen or Chosen(TorchEngine(network))
        self._sharpness = float(network.sharpness)
        self.view_settings = ViewSettings(network.settings.view.kind, footprint_m, network.input_size)
        self.estimator = Estimator(network.grid)

    @classmethod
    def open(
        cls,
        store: Path,
        *,
        device: torch.device | str = "cpu",
        runtime: str = AUTO,
        previous: Localizer | None = None,
    ) -> Localizer:
        """Load the newest intact generation of a store; StoreError, MapError or ModelError say what is missing.

        `previous` is the localizer in use: its grid must be the same, and its frozen trunk is shared instead of read.
        """
        folder = open_map(store)
        generation = GenerationStore(store).newest(grid_hash=(previous.grid if previous else folder.grid).hash)
        network = network_of(folder, generation, device=device, previous=previous.network if previous else None)
        chosen = choose_engine(network, runtime, engines_of(store), previous.engine if previous else None)
        return cls(network, generation, footprint_m=folder.settings.footprint_m, chosen=chosen)

    @property
    def grid(self) -> Grid:
        """The ground the answers are about."""
        return self.network.grid

    def warm_up(self) -> None:
        """Answer once for nobody, so that the first frame does not wait for memory and kernels."""
        side = self.network.input_size
        view = self.view_of(np.zeros((side, side, 3), np.uint8))
        assert isinstance(view, View)
        self.cells(view)

    def view_of(self, image: NDArray[np.uint8], situation: Situation | None = None) -> View | Rejection:
        """What the network is to be shown of (H, W, 3) uint8 RGB of any size, by what is known of it."""
        return make_view(image, situation or Situation(), self.view_settings)

    @torch.inference_mode()
    def cells(self, view: View) -> CellAnswer:
        """Calibrated probabilities of the cells; where the heading is unknown, of turns and cells, in one batch."""
        turns, priors = turns_to_try(view.heading_sigma_deg, self.network.settings.view)
        scores = torch.from_numpy(self.engine.scores(turned_images(view, turns)))
        # As if each turn had cells of its own: one softmax over all of them, weighted by what was known before.
        logits = scores * self._sharpness + torch.log(torch.as_tensor(priors, dtype=scores.dtype))[:, None]
        joint = torch.softmax(logits.flatten(), dim=0).reshape(scores.shape)
        return CellAnswer(turns, joint.numpy())

    def localize(
        self,
        image: NDArray[np.uint8],
        settings: LocalizerSettings | None = None,
        situation: Situation | None = None,
    ) -> Estimate | Rejection:
        """Where (H, W, 3) uint8 RGB was taken, or why that cannot be said."""
        settings = settings or LocalizerSettings()
        if is_blank(image):
            return Rejection(BLANK_IMAGE)
        view = self.view_of(image, situation)
        if isinstance(view, Rejection):
            return view
        answer = self.cells(view)
        estimate = answer_of(answer.probabilities, self.estimator, settings)
        if isinstance(estimate, Rejection):
            return estimate
        return estimate.seen_from(view.offset_m, answer.turn_of(estimate.cell), view.offset_sigma_m)


def answer_of(
    probabilities: NDArray[np.floating], estimator: Estimator, settings: LocalizerSettings
) -> Estimate | Rejection:
    """(C,) probabilities of the cells to the cell's centre, or to a refusal: the one way from network to answer."""
    estimate = estimator.estimate(probabilities, settings.top_k)
    if isinstance(estimate, Estimate) and estimate.confidence < settings.min_confidence:
        return Rejection(LOW_CONFIDENCE, estimate.confidence)
    return estimate


class SingleFrames:
    """Every frame answered alone by the network, as in the paper: a tracker that remembers nothing."""

    def __init__(self, localizer: Localizer, settings: LocalizerSettings | None = None) -> None:
        self._localizer = localizer
        self._settings = settings

    @property
    def grid(self) -> Grid:
        """The ground the answers are about."""
        return self._localizer.grid

    def reset(self) -> None:
        """There is nothing to forget."""

    def step(
        self, stamp_ns: int, image: NDArray[np.uint8], situation: Situation, motion: Motion | None = None
    ) -> Estimate | Rejection:
        """Where an image was taken, whatever came before it."""
        return self._localizer.localize(image, self._settings, situation)
