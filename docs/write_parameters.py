"""Write the parameter tables of docs/nodes.md from the settings the nodes declare their parameters from.

python docs/write_parameters.py
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

from aerial_vpr_cl.nodes import autopilot_bridge_node, learner_node, localization_node, simulated_camera_node
from aerial_vpr_cl.nodes.replay import ReplaySettings

PAGE = Path(__file__).with_name("nodes.md")
NODES: dict[str, tuple[Mapping[str, tuple[type, ...]], tuple[str, ...]]] = {
    "localization": (localization_node.PARAMETERS, localization_node.FIXED),
    "learner": (learner_node.PARAMETERS, learner_node.FIXED),
    "autopilot_bridge": (autopilot_bridge_node.PARAMETERS, autopilot_bridge_node.FIXED),
    "simulated_camera": (simulated_camera_node.PARAMETERS, ("",)),
    "replay": ({"": (ReplaySettings,)}, ("",)),
}


def table(parameters: Mapping[str, tuple[type, ...]], fixed: tuple[str, ...]) -> str:
    """Markdown rows of every parameter: name, default, what it is and its range; * marks those that may change."""
    lines = ["| parameter | default | |", "|---|---|---|"]
    for prefix, classes in parameters.items():
        for field in [field for cls in classes for field in dataclasses.fields(cls)]:
            name = f"{prefix}.{field.name}" if prefix else field.name
            changes = name.split(".")[0] not in fixed and fixed != ("",)
            text = field.metadata.get("help", "").replace("|", "\\|")
            lines.append(
                f"| `{name}`{' *' if changes else ''} | `{_default(field)}` | {text}{_range(field.metadata)} |"
            )
    note = "Parameters with * may be changed while the node runs." if fixed != ("",) else ""
    return "\n".join([*lines, *(["", note] if note else [])])


def page(text: str) -> str:
    """The page with its tables as the code has them now."""
    for name, (parameters, fixed) in NODES.items():
        start, end = f"<!-- parameters of {name} -->", "<!-- end -->"
        pattern = re.compile(re.escape(start) + r".*?" + re.escape(end), re.DOTALL)
        tables = table(parameters, fixed)
        text = pattern.sub(lambda _, start=start, end=end, tables=tables: f"{start}\n{tables}\n{end}", text)  # type: ignore[misc]
    return text


def _default(field: dataclasses.Field[object]) -> str:
    value = field.default
    if value is None:
        return "unset"
    return (
        {True: "true", False: "false", "": '""'}.get(value, str(value)) if isinstance(value, bool | str) else str(value)
    )


def _range(metadata: Mapping[str, object]) -> str:
    low, high, choices = metadata.get("low"), metadata.get("high"), metadata.get("choices")
    if choices:
        return f" ({', '.join(map(str, choices))})"  # type: ignore[arg-type, call-overload]
    if low is not None and high is not None:
        return f" ({low} to {high})"
    return f" (at least {low})" if low is not None else f" (at most {high})" if high is not None else ""


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
