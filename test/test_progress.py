"""Progress is a bar on a terminal, and lines of text everywhere else."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

from crash_support import environment

WORK = """
from aerial_vpr_cl.progress import ProgressBar
bar = ProgressBar()
for phase in ("read", "learn"):
    for done in range(1, 201):
        bar(phase, done, 200, loss=1.0 / done)
bar("select", 1, 3)
bar.close()
"""
COMMAND = [sys.executable, "-c", WORK]


def test_a_log_gets_whole_lines_and_few_of_them():
    log = subprocess.run(COMMAND, env=environment(), stderr=subprocess.PIPE, check=True).stderr.decode()
    assert log.isascii() and "\r" not in log and log.endswith("\n")
    lines = log.splitlines()
    assert [lines[0], lines[-1]] == ["read: 1 of 200, loss 1", "select: 1 of 3"]
    assert "learn: 200 of 200, loss 0.005" in lines
    assert len(lines) < 20


def test_a_terminal_gets_a_bar():
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    with subprocess.Popen(COMMAND, env=environment(), stderr=theirs):
        os.close(theirs)
        shown = b""
        try:
            while block := os.read(ours, 4096):
                shown += block
        except OSError:  # how Linux says that the other end is closed
            os.close(ours)
    text = shown.decode()
    assert "\r" in text and "learn: 100%" in text and "loss=0.005" in text
