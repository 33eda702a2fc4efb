"""The drone of the demo: its nodes as processes, and an operator who prints every command before it is carried out."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from aerial_vpr_cl.errors import AerialVprError
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.nodes.ground_station import GroundStation
from aerial_vpr_cl.nodes.interlock import RECENT_S
from aerial_vpr_cl.nodes.node_processes import end_process, start_process

PATIENCE_S = (20.0, 5.0, 5.0)


@dataclass
class Drone:
    """The nodes on board, each a process of its own, and the operator's ground station."""

    store: Path
    cycles: int | None
    station: GroundStation
    localization: subprocess.Popen[bytes]
    learner: subprocess.Popen[bytes]

    @classmethod
    @contextmanager
    def started(cls, store: Path, cycles: int | None) -> Iterator[Drone]:
        """Localization and learner, which `ros2 launch aerial_vpr_cl flight.launch.py` would start together."""
        flight = ["image_transport:=compressed", "recording.mode:=service"]
        with GroundStation() as station:
            localization = start_node("localization_node", store, flight)
            drone = cls(store, cycles, station, localization, _start_learner(store, cycles))
            try:
                station.wait_until_active("/localization")
                station.wait_until_active("/learner")
                yield drone
            finally:
                for process in (drone.localization, drone.learner):
                    end_process(process, PATIENCE_S)

    def camera(self, modality: str) -> None:
        """Tell the recorder what the camera sees."""
        print(f"\n$ ros2 param set /localization recording.modality {modality}", flush=True)
        self.station.set_parameter("/localization", "recording.modality", modality)

    def record(self, on: bool) -> None:
        """Call ~/record of the localization node."""
        _print_service("/localization/record", "std_srvs/srv/SetBool", f"{{data: {str(on).lower()}}}")
        print(self.station.record(on))

    def learn(self) -> None:
        """Call ~/adapt of the learner and wait for its answer."""
        _wait_on_the_ground()
        _print_service("/learner/adapt", "std_srvs/srv/Trigger")
        print(self.station.adapt(_ProgressLines()))

    def kill_learner(self) -> None:
        """SIGKILL while the learner learns; a new one finds everything as it was."""
        _wait_on_the_ground()
        before = _waiting_and_generations(self.store)
        _print_service("/learner/adapt", "std_srvs/srv/Trigger")
        self.station.start_adapting(until=lambda words: "learn " in words)
        print(f"$ kill -9 {self.learner.pid}    # the learner, in the middle of learning")
        self.learner.kill()
        self.learner.wait()
        self.learner = _start_learner(self.store, self.cycles)
        self.station.wait_until_active("/learner")
        after = _waiting_and_generations(self.store)
        print(f"missions waiting, generations: before {before}, after {after}")
        if before != after:
            raise AerialVprError("the kill changed the store")


def start_node(executable: str, store: Path, parameters: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a node of this package as `ros2 run` would, and print that command."""
    options = [word for parameter in (f"store:={store}", *parameters) for word in ("-p", parameter)]
    print(f"\n$ ros2 run aerial_vpr_cl {executable} --ros-args {shlex.join(options)} &", flush=True)
    return start_process(executable, options)


def _start_learner(store: Path, cycles: int | None) -> subprocess.Popen[bytes]:
    return start_node("learner_node", store, [f"cycles:={cycles}"] if cycles else [])


def _wait_on_the_ground() -> None:
    """The learner refuses until it has seen no speed for a while."""
    time.sleep(RECENT_S + 1.0)


def _waiting_and_generations(store: Path) -> tuple[list[str], list[int]]:
    opened = GenerationStore(store)
    return [mission.name for mission in opened.waiting_missions()], opened.numbers()


def _print_service(name: str, kind: str, request: str = "") -> None:
    print(f"\n$ ros2 service call {name} {kind} {shlex.quote(request) if request else ''}".rstrip(), flush=True)


class _ProgressLines:
    """What the learner says, every few seconds."""

    EVERY_S = 5.0

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, words: str) -> None:
        if time.monotonic() - self._last >= self.EVERY_S:
            self._last = time.monotonic()
            print(f"  {words}", flush=True)
