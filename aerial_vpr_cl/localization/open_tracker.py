"""A tracker over the map of a store, with the network of its newest generation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from aerial_vpr_cl.knowledge.map_folder import MapFolder, open_map
from aerial_vpr_cl.localization.estimate import Rejection
from aerial_vpr_cl.localization.lattice import Bounds
from aerial_vpr_cl.localization.localizer import Localizer
from aerial_vpr_cl.localization.orientation_file import open_orientation
from aerial_vpr_cl.localization.proposal import Image, Proposal, Propose, Register
from aerial_vpr_cl.localization.registration import Registration, RegistrationSettings, register
from aerial_vpr_cl.localization.tracker import Tracker
from aerial_vpr_cl.localization.tracker_settings import TrackerSettings
from aerial_vpr_cl.localization.view import NORTH_UP, View, ViewSettings
from aerial_vpr_cl.mission.situation import Situation
from aerial_vpr_cl.progress import Progress, silent

VIEW_PX = 224
"""Pixels across a view that is laid on the map: finer than any level of its channel that a footprint needs."""

WatchRegistration = Callable[[View, Registration], object]
"""Sees every view that is laid on the map, and what that said."""


def open_tracker(
    store: Path,
    settings: TrackerSettings | None = None,
    *,
    device: torch.device | str = "cpu",
    localizer: Localizer | None = None,
    progress: Progress = silent,
    watch: WatchRegistration | None = None,
) -> Tracker:
    """A tracker as the settings have it; parts that are switched off need not be there.

    `localizer` is one that is open already; else the store's newest generation is opened.
    """
    settings = settings or TrackerSettings()
    if settings.use_network and localizer is None:
        localizer = Localizer.open(store, device=device)
    propose = proposing(localizer) if localizer is not None else None
    return tracker_over(open_map(store), settings, propose=propose, progress=progress, watch=watch)


def tracker_over(
    folder: MapFolder,
    settings: TrackerSettings | None = None,
    *,
    propose: Propose | None = None,
    progress: Progress = silent,
    watch: WatchRegistration | None = None,
) -> Tracker:
    """A tracker over a map that is open."""
    settings = settings or TrackerSettings()
    lay = registering(folder, settings, progress) if settings.use_registration else None
    return Tracker(
        folder.grid,
        ViewSettings(NORTH_UP, folder.settings.footprint_m, VIEW_PX),
        register=watched(lay, watch) if lay is not None and watch is not None else lay,
        propose=propose,
        settings=settings,
    )


def registering(folder: MapFolder, settings: TrackerSettings | None = None, progress: Progress = silent) -> Register:
    """Lay views on the map of this folder.

    In flight only the ground under the drone is read: holding a large raster in memory would first decode all of it.
    """
    orientation = open_orientation(replace(folder, memory_budget_mb=0), progress)
    asked = RegistrationSettings(read_tilt=(settings or TrackerSettings()).use_perspective)

    def lay(view: View, where: list[Bounds] | None) -> Registration:
        return register(view, orientation, where, asked)

    return lay


def watched(register: Register, watch: WatchRegistration) -> Register:
    """The same, and somebody looks on."""

    def lay(view: View, where: list[Bounds] | None) -> Registration:
        registration = register(view, where)
        watch(view, registration)
        return registration

    return lay


def proposing(localizer: Localizer) -> Propose:
    """Ask this network."""

    def ask(image: Image, situation: Situation) -> Proposal | None:
        view = localizer.view_of(image, situation)
        if isinstance(view, Rejection):
            return None
        return Proposal(localizer.cells(view).probabilities, view.offset_m)

    return ask
