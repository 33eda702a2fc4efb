"""Nodes of this package as processes of their own, started and ended by the command line. Imports no ROS."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress


def start_process(executable: str, ros_arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a node as `ros2 run aerial_vpr_cl` would.

    It gets a session of its own: Ctrl-C reaches the caller alone, who ends the node when it is done with it.
    """
    program = [sys.executable, "-m", "aerial_vpr_cl.nodes.entry", executable]
    return subprocess.Popen([*program, "--ros-args", *ros_arguments], start_new_session=True)


def end_process(process: subprocess.Popen[bytes], patience_s: Sequence[float]) -> None:
    """Ask a node to end, then insist, then kill; `patience_s` after each."""
    for number, seconds in zip((signal.SIGINT, signal.SIGTERM, signal.SIGKILL), patience_s, strict=True):
        if process.poll() is None:
            process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
