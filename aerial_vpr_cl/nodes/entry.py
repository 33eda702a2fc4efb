"""How the programs of the nodes begin: a signal during the seconds of importing ends them without a traceback.

Imports nothing heavy itself. `python -m aerial_vpr_cl.nodes.entry localization_node` is the program localization_node.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys

REFUSED = 3
"""Exit code of a node that cannot start as it was told, such as with an unknown parameter: trying again is no use."""


def localization() -> int:
    """The program localization_node."""
    return start("localization_node")


def learner() -> int:
    """The program learner_node."""
    return start("learner_node")


def replay() -> int:
    """The program replay_node."""
    return start("replay_node")


def autopilot_bridge() -> int:
    """The program autopilot_bridge_node."""
    return start("autopilot_bridge_node")


def simulated_camera() -> int:
    """The program simulated_camera_node."""
    return start("simulated_camera_node")


def start(module: str) -> int:
    """Run the `main` of a module of the nodes; nothing is lost if a signal ends it before."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))
    return int(importlib.import_module(f"aerial_vpr_cl.nodes.{module}").main())


if __name__ == "__main__":
    sys.exit(start(sys.argv.pop(1)))
