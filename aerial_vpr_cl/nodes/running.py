"""Running a node as a process: until SIGINT or SIGTERM, once or often, and then to a clean end."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import rclpy
from rclpy.executors import MultiThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from aerial_vpr_cl.errors import AerialVprError
from aerial_vpr_cl.nodes.entry import REFUSED
from aerial_vpr_cl.nodes.sensor_inputs import NodeExecutor

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ClosableNode(Protocol):
    """A node with something to finish before it goes."""

    def close(self) -> None:
        """Finish: close files, end threads. Called once, while the executor still spins."""


class StopSignals:
    """Waits for SIGINT or SIGTERM. From then on both are without effect, so that nothing interrupts the cleaning up."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        for number in STOP_SIGNALS:
            signal.signal(number, lambda *_: None)
        # The wake-up descriptor is written whichever thread the signal reaches, and while this one is in C code.
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    def wait(self) -> None:
        """Return at the first signal, or when `trigger` was called."""
        os.read(self._read, 1)

    def trigger(self) -> None:
        """End the waiting without a signal."""
        os.write(self._write, b"\0")

    def close(self) -> None:
        """Ignore the signals for the rest of the process's life, also while the interpreter ends."""
        signal.set_wakeup_fd(-1)
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def run_node(make_node: Callable[[], Any], args: Sequence[str] | None = None, *, threads: int = 4) -> int:
    """Make a `ClosableNode`, spin it until a signal, close it. Returns the exit code: 0, or REFUSED."""
    stop = StopSignals()
    rclpy.init(args=list(args) if args is not None else None, signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = make_node()
    except (AerialVprError, rclpy.exceptions.ParameterException) as error:
        print(f"the node cannot start: {error}", file=sys.stderr)
        stop.close()
        rclpy.try_shutdown()
        return REFUSED
    forward_logging(node)
    executor = NodeExecutor(threads)
    executor.add_node(node)
    spinner = threading.Thread(target=_spin, args=(executor, node), name="executor", daemon=True)
    spinner.start()
    stop.wait()
    node.close()
    executor.shutdown(timeout_sec=5.0)
    spinner.join(5.0)
    node.destroy_node()
    rclpy.try_shutdown()
    stop.close()
    return 0


def forward_logging(node: Node) -> None:
    """Let what the library logs come out of the node's logger."""
    library = logging.getLogger("aerial_vpr_cl")
    library.addHandler(_NodeLogHandler(node))
    library.setLevel(logging.INFO)
    library.propagate = False


class _NodeLogHandler(logging.Handler):
    def __init__(self, node: Node) -> None:
        super().__init__()
        self._logger = node.get_logger()

    def emit(self, record: logging.LogRecord) -> None:
        # One line a level: a call of the ROS logger may not change its severity.
        text = self.format(record)
        if record.levelno >= logging.ERROR:
            self._logger.error(text)
        elif record.levelno >= logging.WARNING:
            self._logger.warning(text)
        else:
            self._logger.info(text)


def _spin(executor: MultiThreadedExecutor, node: Node) -> None:
    while executor.context.ok():
        try:
            executor.spin()
            return
        except rclpy.executors.ShutdownException:
            return
        except Exception as error:  # nothing stops a node in flight
            if not executor.context.ok():
                return
            node.get_logger().error(f"unexpected: {error!r}", throttle_duration_sec=5.0)
