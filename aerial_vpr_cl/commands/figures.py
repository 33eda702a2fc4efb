"""What a verb measured, for other programs: --json FILE, or - for standard output, the same for every verb."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from aerial_vpr_cl.files import prepare_output, replace_file

STANDARD_OUTPUT = "-"


class Figures:
    """Where the figures of a verb go: `args.json.write(...)`. Without --json they go nowhere."""

    def __init__(self, where: str = "") -> None:
        self._where = where
        self._stdout = sys.stdout

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Around a verb: a file that cannot be is refused at once; words give standard output to the figures."""
        if self._where == STANDARD_OUTPUT:
            with redirect_stdout(sys.stderr):
                yield
            return
        if self._where:
            prepare_output(Path(self._where))
        yield

    def write(self, values: Mapping[str, Any]) -> None:
        """Plain values; what could not be measured (NaN) is null."""
        if not self._where:
            return
        text = json.dumps(_plain(values), indent=1, allow_nan=False) + "\n"
        if self._where == STANDARD_OUTPUT:
            self._stdout.write(text)
            self._stdout.flush()
        else:
            replace_file(Path(self._where), text.encode())


def add_json(parser: argparse.ArgumentParser) -> None:
    """Declare --json."""
    words = "also write the figures as JSON, to a file or to standard output (-); all words then go to standard error"
    parser.add_argument("--json", type=Figures, default=Figures(), metavar="FILE", help=words)


def child_output() -> int | None:
    """Where a program that a verb starts is to print: with the verb's own words."""
    return sys.stderr.fileno() if sys.stdout is sys.stderr else None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
