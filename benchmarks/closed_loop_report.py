"""What was recorded of flights without GNSS, as a table and a picture.

python benchmarks/closed_loop_report.py OUT/*/flight.json --picture closed_loop.png
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sensor_msgs.msg import NavSatFix

from aerial_vpr_cl.evaluation import plots
from aerial_vpr_cl.geo.projection import Projection

DEAD_RECKONING = "dead_reckoning"
TITLES = {
    DEAD_RECKONING: "dead reckoning alone",
    "command": "set right by our command",
    "odometry": "aided by our odometry",
}
COLOURS = {DEAD_RECKONING: "tab:grey", "command": "tab:orange", "odometry": "tab:blue"}


class Record:
    """What the simulator knew, what its filter believed and what we answered, in metres on the map."""

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self.truth: list[tuple[float, float, float]] = []  # seconds since boot, east, north
        self.filtered: list[tuple[float, float, float]] = []
        self.answers: list[tuple[float, float, float]] = []
        self.delays_s: list[float] = []
        self.states: list[tuple[float, str]] = []
        self.now_s = 0.0

    def take(self, message: Any, boot_ms: int) -> None:
        """A message of the simulator."""
        self.now_s = boot_ms / 1000.0
        if message.get_type() == "SIM_STATE":
            self.truth.append(self._place(self.now_s, message.lat_int / 1e7, message.lon_int / 1e7))
        elif message.get_type() == "GLOBAL_POSITION_INT" and message.lat:
            self.filtered.append(self._place(message.time_boot_ms / 1e3, message.lat / 1e7, message.lon / 1e7))

    def on_fix(self, message: NavSatFix) -> None:
        """A position of the localization."""
        if message.status.status >= 0:
            stamp_s = message.header.stamp.sec + message.header.stamp.nanosec / 1e9
            self.answers.append(self._place(stamp_s, message.latitude, message.longitude))
            self.delays_s.append(self.now_s - stamp_s)

    def on_state(self, message: DiagnosticStatus) -> None:
        """Its state."""
        self.states.append((self.now_s, next(entry.value for entry in message.values if entry.key == "state")))

    def errors_m(self, places: Sequence[tuple[float, float, float]], since_s: float) -> NDArray[np.float64]:
        """(n, 2) seconds since then, and metres from the truth at that time."""
        truth, found = np.array(self.truth), np.array(places, float).reshape(-1, 3)
        found = found[(found[:, 0] >= max(since_s, truth[0, 0])) & (found[:, 0] <= truth[-1, 0])]
        true = np.stack([np.interp(found[:, 0], truth[:, 0], truth[:, axis]) for axis in (1, 2)], axis=1)
        return np.stack([found[:, 0] - since_s, np.hypot(*(found[:, 1:] - true).T)], axis=1)

    def _place(self, seconds: float, latitude: float, longitude: float) -> tuple[float, float, float]:
        east, north = self._projection.to_utm(latitude, longitude)
        return seconds, float(east), float(north)


def report(records: Sequence[Path], picture: Path) -> None:
    """Print the table of some flights and draw their picture."""
    flights = [json.loads(path.read_text()) for path in records]
    for flight in flights:
        flight |= {name: np.array(flight[name]).reshape(-1, 2) for name in ("errors", "answers")}
    flights.sort(key=lambda flight: list(TITLES).index(flight["case"]))
    plots.save(figure(flights), picture)
    print(table(flights))


def table(flights: Sequence[dict[str, Any]]) -> str:
    """Markdown, one row per flight."""
    lines = [
        "| filter | off by: median | p95 | most | at the end | our positions: median | p95 | most "
        "| their age when sent: median (p95) | speed |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for flight in flights:
        errors, answers, delays = flight["errors"][:, 1], flight["answers"], flight["delays_s"]
        ours = [f"{value:.0f} m" for value in _spread(answers[:, 1])] if len(answers) else ["–"] * 3
        age = f"{np.median(delays):.1f} s ({np.percentile(delays, 95):.1f})" if len(delays) else "–"
        median, most_often, most = (f"{value:.0f} m" for value in _spread(errors))
        lines.append(
            f"| {TITLES[flight['case']]} | {median} | {most_often} | {most} | {errors[-1]:.0f} m | "
            f"{' | '.join(ours)} | {age} | {flight['speed']:.1f} |"
        )
    return "\n".join(lines)


def figure(flights: Sequence[dict[str, Any]]) -> Figure:
    """Error of the filter over the time without GNSS."""
    drawn = Figure(figsize=(8.0, 4.0), layout="constrained")
    axes = drawn.add_subplot()
    for flight in flights:
        seconds, errors = flight["errors"].T
        axes.plot(seconds / 60.0, np.maximum(errors, 0.5), color=COLOURS[flight["case"]], label=TITLES[flight["case"]])
    axes.set_yscale("log")
    axes.set_xlabel("minutes without GNSS")
    axes.set_ylabel("filter's distance from the truth, m")
    axes.grid(True, which="both", alpha=0.25)
    axes.legend()
    return drawn


def _spread(values: Any) -> tuple[float, float, float]:
    return float(np.median(values)), float(np.percentile(values, 95)), float(np.max(values))


def main(arguments: Sequence[str] | None = None) -> None:
    """Report on flights that were flown before."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, nargs="+", help="flight.json of each flight")
    parser.add_argument("--picture", type=Path, default=Path("closed_loop.png"))
    args = parser.parse_args(arguments)
    report(args.records, args.picture)


if __name__ == "__main__":
    main()
