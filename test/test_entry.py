"""How the programs of the nodes begin."""

import re
import signal
import time
from pathlib import Path

import pytest
from ros_support import PATIENCE_S, NodeProcess


def handles_sigterm(pid):
    """Whether the program has begun to look after signals; Python by itself looks after SIGINT only."""
    caught = int(re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())[1], 16)
    return bool(caught >> (signal.SIGTERM - 1) & 1)


@pytest.mark.parametrize("program", ["localization_node", "learner_node", "replay_node"])
@pytest.mark.parametrize("later_s", [0.0, 0.5])
def test_a_signal_while_the_program_starts_leaves_no_traceback(tmp_path, program, later_s):
    with NodeProcess(program, log=tmp_path / "log") as node:
        deadline = time.monotonic() + PATIENCE_S
        while not handles_sigterm(node.process.pid):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        time.sleep(later_s)
        node.stop(signal.SIGINT, times=2)
        assert "Traceback" not in node.log and "KeyboardInterrupt" not in node.log, node.log
