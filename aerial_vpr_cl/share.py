"""Files that are installed beside the code: config, launch and maps of the package's share directory."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def share_file(name: str) -> Path | None:
    """A file such as `config/flight.yaml`: in the source tree, or as ROS or pip installed it; None if it is nowhere."""
    prefixes = [*os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep), sys.prefix]
    shares = [Path(prefix) / "share" / "aerial_vpr_cl" for prefix in prefixes if prefix]
    candidates = [folder / name for folder in (Path(__file__).parents[1], *shares)]
    return next((path for path in candidates if path.is_file()), None)
