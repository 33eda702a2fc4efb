"""How words look on a terminal: tables in columns, headlines in bold, errors in red; plain text everywhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TextIO

STYLES = {"bold": "1", "red": "31"}


def styled(words: str, style: str, stream: TextIO | None = None) -> str:
    """Words in a style where the stream (default: standard output) is a terminal and nobody has set NO_COLOR."""
    stream = sys.stdout if stream is None else stream
    plain = not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return words if plain else f"\x1b[{STYLES[style]}m{words}\x1b[0m"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they need to be: names to the left, figures to the right."""
    cells = [head, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    first, *others = widths
    lines = [
        "  ".join([row[0].ljust(first), *(cell.rjust(width) for cell, width in zip(row[1:], others))]).rstrip()
        for row in cells
    ]
    return "\n".join([styled(lines[0], "bold"), *lines[1:]])
