"""Flights flown again through the tracker of a store, as the report page shows them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.evaluation.flight_score import FlightAnswers, FlightScore, score
from aerial_vpr_cl.evaluation.store_evaluation import follow
from aerial_vpr_cl.images import encode_jpeg
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.localization.estimate import REASONS, Estimate, Rejection
from aerial_vpr_cl.localization.localizer import Localizer
from aerial_vpr_cl.localization.open_tracker import VIEW_PX, open_tracker
from aerial_vpr_cl.localization.tracker import Tracker
from aerial_vpr_cl.localization.tracker_settings import TrackerSettings
from aerial_vpr_cl.localization.view import NORTH_UP, View, ViewSettings, make_view
from aerial_vpr_cl.mission.frames import Frame
from aerial_vpr_cl.mission.gnss import GnssGates, Track
from aerial_vpr_cl.mission.mission import Flight, read_flight
from aerial_vpr_cl.model.devices import pick_device
from aerial_vpr_cl.model.runtimes.engine import AUTO
from aerial_vpr_cl.page.flight_page import FlightRun, Ground, Moment, Pictures
from aerial_vpr_cl.progress import Progress, silent
from aerial_vpr_cl.satellite.raster import SatelliteMap

MOST_PICTURES = 80
"""Frames of a flight that are shown; of a longer flight they are spread evenly."""
PICTURE_PX = 200
JPEG_QUALITY = 70
MAP_PX = 1600


def fly_again(
    store: Path,
    bags: Sequence[Path],
    *,
    settings: TrackerSettings | None = None,
    device: str = "auto",
    runtime: str = AUTO,
    progress: Progress = silent,
) -> tuple[Ground, list[FlightRun]]:
    """The map of a store, and flights over it as its newest generation answers them."""
    folder = open_map(store)
    localizer = Localizer.open(store, device=pick_device(device), runtime=runtime)
    tracker = open_tracker(store, settings, localizer=localizer, progress=progress)
    runs = []
    for bag in bags:
        flight = read_flight(bag, folder.grid, terrain=folder.terrain)
        runs.append(_Watcher(tracker, flight, folder.satellite, folder.settings.footprint_m).run(progress))
    return Ground(folder.satellite.overview(MAP_PX), folder.satellite.bounds), runs


def learning_lines(store: Path) -> list[str]:
    """What the generations of a store were told to their operator when they were learnt, oldest first."""
    kept = GenerationStore(store)
    reports = [kept.open(number).facts.report for number in kept.numbers()]
    return [report.summary() for report in reports if report is not None]


class _Watcher:
    """Notes every moment of one flight, and pictures of some."""

    def __init__(self, tracker: Tracker, flight: Flight, satellite: SatelliteMap, footprint_m: float) -> None:
        self._tracker = tracker
        self._flight = flight
        self._satellite = satellite
        self._views = ViewSettings(NORTH_UP, footprint_m, VIEW_PX)
        self._every = max(1, math.ceil(len(flight) / MOST_PICTURES))
        self._moments: list[Moment] = []
        self._pictures: list[Pictures] = []
        track = Track(flight.fixes, GnssGates(), tracker.grid.projection)
        self._gnss, _ = track.at(flight.stamps_ns)

    def run(self, progress: Progress) -> FlightRun:
        """Fly, and give what was noted."""
        answers = follow(self._tracker, self._flight, progress, self._note)
        found = score([answers])
        return FlightRun(
            name=self._flight.name,
            moments=self._moments,
            pictures=self._pictures,
            summary=summary(answers, found),
            figures=figures(found),
            coverage=found.coverage,
            silences={REASONS.get(reason, reason): count for reason, count in found.silences.items()},
        )

    def _note(self, row: int, frame: Frame, answer: Estimate | Rejection, seconds: float) -> None:
        given = answer if isinstance(answer, Estimate) else None
        self._moments.append(
            Moment(
                stamp_ns=frame.stamp_ns,
                state=answer.state,
                reason=answer.reason if isinstance(answer, Rejection) else "",
                position=given.position if given else None,
                covariance=given.covariance if given else None,
                truth=_known(frame.position) if self._flight.positions_from == "truth" else None,
                gnss=_known(self._gnss[row]),
                z=given.z if given else math.nan,
                confidence=answer.confidence,
                latency_ms=1000.0 * seconds,
            )
        )
        if row % self._every == 0:
            self._pictures.append(self._take(row, frame, given.position if given else None))

    def _take(self, row: int, frame: Frame, position: NDArray[np.float64] | None) -> Pictures:
        """The frame, its view, and the map where the view is said to lie."""
        image = frame.decode()
        view = make_view(image, frame.situation, self._views)
        seen = there = b""
        if isinstance(view, View):
            seen = _small(np.where(view.mask[..., None], view.image, np.uint8(0)))
            if position is not None:
                centre = position + view.offset_m
                patches, _ = self._satellite.read_patches(centre[None], 0.0, view.footprint_m, PICTURE_PX)
                there = _small(patches[0])
        return Pictures(row, _small(image), seen, there)


def summary(answers: FlightAnswers, found: FlightScore) -> str:
    """A flight in one line."""
    text = f"{found.published} of {found.frames} frames got a position"
    if not np.isfinite(answers.errors_m).any():
        return f"{text}; nothing to measure it against"
    near = found.published_recall["50"]
    return f"{text}; {near:.1%} of them within 50 m, median {found.median_m:.0f} m, against {answers.positions}"


def figures(found: FlightScore) -> dict[str, str]:
    """The columns of the page's table."""
    shares = {f"within {metres} m": found.published_recall[str(metres)] for metres in (25, 50, 100)}
    return {
        "frames": str(found.frames),
        "positions": str(found.published),
        "first at frame": _text(found.first_fix_frame, ".0f"),
        "available after": _text(found.availability, ".1%"),
        **{name: _text(share, ".1%") for name, share in shares.items()},
        "wrong by > 100 m": _text(found.wrong_100m, ".2%"),
        "median": _text(found.median_m, ".0f", " m"),
        "NEES": _text(found.nees, ".1f"),
    }


def _text(value: float, form: str, unit: str = "") -> str:
    return "–" if math.isnan(value) else f"{value:{form}}{unit}"


def _known(point: NDArray[np.float64]) -> NDArray[np.float64] | None:
    return point if np.isfinite(point).all() else None


def _small(image: NDArray[np.uint8]) -> bytes:
    scale = PICTURE_PX / max(image.shape[:2])
    if scale < 1.0:
        size = (max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale)))
        image = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
    return encode_jpeg(image, JPEG_QUALITY)
