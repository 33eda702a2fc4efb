"""Write the table of docs/methods.md from the options that the methods declare.

python docs/write_methods.py
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from aerial_vpr_cl.learning.method_options import OPTIONS
from aerial_vpr_cl.learning.methods import METHODS
from aerial_vpr_cl.memory.strategies import STRATEGIES

PAGE = Path(__file__).with_name("methods.md")


def table() -> str:
    """Markdown rows of every method: name, what it does, its options with their defaults; then what these mean."""
    lines = ["| method | what it does | options |", "|---|---|---|"]
    for name, kind in OPTIONS.items():
        words = (METHODS[name].__doc__ or "").splitlines()[0] if name in METHODS else STRATEGIES[name].description
        options = [f"`{field.name}={_default(field)}`" for field in dataclasses.fields(kind)]
        lines.append(f"| `{name}` | {words.rstrip('.')} | {', '.join(options) or '–'} |")
    fields = [field for kind in OPTIONS.values() for field in dataclasses.fields(kind)]
    meanings = dict.fromkeys(f"| `{field.name}` | {field.metadata['help']} |" for field in fields)
    return "\n".join([*lines, "", "| option | what it is |", "|---|---|", *meanings])


def page(text: str) -> str:
    """The page with its table as the code has it now."""
    start, end = "<!-- methods -->", "<!-- end -->"
    pattern = re.compile(re.escape(start) + r".*?" + re.escape(end), re.DOTALL)
    return pattern.sub(lambda _: f"{start}\n{table()}\n{end}", text)


def _default(field: dataclasses.Field[object]) -> str:
    return "unset" if field.default is None else f"{field.default:g}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
