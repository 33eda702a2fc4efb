"""Named steps at which a crash test may kill the process."""

from __future__ import annotations

import os
import signal

KILL_AT = "AERIAL_VPR_KILL_AT"
"""Environment variable: the name of the step at which this process dies as if the power were cut."""


def failpoint(name: str) -> None:
    """Do nothing, except in a crash test that chose this step: then the process ends here, with no clean-up."""
    if os.environ.get(KILL_AT) == name:
        os.kill(os.getpid(), signal.SIGKILL)
