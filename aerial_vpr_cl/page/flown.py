"""Flights flown again through the tracker of a store, as the report page shows them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.evaluation.store_evaluation import follow
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.localization.estimate import Estimate, Rejection
from aerial_vpr_cl.localization.localizer import Localizer
from aerial_vpr_cl.localization.open_tracker import VIEW_PX, open_tracker
from aerial_vpr_cl.localization.registration import Registration
from aerial_vpr_cl.localization.tracker import Tracker
from aerial_vpr_cl.localization.tracker_settings import TrackerSettings
from aerial_vpr_cl.localization.view import NORTH_UP, View, ViewSettings, make_view
from aerial_vpr_cl.localization.view_pictures import map_beneath, seen_part
from aerial_vpr_cl.mission.frames import Frame
from aerial_vpr_cl.mission.gnss import GnssGates, Track
from aerial_vpr_cl.mission.mission import Flight, read_flight
from aerial_vpr_cl.model.devices import pick_device
from aerial_vpr_cl.model.runtimes.names import AUTO
from aerial_vpr_cl.page.answered import run_of
from aerial_vpr_cl.page.peak_picture import peak_picture
from aerial_vpr_cl.page.runs import FlightRun, Moment, Pictures, known
from aerial_vpr_cl.page.thumbnails import MOST_PICTURES, PICTURE_PX, small_jpeg
from aerial_vpr_cl.progress import Progress, silent
from aerial_vpr_cl.satellite.raster import SatelliteMap


class Pilot:
    """Flies bags again over a store, with its newest generation."""

    def __init__(
        self,
        store: Path,
        settings: TrackerSettings | None = None,
        device: str = "auto",
        runtime: str = AUTO,
        progress: Progress = silent,
    ) -> None:
        self._folder = open_map(store)
        self._progress = progress
        self._laid = _Laid()
        localizer = Localizer.open(store, device=pick_device(device), runtime=runtime)
        self._tracker = open_tracker(store, settings, localizer=localizer, progress=progress, watch=self._laid.note)

    def fly(self, bag: Path) -> FlightRun:
        """One flight, from a cold start, with every moment noted and pictures of some."""
        folder = self._folder
        flight = read_flight(bag, folder.grid, terrain=folder.terrain)
        watcher = _Watcher(self._tracker, self._laid, flight, folder.satellite, folder.settings.footprint_m)
        answers = follow(self._tracker, flight, self._progress, watcher.note)
        return run_of(answers, watcher.moments, watcher.pictures)


@dataclass
class _Laid:
    """What the tracker laid on the map last, since it was asked."""

    view: View | None = None
    registration: Registration | None = None

    def note(self, view: View, registration: Registration) -> None:
        self.view, self.registration = view, registration

    def take(self) -> tuple[View | None, Registration | None]:
        found = self.view, self.registration
        self.view = self.registration = None
        return found


class _Watcher:
    """Notes every moment of one flight, and pictures of some."""

    def __init__(
        self, tracker: Tracker, laid: _Laid, flight: Flight, satellite: SatelliteMap, footprint_m: float
    ) -> None:
        self._laid = laid
        self._satellite = satellite
        self._views = ViewSettings(NORTH_UP, footprint_m, VIEW_PX)
        self._every = max(1, math.ceil(len(flight) / MOST_PICTURES))
        self._has_truth = flight.positions_from == "truth"
        self._gnss, _ = Track(flight.fixes, GnssGates(), tracker.grid.projection).at(flight.stamps_ns)
        self.moments: list[Moment] = []
        self.pictures: list[Pictures] = []

    def note(self, row: int, frame: Frame, answer: Estimate | Rejection, seconds: float) -> None:
        """One more frame and its answer."""
        given = answer if isinstance(answer, Estimate) else None
        view, registration = self._laid.take()
        peak = registration.peak if registration is not None else None
        self.moments.append(
            Moment(
                stamp_ns=frame.stamp_ns,
                state=answer.state,
                reason=answer.reason if isinstance(answer, Rejection) else "",
                position=given.position if given else None,
                covariance=given.covariance if given else None,
                truth=known(frame.position) if self._has_truth else None,
                gnss=known(self._gnss[row]),
                z=peak.z if peak is not None else math.nan,
                confidence=answer.confidence,
                latency_ms=1000.0 * seconds,
            )
        )
        if row % self._every == 0:
            self.pictures.append(self._take(row, frame, view, registration, given.position if given else None))

    def _take(
        self,
        row: int,
        frame: Frame,
        view: View | None,
        registration: Registration | None,
        position: NDArray[np.float64] | None,
    ) -> Pictures:
        """The frame, its view as it was laid, the map where it is said to lie, and how well it fitted where."""
        image = frame.decode()
        made = view or make_view(image, frame.situation, self._views)
        seen = there = peak = b""
        searched_m = math.nan
        if isinstance(made, View):
            seen = small_jpeg(seen_part(made))
            if position is not None:
                there = small_jpeg(map_beneath(made, position, self._satellite, PICTURE_PX))
        if registration is not None and registration.surfaces:
            picture, searched_m = peak_picture(registration, PICTURE_PX)
            peak = small_jpeg(picture)
        return Pictures(row, small_jpeg(image), seen, there, peak, searched_m)
