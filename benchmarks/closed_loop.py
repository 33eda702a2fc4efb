"""An autopilot's filter without GNSS: dead reckoning alone, set right by our command, aided by our odometry.

    python benchmarks/closed_loop.py FOLDER --arduplane PROGRAM --out OUT

FOLDER holds the rasters of config/scenarios/naip_nd.yaml, PROGRAM is ArduPlane built for its simulator (board sitl).
Every flight is a simulator, a simulated camera over a date that is not the map's, the localization node and the bridge:
processes of their own over MAVLink and DDS. The vehicle flies by what its filter believes. All nodes follow the
simulator's clock, so a slow computer may take --speed 0.5, and then twice the time; Ctrl-C ends a flight early and
keeps what was flown. The map's network is a random one: what is found is found by registration and belief.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

os.environ.setdefault("ROS_DOMAIN_ID", "92")
os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")

import numpy as np
import rclpy
from ardupilot import DISABLE_GPS, SOURCE_SET, Simulator, ThinLog, free_ports
from closed_loop_report import DEAD_RECKONING, TITLES, Record, report
from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.signals import SignalHandlerOptions
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import NavSatFix

from aerial_vpr_cl.knowledge.facts import GenerationFacts
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.knowledge import commit_generation
from aerial_vpr_cl.knowledge.map_folder import TRUNK_FILE, build_map, open_map
from aerial_vpr_cl.knowledge.readiness import what_is_missing
from aerial_vpr_cl.memory.buffer import ReplayBuffer
from aerial_vpr_cl.model.checkpoint import save_trunk
from aerial_vpr_cl.model.network import Network, NetworkSettings
from aerial_vpr_cl.satellite.patches import PatchSettings

REPOSITORY = Path(__file__).resolve().parents[1]
SCENARIO = REPOSITORY / "config" / "scenarios" / "naip_nd.yaml"
MAP_DATE = "m_4709963_se_14_1_20150926.tif"
HEIGHT_M = 470.0
RECTANGLE_M = 2200.0, 1400.0
"""East by north, around the middle of the map: room for a filter that has gone astray."""
HURRY = 20.0
WIND = {"SIM_WIND_SPD": 6.0, "SIM_WIND_DIR": 230.0, "SIM_WIND_TURB": 0.5}
LATER_WIND = {"SIM_WIND_SPD": 7.0, "SIM_WIND_DIR": 240.0}
"""Two minutes after GNSS was lost: 1.5 m/s that a filter without positions cannot see."""
LATER_S = 120.0
LOG_RATES_HZ = {
    "HEARTBEAT": 1.0,
    "ATTITUDE_QUATERNION": 4.0,
    "LOCAL_POSITION_NED": 4.0,
    "GLOBAL_POSITION_INT": 2.0,
    "GPS_RAW_INT": 1.0,
    "EXTENDED_SYS_STATE": 1.0,
    "GPS_GLOBAL_ORIGIN": 0.1,
}


def make_store(root: Path, raster: Path) -> Path:
    """A store over the map with an untrained network; made once."""
    if not what_is_missing(str(root)):
        return root
    store = GenerationStore.create(root)
    folder = build_map(raster, root, PatchSettings(cell_side_m=250.0, footprint_m=560.0), bands=[1, 2, 3])
    settings = NetworkSettings("tf_efficientnet_lite0", view=folder.settings.view_kind)
    network = Network.build(settings, folder.grid, weights="random")
    save_trunk(folder.path / TRUNK_FILE, network)
    commit_generation(store, network, ReplayBuffer.empty(folder.grid.n_groups), GenerationFacts())
    return root


class Nodes:
    """Camera, localization and bridge as processes that follow the simulator's clock, and a ROS node beside them."""

    def __init__(self, folder: Path, record: Record, simulator: Simulator) -> None:
        self._folder, self._processes = folder, []  # type: ignore[var-annotated]
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)  # Ctrl-C ends the flight, not the clock
        self._node = rclpy.create_node("closed_loop")
        self._clock = self._node.create_publisher(Clock, "/clock", 10)
        self._node.create_subscription(NavSatFix, "localization/fix", record.on_fix, 10)
        self._node.create_subscription(DiagnosticStatus, "localization/state", record.on_state, 10)
        simulator.listeners.append(self._tick)

    def start(self, module: str, parameters: Mapping[str, Any], settings_file: Path | None = None) -> None:
        """Start a node of this package."""
        words = [sys.executable, "-m", "aerial_vpr_cl.nodes.entry", module, "--ros-args"]
        words += ["--params-file", str(settings_file)] if settings_file else []
        for name, value in {**parameters, "use_sim_time": True}.items():
            words += ["-p", f"{name}:={json.dumps(value)}"]
        with (self._folder / f"{module}.log").open("wb") as log:
            self._processes.append(subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT))

    def _tick(self, message: Any, boot_ms: int) -> None:
        if message.get_type() != "ATTITUDE_QUATERNION":
            return
        clock = Clock()
        clock.clock.sec, clock.clock.nanosec = boot_ms // 1000, boot_ms % 1000 * 1_000_000
        self._clock.publish(clock)
        rclpy.spin_once(self._node, timeout_sec=0.0)
        if any(process.poll() is not None for process in self._processes):
            raise RuntimeError(f"a node has ended; see the logs in {self._folder}")

    def close(self) -> None:
        """End the nodes."""
        for process in self._processes:
            process.kill()
            process.wait()
        self._node.destroy_node()
        rclpy.shutdown()


def fly(case: str, store: Path, args: argparse.Namespace) -> Path:
    """One flight: up, GNSS off, and on for the minutes that are asked for; the file that keeps it."""
    grid, folder = open_map(store).grid, args.out / case
    middle = (grid.centres.min(axis=0) + grid.centres.max(axis=0)) / 2.0
    corners = [middle + np.array(RECTANGLE_M) / 2.0 * sign for sign in ((-1, -1), (-1, 1), (1, 1), (1, -1))]
    places = [tuple(float(value) for value in grid.projection.to_wgs84(point)) for point in (middle, *corners)]
    record, ports, began_s = Record(grid.projection), free_ports(2), time.monotonic()
    with ExitStack() as stack:
        home = (*places[0], 500.0, 0.0)
        simulator = stack.enter_context(Simulator(args.arduplane, folder, home, ports))
        simulator.listeners.append(record.take)
        if args.tlog:
            log = ThinLog(folder / "flight.tlog", LOG_RATES_HZ)
            stack.callback(log.close)
            simulator.listeners.append(log.take)
        for name, value in WIND.items():
            simulator.set(name, value)
        simulator.take_off(places[1:], HEIGHT_M, HURRY)  # type: ignore[arg-type]
        if case != DEAD_RECKONING:
            simulator.set("SIM_SPEEDUP", args.speed)
            nodes = Nodes(folder, record, simulator)
            stack.callback(nodes.close)
            camera = {"scenario": str(SCENARIO), "raster_dir": str(args.folder), "mission": args.mission}
            where = {"autopilot": f"udp:127.0.0.1:{ports[1]}", "rate_hz": args.rate_hz}
            nodes.start("simulated_camera_node", camera | where)
            flight = {"store": str(store), "image_transport": "compressed", "recording.mode": "never"}
            nodes.start("localization_node", flight)
            bridge = {"address": f"udp:127.0.0.1:{ports[0]}", "output": case}
            nodes.start("autopilot_bridge_node", bridge, REPOSITORY / "config" / "autopilot_ardupilot.yaml")
            tracked = lambda _: [name for _, name in record.states[-5:]] == ["tracking"] * 5  # noqa: E731
            simulator.until(tracked, "the localization to track", limit_s=900.0)
        corner = lambda message: message.get_type() == "MISSION_CURRENT" and message.seq == 3  # noqa: E731
        simulator.until(lambda message: message.get_type() == "MISSION_CURRENT" and message.seq != 3, "a corner")
        simulator.until(corner, "the first corner", limit_s=900.0)
        simulator.auxiliary(DISABLE_GPS, 2)
        if case == "odometry":
            simulator.auxiliary(SOURCE_SET, 1)
        since_s = record.now_s
        print(f"{case}: GNSS off after {since_s:.0f} s of flight", file=sys.stderr, flush=True)
        wall_s = time.monotonic()
        try:
            simulator.wait(LATER_S)
            for name, value in LATER_WIND.items():
                simulator.set(name, value)
            simulator.wait(max(60.0 * args.minutes - LATER_S, 0.0))
        except KeyboardInterrupt:
            print(f"{case}: ended after {record.now_s - since_s:.0f} s", file=sys.stderr, flush=True)
        speed = (record.now_s - since_s) / (time.monotonic() - wall_s)
    print(f"{case}: {time.monotonic() - began_s:.0f} s by the computer's clock", file=sys.stderr, flush=True)
    texts = [[stamp / 1000.0 - since_s, text] for stamp, text in simulator.texts]
    flown = {"errors": record.errors_m(record.filtered, since_s), "answers": record.errors_m(record.answers, since_s)}
    tracks = {"truth": np.array(record.truth)[::10], "filtered": np.array(record.filtered)[::10]}
    values = {**flown, **tracks, "delays_s": record.delays_s, "speed": speed, "since_s": since_s}
    kept = {name: np.round(value, 2).tolist() for name, value in values.items()}
    written = folder / "flight.json"
    written.write_text(json.dumps({"case": case, **kept, "texts": texts}))
    return written


def main(arguments: Sequence[str] | None = None) -> None:
    """Fly and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of the rasters")
    parser.add_argument("--arduplane", type=Path, required=True, help="ArduPlane's simulator")
    parser.add_argument("--out", type=Path, required=True, help="where records, logs and the picture go")
    parser.add_argument("--cases", nargs="+", default=list(TITLES), choices=list(TITLES))
    parser.add_argument("--mission", default="2019-VIS", help="mission of the scenario: what the camera sees")
    parser.add_argument("--minutes", type=float, default=10.0, help="without GNSS")
    parser.add_argument("--rate-hz", type=float, default=1.0, help="frames a second")
    parser.add_argument("--speed", type=float, default=1.0, help="of the simulated time; less on a slow computer")
    parser.add_argument("--tlog", action="store_true", help="also keep a thin .tlog of each flight")
    args = parser.parse_args(arguments)
    args.out, args.folder = args.out.resolve(), args.folder.resolve()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell has started it in the background
    store = make_store(args.out / "store", args.folder / MAP_DATE)
    report([fly(case, store, args) for case in args.cases], args.out / "closed_loop.png")


if __name__ == "__main__":
    main()
