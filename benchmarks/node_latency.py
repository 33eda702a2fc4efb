"""How long a pilot waits: from an image sent over DDS to the position heard, while the node searches and tracks.

    python benchmarks/node_latency.py [--frames 30] [--rounds 6] [--results benchmarks/results/node_latency.md]

A simulated autumn flight over a summer map of 17 km², camera of 640 × 480 pixels, JPEG, played over DDS to the real
node in a process of its own, instruments and all: each frame after the answer to the one before. After every round the
node is told to forget where it is (`~/relocalize`), so that it searches the whole map again. The network is
EfficientNet-Lite0 with random weights: its cells say nothing, but take their time. By the clock, on all cores.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

os.environ.setdefault("ROS_DOMAIN_ID", "92")
os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")

import numpy as np
import rclpy
from rclpy.node import Node
from scale_first_fix import AUTUMN
from sensor_msgs.msg import NavSatFix
from std_srvs.srv import Trigger

from aerial_vpr_cl.commands.simulate import write_world_map
from aerial_vpr_cl.evaluation.store_evaluation import follow
from aerial_vpr_cl.knowledge.facts import GenerationFacts
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.knowledge import commit_generation
from aerial_vpr_cl.knowledge.map_folder import TRUNK_FILE, build_map, open_map
from aerial_vpr_cl.localization.estimate import Estimate, Rejection
from aerial_vpr_cl.localization.open_tracker import open_tracker
from aerial_vpr_cl.localization.orientation_file import open_orientation
from aerial_vpr_cl.memory.buffer import ReplayBuffer
from aerial_vpr_cl.mission.frames import Frame
from aerial_vpr_cl.mission.mission import read_flight
from aerial_vpr_cl.mission.playback import Cue, header_stamp_ns, open_playback, with_header_stamp
from aerial_vpr_cl.model.checkpoint import save_trunk
from aerial_vpr_cl.model.network import Network, NetworkSettings
from aerial_vpr_cl.nodes.node_processes import end_process, start_process
from aerial_vpr_cl.nodes.replay import message_class
from aerial_vpr_cl.satellite.patches import PatchSettings
from aerial_vpr_cl.simulation.camera import CameraSettings
from aerial_vpr_cl.simulation.scenario import Scenario
from aerial_vpr_cl.simulation.sorties import simulate_mission
from aerial_vpr_cl.simulation.world.procedural import ProceduralWorld
from aerial_vpr_cl.simulation.world.terrain import WorldSettings

SIDE_M = 4100.0
PATIENCE_S, TRIES = 60.0, 6
READING_S, SETTLE_S = 0.001, 0.1


def make_store(folder: Path, world: WorldSettings) -> Path:
    """A store over the world's summer, with a network that knows nothing."""
    raster = folder / "world.tif"
    write_world_map(Scenario(world=world), raster)
    store = GenerationStore.create(folder / "store")
    built = build_map(raster, store.root, PatchSettings(footprint_m=450.0))
    network = Network.build(
        NetworkSettings("tf_efficientnet_lite0", view=built.settings.view_kind), built.grid, weights="random"
    )
    network.temperature.fill_(1.0)
    save_trunk(built.path / TRUNK_FILE, network)
    commit_generation(store, network, ReplayBuffer.empty(built.grid.n_groups), GenerationFacts())
    open_orientation(open_map(store.root))  # made once and kept, as `build-map` does
    return store.root


@dataclass
class Pilot:
    """Plays a bag to the node and waits for each answer."""

    node: Node
    cues: list[Cue]
    answers: dict[int, tuple[float, bool]] = field(default_factory=dict)  # stamp → when heard, and if it is a position

    def __post_init__(self) -> None:
        kinds = {cue.topic: message_class(cue.message_type) for cue in self.cues}
        self._outputs = {topic: self.node.create_publisher(kind, topic, 10) for topic, kind in kinds.items()}
        self.node.create_subscription(NavSatFix, "localization/fix", self._hear, 100)
        self._relocalize = self.node.create_client(Trigger, "localization/relocalize")

    def play(self, shift_ns: int) -> list[tuple[bool, float]]:
        """The whole flight, so much later than it was flown: of every frame if it got a position, and milliseconds."""
        found = []
        for cue in self.cues:
            data = with_header_stamp(cue.data, header_stamp_ns(cue.data) + shift_ns)
            if cue.is_frame:
                time.sleep(SETTLE_S)  # in flight readings come one by one, and have been heard by now
                found.append(self._ask(cue, data, cue.stamp_ns + shift_ns))
            else:
                self._outputs[cue.topic].publish(data)
                time.sleep(READING_S)
        return found

    def forget(self) -> None:
        """Make the node search again."""
        reply = self._relocalize.call_async(Trigger.Request())
        self._wait(reply.done)

    def wait_until_heard(self) -> None:
        """The node is there and knows our topics."""
        if not self._wait(lambda: all(p.get_subscription_count() for p in self._outputs.values()) and self._ready()):
            raise SystemExit("the node does not listen")

    def _ready(self) -> bool:
        return self._relocalize.service_is_ready()

    def _hear(self, fix: NavSatFix) -> None:
        stamp_ns = fix.header.stamp.sec * 10**9 + fix.header.stamp.nanosec
        self.answers.setdefault(stamp_ns, (time.perf_counter(), fix.status.status >= 0))

    def _ask(self, cue: Cue, data: bytes, stamp_ns: int) -> tuple[bool, float]:
        """Whether a frame gets a position, and the milliseconds until its answer; sent again if DDS lost it."""
        for _ in range(TRIES):
            sent = time.perf_counter()
            self._outputs[cue.topic].publish(data)
            if self._wait(lambda: stamp_ns in self.answers, PATIENCE_S / TRIES):
                heard, is_position = self.answers[stamp_ns]
                return is_position, 1e3 * (heard - sent)
        raise SystemExit("the node does not answer")

    def _wait(self, condition: Callable[[], bool], limit_s: float = PATIENCE_S) -> bool:
        end = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > end:
                return False
            rclpy.spin_once(self.node, timeout_sec=0.05)
        return True


def measure(scratch: Path, frames: int, rounds: int) -> dict[str, list[float]]:
    """Milliseconds by what the node was doing."""
    world = WorldSettings(seed=3, width_m=SIDE_M, height_m=SIDE_M, resolution_m=5.0)
    store, bag = make_store(scratch, world), scratch / "autumn"
    spec = replace(AUTUMN, frames=frames, camera=CameraSettings(width_px=640, height_px=480, hfov_deg=62.0))
    simulate_mission(ProceduralWorld(world), spec, bag)
    playback = open_playback(bag)
    cues = list(playback)
    parameters = {"store": store, "recording.mode": "never", **playback.parameters()}
    told = [word for name, value in parameters.items() for word in ("-p", f"{name}:={value}")]
    process = start_process("localization_node", told)
    rclpy.init()
    node, found = rclpy.create_node("pilot"), {}
    try:
        pilot = Pilot(node, cues)
        pilot.wait_until_heard()
        span_ns = cues[-1].time_ns - cues[0].time_ns + 10**10
        for number in range(rounds):
            for is_position, ms in pilot.play(number * span_ns)[1 if number == 0 else 0 :]:  # the first one warms up
                found.setdefault("tracking" if is_position else "searching", []).append(ms)
            pilot.forget()
    finally:
        node.destroy_node()
        rclpy.try_shutdown()
        end_process(process, (20.0,) * 3)
    return found | {"alone": alone_ms(store, bag)}


def alone_ms(store: Path, bag: Path) -> list[float]:
    """Milliseconds of the same frames in this process: decoded and tracked, without ROS; those that got a position."""
    taken = []

    def note(row: int, frame: Frame, answer: Estimate | Rejection, seconds: float) -> None:
        if isinstance(answer, Estimate):
            taken.append(1e3 * seconds)

    tracker = open_tracker(store)
    follow(tracker, read_flight(bag, tracker.grid), watch=note)
    return taken


def report(found: dict[str, list[float]], command: str, load: float) -> str:
    """The result as Markdown."""
    lines = [
        "# From an image to its position, through the whole node",
        "",
        f"`{command}`",
        "",
        "A flight of another season over a map of 17 km², frames of 640 × 480 pixels as JPEG, EfficientNet-Lite0; from",
        "the image sent to the position heard in another process, over DDS, by the clock. Searching means the whole",
        f"map. {platform.machine()}, {os.cpu_count()} cores. Load of the machine meanwhile: {load:.1f}.",
        "",
        "| the node is | frames | median (ms) | p95 (ms) | to hold, p95 (ms) |",
        "|---|--:|--:|--:|--:|",
    ]
    for state, limit in (("tracking", 100), ("searching", 400)):
        taken = found.get(state, [])
        if taken:
            middle, most = np.percentile(taken, [50, 95])
            lines.append(f"| {state} | {len(taken)} | {middle:.0f} | {most:.0f} | {limit} |")
    ratio = np.median(found["tracking"]) / np.median(found["alone"])
    return "\n".join(
        [
            *lines,
            "",
            "The same frames decoded and tracked in one process, without ROS, took "
            f"{np.median(found['alone']):.0f} ms in the median: the node",
            f"takes {ratio:.2f} times as long, DDS there and back included.",
        ]
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=30, help="of the flight (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=6, help="times it is flown (default: %(default)s)")
    parser.add_argument("--results", type=Path, help="write the table here, too")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = measure(Path(scratch), args.frames, args.rounds)
    command = f"python benchmarks/node_latency.py --frames {args.frames} --rounds {args.rounds}"
    text = report(found, command, os.getloadavg()[0])
    print(text)
    if args.results:
        args.results.write_text(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
