"""Nodes as real processes over real DDS: own domain, discovery with a time limit, clean ends.

with NodeProcess("localization_node", log=tmp_path / "log", parameters={"store": "…"}) as node, Peer() as peer:
images = peer.publisher(CompressedImage, "image")
poses = peer.listen(PoseWithCovarianceStamped, "localization/pose")
peer.wait_matched()
...
peer.wait_for(lambda: poses)
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
DISCOVERY_S = 120.0
"""Discovery takes 0.4 s, sometimes 3.4 s; a node that has to start first on a loaded machine takes a minute."""
PATIENCE_S = 60.0


def _claim_domain() -> int:
    """A ROS domain that no other test process on this machine uses; held as long as this process lives."""
    for domain in range(1, 100):
        lock = (Path(tempfile.gettempdir()) / f"aerial_vpr_ros_domain_{domain}.lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            continue
        _claimed.append(lock)
        return domain
    raise RuntimeError("all ROS domains are taken by other tests")


_claimed: list[Any] = []
os.environ.update(ROS_DOMAIN_ID=str(_claim_domain()), ROS_AUTOMATIC_DISCOVERY_RANGE="LOCALHOST")

import rclpy  # noqa: E402 (the domain has to be chosen before)
from rclpy.executors import SingleThreadedExecutor  # noqa: E402
from rclpy.node import Node  # noqa: E402
from rclpy.qos import QoSProfile, qos_profile_sensor_data  # noqa: E402
from rclpy.signals import SignalHandlerOptions  # noqa: E402


class NodeProcess:
    """A node of this package in its own process; killed at the end of the block if it still runs."""

    def __init__(
        self,
        module: str,
        *,
        log: Path,
        parameters: Mapping[str, Any] | None = None,
        parameters_file: Path | None = None,
        remap: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        command = [sys.executable, "-m", "aerial_vpr_cl.nodes.entry", module, *arguments, "--ros-args"]
        if parameters_file is not None:
            command += ["--params-file", str(parameters_file)]
        for name, value in (parameters or {}).items():
            command += ["-p", f"{name}:={json.dumps(value)}"]
        for name, value in (remap or {}).items():
            command += ["-r", f"{name}:={value}"]
        search = os.pathsep.join([str(REPOSITORY), *sys.path])
        self._path = Path(log)
        self._log = self._path.open("ab")
        self.process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": search, "OMP_NUM_THREADS": "1", **(environment or {})},
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a signal to the group reaches only this node
        )

    def __enter__(self) -> NodeProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.alive:
            self.process.kill()
            self.process.wait()
        self._log.close()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def log(self) -> str:
        """All that the node has printed."""
        return self._path.read_text(errors="replace")

    @property
    def memory_mb(self) -> float:
        """Resident memory of the process now."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def send(self, number: int = signal.SIGINT, *, times: int = 1) -> None:
        """Send a signal, maybe twice as a launch file and a terminal together do."""
        for _ in range(times):
            self.process.send_signal(number)

    def stop(self, number: int = signal.SIGINT, *, times: int = 1, limit_s: float = PATIENCE_S) -> int:
        """Send a signal and wait for the end; returns the exit code."""
        self.send(number, times=times)
        return self.process.wait(limit_s)


class Peer:
    """The other side of a node's topics and services, in this process."""

    def __init__(self, name: str = "peer") -> None:
        self._context = rclpy.Context()
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self.node = Node(name, context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._publishers: list[Any] = []
        self._subscriptions: list[Any] = []

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown()
        self.node.destroy_node()
        self._context.try_shutdown()

    def publisher(self, message_type: type, topic: str, qos: QoSProfile | int = qos_profile_sensor_data) -> Any:
        """A publisher that `wait_matched` waits for."""
        self._publishers.append(self.node.create_publisher(message_type, topic, qos))
        return self._publishers[-1]

    def listen(
        self, message_type: type, topic: str, qos: QoSProfile | int = 100, *, into: list[Any] | None = None
    ) -> list[Any]:
        """A list that grows with every message of a topic."""
        messages: list[Any] = [] if into is None else into
        self._subscriptions.append(self.node.create_subscription(message_type, topic, messages.append, qos))
        return messages

    def wait_matched(self, limit_s: float = DISCOVERY_S) -> None:
        """Until every publisher has a subscriber and every subscription a publisher."""

        def matched() -> bool:
            return all(publisher.get_subscription_count() for publisher in self._publishers) and all(
                subscription.get_publisher_count() for subscription in self._subscriptions
            )

        self.wait_for(matched, limit_s, what="matching publishers and subscribers")

    def wait_for(self, condition: Callable[[], Any], limit_s: float = PATIENCE_S, *, what: str = "") -> Any:
        """Spin until the condition is true and return its value; AssertionError after the time limit."""
        end = time.monotonic() + limit_s
        while True:
            if value := condition():
                return value
            assert time.monotonic() < end, f"waited {limit_s:.0f} s in vain for {what or condition}"
            self._executor.spin_once(timeout_sec=0.05)

    def spin(self, seconds: float) -> None:
        """Receive for a while; for when it is the time that matters, not an event."""
        end = time.monotonic() + seconds
        while (left_s := end - time.monotonic()) > 0.0:
            self._executor.spin_once(timeout_sec=left_s)

    def call(self, service_type: Any, name: str, request: Any = None, limit_s: float = PATIENCE_S) -> Any:
        """Call a service and return its answer."""
        client = self.node.create_client(service_type, name)
        try:
            self.wait_for(client.service_is_ready, limit_s, what=f"service {name}")
            future = client.call_async(service_type.Request() if request is None else request)
            self.wait_for(future.done, limit_s, what=f"an answer of {name}")
            return future.result()
        finally:
            self.node.destroy_client(client)
