"""What bench.py quotes: rows of tables that longer runs left in results/, with the command that made them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from bench_rows import Row

RESULTS = Path(__file__).parent / "results"
NUMBER = re.compile(r"-?\d+(?:,\d{3})*\.?\d*")


@dataclass(frozen=True)
class Quote:
    """A cell of a committed table, and which of its numbers is to be how large."""

    what: str
    hold: str
    file: str
    row: str  # how the line begins
    column: str  # what the head of the column holds
    least: float | None = None
    most: float | None = None
    number: int = 0  # which of the cell's
    of: float = 0.0  # how many there must have been at least
    of_column: str = ""  # whose last number says how many there were; empty: this one's
    shares: tuple[float, ...] = ()  # the cell's numbers must lie within five points of these

    def line(self) -> Row:
        """The row of the report; "no record" where the table has no such cell."""
        cell = find_cell(RESULTS / self.file, self.row, self.column)
        if cell is None:
            return Row(self.what, self.hold, "no record", "", record=f"results/{self.file}")
        numbers = _numbers(cell)
        count = find_cell(RESULTS / self.file, self.row, self.of_column or self.column) or ""
        held, detail = self._held(numbers, _numbers(count)), self.row + (f": {count} frames" if self.of_column else "")
        return Row(self.what, self.hold, cell.replace("**", ""), detail, held, f"results/{self.file}")

    def _held(self, numbers: list[float], counts: list[float]) -> bool | None:
        if len(numbers) <= self.number:
            return None
        if self.shares:
            return all(abs(found - share) <= 5.0 for found, share in zip(numbers, self.shares))
        value, enough = numbers[self.number], not self.of or counts[-1] >= self.of
        return enough and (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


TRACKING = "tracking.md"
QUOTES = (
    Quote(
        "tracked, nothing learnt, of published: within 25 m",
        "≥ 97 %",
        TRACKING,
        "all senses",
        "within 25 / 50",
        least=97.0,
    ),
    Quote("… within 50 m", "≥ 99.9 %", TRACKING, "all senses", "within 25 / 50", least=99.9, number=1),
    Quote(
        "published and wrong by more than 100 m",
        "0 of ≥ 20,000",
        TRACKING,
        "all senses",
        "wrong > 100",
        most=0,
        of=20_000,
    ),
    Quote("availability after the first fix", "≥ 98 %", TRACKING, "all senses", "with a position", least=98.0),
    Quote("frames until the first fix, median (p90)", "≤ 3 (8)", TRACKING, "all senses", "first fix", most=3.0),
    Quote(
        "heading unknown, tracked: within 50 m",
        "≥ 85 %",
        TRACKING,
        "no heading",
        "within 25 / 50",
        least=85.0,
        number=1,
    ),
    Quote("camera and GNSS alone: published and wrong", "≤ 5 %", TRACKING, "camera alone", "wrong > 100", most=0.0),
    Quote(
        "off-map frames that get a position",
        "0 of 2,000",
        TRACKING,
        "off the map",
        "wrong > 100",
        most=0.0,
        of=2_000.0,
        of_column="flights, frames",
    ),
    Quote(
        "50 / 90 / 95 % regions hold the truth",
        "within 5 points",
        TRACKING,
        "all senses",
        "regions hold",
        shares=(50.0, 90.0, 95.0),
    ),
    Quote(
        "single-frame recall at 300 m, north up, other dates",
        "≥ 90 %",
        "views.md",
        "north_up",
        "within 300 m",
        least=90.0,
    ),
    Quote("whole node, tracking: p95 from image to pose", "≤ 100 ms", "node_latency.md", "tracking", "p95", most=100.0),
    Quote("… searching 17 km²: p95 from image to pose", "≤ 400 ms", "node_latency.md", "searching", "p95", most=400.0),
    Quote(
        "learning step with cached trunk ÷ plain loop, ViT-B/14",
        "≤ 0.40",
        "cached_learning.md",
        "vit_base_patch14_dinov2",
        "cached ÷ plain",
        most=0.40,
    ),
    Quote(
        "registration alone, σ 3°, 5 %: within 50 m, VIS / NIR",
        "≥ 95 / 93 %",
        "registration.md",
        "σ 3°, 5 %",
        "within 50 m",
        least=95.0,
    ),
)


def quoted_rows() -> list[Row]:
    """All quotes, and what the records of scale.py say of the largest map."""
    return [*(quote.line() for quote in QUOTES), *_largest_map()]


def find_cell(path: Path, row: str, column: str) -> str | None:
    """A cell of the first Markdown table of a file that has such a row and column."""
    heads: list[str] = []
    for line in path.read_text().splitlines() if path.exists() else []:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            heads = []
        elif not heads:
            heads = cells
        elif cells[0].startswith(row):
            place = next((n for n, head in enumerate(heads) if column in head), None)
            if place is not None and place < len(cells):
                return cells[place]
    return None


def _numbers(cell: str) -> list[float]:
    return [float(text.replace(",", "")) for text in NUMBER.findall(cell)]


def _largest_map() -> list[Row]:
    records = [json.loads(path.read_text()) for path in (RESULTS / "scale").glob("tiles*.json")]
    records.sort(key=lambda record: record["km2"])
    source, rows = "results/scale/README.md", []
    for record in [record for record in records if "search" in record][-1:]:
        everything_ms, proposed_ms = 1e3 * record["search"]["everything_s"], record["search"]["proposed_ms"]
        what = f"registration everywhere ÷ on twenty proposed cells, {record['km2']:,.0f} km²"
        detail = f"{everything_ms:.0f} and {proposed_ms:.0f} ms"
        rows.append(Row(what, "", f"{everything_ms / proposed_ms:.1f}", detail, record=source))
    for record in [record for record in records if {"retrieval", "query"} <= record.keys()][-1:]:
        retrieval, query = record["retrieval"], record["query"]
        what = f"retrieval over all patches ÷ classification, {record['km2']:,.0f} km²: time of the search"
        detail = f"{retrieval['retrieval_ms']:.1f} and {query['heads_ms']:.1f} ms"
        rows.append(Row(what, "", f"{retrieval['retrieval_ms'] / query['heads_ms']:.1f}", detail, record=source))
    return rows
