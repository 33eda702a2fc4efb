"""What benchmarks/tracking.py keeps of every flight, as small JSON files, and the tables that are made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from aerial_vpr_cl.evaluation.flight_score import FlightAnswers, score
from aerial_vpr_cl.files import replace_file


@dataclass(frozen=True, eq=False)
class Record:
    """One flight of one case."""

    answers: FlightAnswers
    ms: dict[str, float]  # a frame's time: rendering, registration, the tracker besides
    gnss: dict[str, Any] = field(default_factory=dict)  # what the watch said, empty where no fix was compared

    def write(self, path: Path) -> None:
        """Keep it; metres to the decimetre, as positions err by metres."""
        answers = self.answers
        upper = answers.covariances[:, [0, 0, 1], [0, 1, 1]]
        facts = {
            "name": answers.name,
            "modality": answers.modality,
            "stamps_ns": answers.stamps_ns.tolist(),
            "truth": _rounded(answers.truth),
            "given": _rounded(answers.given),
            "covariances": _rounded(upper),
            "reasons": answers.reasons,
            "ms": self.ms,
            "gnss": self.gnss,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(facts, separators=(",", ":")).encode())

    @classmethod
    def read(cls, path: Path) -> Record:
        """What `write` kept."""
        facts = json.loads(path.read_text())
        upper = np.array(facts["covariances"], float).reshape(-1, 3)
        answers = FlightAnswers(
            name=facts["name"],
            modality=facts["modality"],
            positions="truth",
            stamps_ns=np.array(facts["stamps_ns"], np.int64),
            truth=np.array(facts["truth"], float).reshape(-1, 2),
            given=np.array(facts["given"], float).reshape(-1, 2),
            covariances=upper[:, [0, 1, 1, 2]].reshape(-1, 2, 2),
            reasons=tuple(facts["reasons"]),
        )
        return cls(answers, facts["ms"], facts["gnss"])


def _rounded(values: np.ndarray) -> list[Any]:
    """Plain numbers; NaN becomes null."""
    return np.where(np.isfinite(values), np.round(values, 1), None).tolist()


def table(rows: Mapping[str, Sequence[Record]]) -> str:
    """Markdown, one row per case."""
    lines = [
        "| case | flights, frames | first fix: median (p90) | with a position after it "
        "| of these within 25 / 50 / 100 m | wrong > 100 / 300 m | median | 50 / 90 / 95 % regions hold | NEES |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, records in rows.items():
        flights = [record.answers for record in records]
        found = score(flights)
        firsts = [int(np.argmax(f.published)) + 1 if f.published.any() else len(f.truth) + 1 for f in flights]
        begin = f"| {name} | {len(flights)}, {found.frames} | "
        if not found.published:
            lines.append(f"{begin}never | – | – | 0 of 0 | – | – | – |")
            continue
        near = " / ".join(f"{100 * found.published_recall[metres]:.1f}" for metres in ("25", "50", "100"))
        held = " / ".join(f"{100 * found.coverage[share]:.0f}" for share in ("50", "90", "95"))
        wrong = " / ".join(str(sum(int((f.errors_m > metres).sum()) for f in flights)) for metres in (100.0, 300.0))
        lines.append(
            f"{begin}{np.median(firsts):.0f} ({np.percentile(firsts, 90):.0f}) | {100 * found.availability:.1f} % | "
            f"{near} | {wrong} of {found.published} | {found.median_m:.0f} m | {held} | {found.nees:.2f} |"
        )
    return "\n".join(lines)


def gnss_table(rows: Mapping[str, Sequence[Record]]) -> str:
    """Markdown: how soon a false GNSS is named, and how often an honest one; empty where nothing was compared."""
    lines = [
        "| case | flights | named in | false fixes lie off when named: median (largest) | seconds since the first "
        "position, median (largest) | honest fixes called false |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, records in rows.items():
        heard = [record.gnss for record in records if record.gnss]
        if not heard:
            continue
        named = [gnss for gnss in heard if gnss["named_s"] is not None]
        if any(gnss["spoofed"] for gnss in heard):
            off, seconds = ([gnss[key] for gnss in named] for key in ("lie_m", "named_s"))
            cells = [f"{np.median(v):.0f} ({max(v):.0f})" if v else "–" for v in (off, seconds)]
            lines.append(f"| {name} | {len(heard)} | {len(named)} | {cells[0]} m | {cells[1]} s | – |")
        else:
            wrongly, checked = (sum(gnss[key] for gnss in heard) for key in ("distrusted", "checked"))
            lines.append(f"| {name} | {len(heard)} | – | – | – | {wrongly} of {checked} reports |")
    return "\n".join(lines) if len(lines) > 2 else ""


def times(records: Sequence[Record]) -> str:
    """What a frame takes, in words."""
    keys = dict.fromkeys(key for record in records for key in record.ms)
    return ", ".join(f"{key} {np.mean([r.ms.get(key, 0.0) for r in records]):.0f} ms" for key in keys) + " a frame"
