"""One self-contained page of flights: map, track, every moment, figures; nothing is loaded from elsewhere."""

from __future__ import annotations

import base64
import html
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.files import replace_file

STATIC = Path(__file__).parent / "static"
MAP_SIDE_PX = 1600
"""Longest side of the map in the page."""


@dataclass(frozen=True, eq=False)
class Moment:
    """One frame of a flight; positions in the map's metres, NaN or None where they are not known."""

    stamp_ns: int
    state: str = ""
    reason: str = ""  # of a silence; empty for an answer
    position: NDArray[np.float64] | None = None  # (2,)
    covariance: NDArray[np.float64] | None = None  # (2, 2)
    truth: NDArray[np.float64] | None = None
    gnss: NDArray[np.float64] | None = None
    z: float = math.nan
    confidence: float = math.nan
    latency_ms: float = math.nan


@dataclass(frozen=True, eq=False)
class Pictures:
    """What one frame looked like: JPEG bytes, empty where there is none."""

    index: int  # of the moment
    frame: bytes = b""
    view: bytes = b""
    map: bytes = b""


@dataclass(frozen=True, eq=False)
class FlightRun:
    """A flight as the page shows it."""

    name: str
    moments: Sequence[Moment]
    pictures: Sequence[Pictures] = ()
    summary: str = ""
    figures: dict[str, str] = field(default_factory=dict)  # column → text
    coverage: dict[str, float] = field(default_factory=dict)  # stated share in percent → share that held
    silences: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Ground:
    """The map under the flights: RGB, and west, south, east, north in metres."""

    image: NDArray[np.uint8]
    bounds: tuple[float, float, float, float]


def write_page(
    path: Path, title: str, ground: Ground, runs: Sequence[FlightRun], learning: Sequence[str] = (), footer: str = ""
) -> None:
    """Write the page; an older one at the path is replaced only when the new one is whole."""
    replace_file(path, page(title, ground, runs, learning, footer).encode())


def page(title: str, ground: Ground, runs: Sequence[FlightRun], learning: Sequence[str] = (), footer: str = "") -> str:
    """The page as text."""
    west, south, east, north = ground.bounds
    data = {
        "map": {"width_m": east - west, "height_m": north - south, "image": _map_image(ground.image)},
        "runs": [_run(run, west, south) for run in runs],
        "learning": list(learning),
    }
    parts = {
        "title": html.escape(title),
        "footer": html.escape(footer),
        "data": _json(data),
        "images": _json([[_pictures(pictures) for pictures in run.pictures] for run in runs]),
        "report_css": _static("report.css"),
        "report_js": _static("report.js"),
        # The pictures of its buttons are not used, and a page must not look for them.
        "leaflet_css": re.sub(r"url\([^)]*\)", "none", _static("vendor/leaflet.css")),
        "leaflet_js": _static("vendor/leaflet.js"),
        "uplot_css": _static("vendor/uplot.css"),
        "uplot_js": _static("vendor/uplot.js"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _static("report.html"))


def _run(run: FlightRun, west: float, south: float) -> dict[str, Any]:
    moments = run.moments
    start_ns = moments[0].stamp_ns if moments else 0
    origin = np.array([west, south])
    places = {"": "position", "truth_": "truth", "gnss_": "gnss"}
    columns: dict[str, list[Any]] = {
        "t": [round((moment.stamp_ns - start_ns) / 1e9, 3) for moment in moments],
        "state": [moment.state for moment in moments],
        "reason": [moment.reason for moment in moments],
        "error_m": [_number(_error(moment), 2) for moment in moments],
        "sigma_m": [_number(_sigma(moment), 2) for moment in moments],
    }
    for name, digits in (("z", 2), ("confidence", 4), ("latency_ms", 1)):
        columns[name] = [_number(getattr(moment, name), digits) for moment in moments]
    for prefix, name in places.items():
        found = [getattr(moment, name) for moment in moments]
        for axis, letter in enumerate("xy"):
            columns[f"{prefix}{letter}"] = [
                None if point is None else _number(float(point[axis] - origin[axis]), 1) for point in found
            ]
    for name, (row, column) in {"cov_xx": (0, 0), "cov_xy": (0, 1), "cov_yy": (1, 1)}.items():
        columns[name] = [
            None if moment.covariance is None else _number(float(moment.covariance[row, column]), 1)
            for moment in moments
        ]
    return {
        "name": run.name,
        "summary": run.summary,
        "figures": run.figures,
        "coverage": {share: _number(held, 4) for share, held in run.coverage.items()},
        "silences": run.silences,
        "frames": columns,
    }


def _pictures(pictures: Pictures) -> dict[str, Any]:
    encoded = {f"{name}_jpeg": getattr(pictures, name) for name in ("frame", "view", "map")}
    return {"frame": pictures.index, **{name: base64.b64encode(data).decode() for name, data in encoded.items()}}


def _map_image(image: NDArray[np.uint8]) -> str:
    scale = MAP_SIDE_PX / max(image.shape[:2])
    if scale < 1.0:
        size = (round(image.shape[1] * scale), round(image.shape[0] * scale))
        image = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
    _, data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 80])
    return f"data:image/jpeg;base64,{base64.b64encode(data.tobytes()).decode()}"


def _error(moment: Moment) -> float:
    if moment.position is None or moment.truth is None:
        return math.nan
    return float(np.hypot(*(moment.position - moment.truth)))


def _sigma(moment: Moment) -> float:
    """Standard deviation along the worst direction."""
    return math.nan if moment.covariance is None else float(np.sqrt(np.linalg.eigvalsh(moment.covariance)[-1]))


def _number(value: float, digits: int) -> float | None:
    return round(float(value), digits) if math.isfinite(value) else None


def _json(value: Any) -> str:
    """JSON that cannot end the script it stands in."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _static(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")
