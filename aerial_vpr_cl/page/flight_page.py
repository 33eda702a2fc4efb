"""One self-contained page of flights: map, track, every moment, figures; nothing is loaded from elsewhere."""

from __future__ import annotations

import base64
import html
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.files import replace_file
from aerial_vpr_cl.images import encode_jpeg
from aerial_vpr_cl.page.columns import columns_of, error_of, number, picture_values, script_json
from aerial_vpr_cl.page.runs import FlightRun, Ground, Result
from aerial_vpr_cl.page.thumbnails import shrunk

STATIC = Path(__file__).parent / "static"
MAP_SIDE_PX = 1600
"""Longest side of the map in the page."""
MAP_QUALITY = 80
MOST_MOMENTS = 20_000
"""Frames of a flight in the page; of a longer one every second, third, ... is shown."""
STEPS = 50
"""Of the curve that compares errors."""


@dataclass(frozen=True, eq=False)
class Page:
    """All that a page shows."""

    title: str
    ground: Ground
    runs: Sequence[FlightRun] = ()
    results: Sequence[Result] = ()
    learning: Sequence[Mapping[str, Any]] = ()
    footer: str = ""
    live_s: float = 0.0  # how often the page asks for what is new; 0: it is complete


def write_page(path: Path, page: Page) -> int:
    """Write the page and give its bytes; an older one at the path is replaced only when the new one is whole."""
    data = page_text(page).encode()
    replace_file(path, data)
    return len(data)


def page_text(page: Page) -> str:
    """The page as text."""
    west, south, east, north = page.ground.bounds
    data = {
        "map": {"width_m": east - west, "height_m": north - south, "image": _map_image(page.ground.image)},
        "runs": [_run(run, np.array([west, south])) for run in page.runs],
        "results": [_result(result) for result in page.results],
        "learning": list(page.learning),
        "live_s": page.live_s,
    }
    parts = {
        "title": html.escape(page.title),
        "footer": html.escape(page.footer),
        "data": script_json(data),
        "images": "".join(_images(number, run) for number, run in enumerate(page.runs)),
        "report_css": _static("report.css"),
        "report_js": _static("report.js"),
        "live_js": _static("live.js") if page.live_s else "",
        # The pictures of its buttons are not used, and a page must not look for them.
        "leaflet_css": re.sub(r"url\([^)]*\)", "none", _static("vendor/leaflet.css")),
        "leaflet_js": _static("vendor/leaflet.js"),
        "uplot_css": _static("vendor/uplot.css"),
        "uplot_js": _static("vendor/uplot.js"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _static("report.html"))


def _run(run: FlightRun, origin: NDArray[np.float64]) -> dict[str, Any]:
    every = _every(run)
    shown = run.moments[::every]
    measurable = [moment for moment in run.moments if moment.truth is not None]
    return {
        "name": run.name,
        "summary": run.summary,
        "figures": run.figures,
        "coverage": {share: number(held, 4) for share, held in run.coverage.items()},
        "silences": run.silences,
        "kept": sorted({index // every for index in run.kept}),
        "of": len(run.moments),
        "every": every,
        "within_m": _within([error_of(moment) for moment in measurable], len(measurable)),
        "frames": columns_of(shown, origin, shown[0].stamp_ns if shown else 0),
    }


def _images(run_number: int, run: FlightRun) -> str:
    """The pictures of a flight in an element of their own, so that they are read only when the flight is looked at."""
    every = _every(run)
    values = [picture_values(pictures) for pictures in run.pictures]
    for value in values:
        value["frame"] //= every
    return f'<script type="application/json" id="images-{run_number}">{script_json(values)}</script>\n'


def _every(run: FlightRun) -> int:
    return max(1, math.ceil(len(run.moments) / MOST_MOMENTS))


def _result(result: Result) -> dict[str, Any]:
    return {
        "name": result.name,
        "figures": result.figures,
        "within_m": _within(result.errors_m, result.frames),
        "missions": list(result.missions),
        "matrix": [[number(value, 3) for value in row] for row in result.matrix],
    }


def _within(errors_m: Sequence[float], frames: int) -> list[float | None]:
    """Metres within which 2, 4, ... 100 % of so many frames were placed; None where fewer got a position."""
    errors = np.sort([error for error in errors_m if math.isfinite(error)])
    ranks = [math.ceil(frames * step / STEPS) - 1 for step in range(1, STEPS + 1)]
    return [number(float(errors[rank]), 1) if rank < len(errors) else None for rank in ranks] if frames else []


def _map_image(image: NDArray[np.uint8]) -> str:
    data = encode_jpeg(shrunk(image, MAP_SIDE_PX), MAP_QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"


def _static(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")
