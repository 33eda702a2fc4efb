"""Moments and pictures as the values that the page's script reads: columns, metres from the map's corner."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.page.runs import Moment, Pictures

PLACES = {"": "position", "truth_": "truth", "gnss_": "gnss"}
COVARIANCES = {"cov_xx": (0, 0), "cov_xy": (0, 1), "cov_yy": (1, 1)}
DIGITS = {"z": 2, "confidence": 4, "latency_ms": 1}


def columns_of(moments: Sequence[Moment], origin: NDArray[np.float64], start_ns: int) -> dict[str, list[Any]]:
    """Every figure of moments; times are seconds since the start, positions (2,) from the origin."""
    columns: dict[str, list[Any]] = {
        "t": [round((moment.stamp_ns - start_ns) / 1e9, 3) for moment in moments],
        "state": [moment.state for moment in moments],
        "reason": [moment.reason for moment in moments],
        "error_m": [number(error_of(moment), 2) for moment in moments],
        "sigma_m": [number(_sigma(moment), 2) for moment in moments],
    }
    for name, digits in DIGITS.items():
        columns[name] = [number(getattr(moment, name), digits) for moment in moments]
    for prefix, name in PLACES.items():
        found = [getattr(moment, name) for moment in moments]
        for axis, letter in enumerate("xy"):
            columns[f"{prefix}{letter}"] = [
                None if point is None else number(float(point[axis] - origin[axis]), 1) for point in found
            ]
    for name, (row, column) in COVARIANCES.items():
        columns[name] = [
            None if moment.covariance is None else number(float(moment.covariance[row, column]), 1)
            for moment in moments
        ]
    return columns


def picture_values(pictures: Pictures) -> dict[str, Any]:
    """Pictures of one frame, encoded to stand in JSON."""
    encoded = {f"{name}_jpeg": getattr(pictures, name) for name in ("frame", "view", "map", "peak")}
    return {
        "frame": pictures.index,
        "searched_m": number(pictures.searched_m, 0),
        **{name: base64.b64encode(data).decode() for name, data in encoded.items()},
    }


def number(value: float, digits: int) -> float | None:
    """A rounded number; None for what is none."""
    return round(float(value), digits) if math.isfinite(value) else None


def script_json(value: Any) -> str:
    """JSON that cannot end the script it stands in."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def error_of(moment: Moment) -> float:
    """Metres from the truth; NaN where one of both is missing."""
    if moment.position is None or moment.truth is None:
        return math.nan
    return float(np.hypot(*(moment.position - moment.truth)))


def _sigma(moment: Moment) -> float:
    """Standard deviation along the worst direction."""
    return math.nan if moment.covariance is None else float(np.sqrt(np.linalg.eigvalsh(moment.covariance)[-1]))
