"""What does the localization node cost beside its network? Node time per frame ÷ bare network time, and where it goes.

    OMP_NUM_THREADS=1 python benchmarks/node_overhead.py [--results benchmarks/results/node_overhead.md]

The node runs in its own process and gets frames over DDS, each after the answer to the one before. The bare network
runs here on preprocessed tensors. Both take turns in one run. Two ratios: the way of a frame through the node, from its
arrival to the published position, by the clock; and processor time, the node's being that of its whole process, with
the executor and DDS, which mostly work while the network does. Weights are random.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("ROS_DOMAIN_ID", "91")
os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
REPOSITORY = Path(__file__).resolve().parents[1]
os.environ.setdefault("FASTRTPS_DEFAULT_PROFILES_FILE", str(REPOSITORY / "config" / "fastdds_shared_memory.xml"))

import cv2  # noqa: E402
import numpy as np  # noqa: E402
import rasterio  # noqa: E402
import rclpy  # noqa: E402
import torch  # noqa: E402
from diagnostic_msgs.msg import DiagnosticArray  # noqa: E402
from rasterio.transform import from_origin  # noqa: E402
from rclpy.qos import qos_profile_sensor_data  # noqa: E402
from rclpy.serialization import deserialize_message, serialize_message  # noqa: E402
from sensor_msgs.msg import CompressedImage, Image, NavSatFix  # noqa: E402
from std_msgs.msg import Header  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402

from aerial_vpr_cl.knowledge.facts import GenerationFacts  # noqa: E402
from aerial_vpr_cl.knowledge.generations import GenerationStore  # noqa: E402
from aerial_vpr_cl.knowledge.knowledge import commit_generation  # noqa: E402
from aerial_vpr_cl.knowledge.map_folder import TRUNK_FILE, build_map  # noqa: E402
from aerial_vpr_cl.localization.localizer import Localizer, is_blank  # noqa: E402
from aerial_vpr_cl.memory.buffer import ReplayBuffer  # noqa: E402
from aerial_vpr_cl.model.checkpoint import save_trunk  # noqa: E402
from aerial_vpr_cl.model.network import Network, NetworkSettings  # noqa: E402
from aerial_vpr_cl.nodes import messages  # noqa: E402
from aerial_vpr_cl.nodes.image_messages import decode_compressed_image, decode_image  # noqa: E402
from aerial_vpr_cl.satellite.patches import PatchSettings  # noqa: E402

BACKBONES = ("tf_efficientnet_lite0", "vit_base_patch14_dinov2")
SIDE_M = 4000.0
LIMIT = 1.10
WHOLE = ("node", "network", "network by the clock", "ratio", "latency", "start", "reload")
TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


def make_store(root: Path, backbone: str) -> Path:
    """A store of 400 cells with an untrained network that is sure of itself."""
    pixels = np.random.default_rng(0).integers(1, 256, (3, 200, 200), np.uint8)
    profile = {"driver": "GTiff", "width": 200, "height": 200, "count": 3, "dtype": "uint8", "crs": "EPSG:32614"}
    raster = root / "ground.tif"
    with rasterio.open(raster, "w", transform=from_origin(5e5, 5.2e6, SIDE_M / 200, SIDE_M / 200), **profile) as file:
        file.write(pixels)
    store = GenerationStore.create(root / "store")
    folder = build_map(raster, store.root, PatchSettings(rotations=1, view="as_seen"))
    network = Network.build(NetworkSettings(backbone), folder.grid, weights="random")
    network.temperature.fill_(0.02)
    save_trunk(folder.path / TRUNK_FILE, network)
    commit_generation(store, network, ReplayBuffer.empty(folder.grid.n_groups), GenerationFacts())
    return store.root


class NodeUnderTest:
    """The node as a process, and the camera and listener in this one."""

    def __init__(self, store: Path, transport: str, log: Path) -> None:
        parameters = {"store": store, "image_transport": transport, "min_confidence": 0.0, "recording.mode": "never"}
        parameters["answer"] = "single_frame"
        options = [word for name, value in parameters.items() for word in ("-p", f"{name}:={value}")]
        command = [sys.executable, "-m", "aerial_vpr_cl.nodes.entry", "localization_node", "--ros-args", *options]
        self.node = rclpy.create_node("benchmark")
        self.process = subprocess.Popen(command, stdout=log.open("wb"), stderr=subprocess.STDOUT)
        self.answers: list[NavSatFix] = []
        kind = CompressedImage if transport == "compressed" else Image
        self.camera = self.node.create_publisher(kind, "image", qos_profile_sensor_data)
        self.node.create_subscription(NavSatFix, "localization/fix", self.answers.append, 10)
        self.latency_ms = float("nan")
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, 10)

    def ask(self, message: Image | CompressedImage) -> None:
        """Send a frame and wait for its answer; sent again if DDS lost it."""
        before = len(self.answers)
        for _ in range(60):
            self.camera.publish(message)
            end = time.monotonic() + 3.0
            while len(self.answers) == before and time.monotonic() < end:
                rclpy.spin_once(self.node, timeout_sec=0.5)
            if len(self.answers) > before:
                return
        raise RuntimeError("the node does not answer")

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        (value,) = (value.value for value in message.status[0].values if value.key == "latency p50 (ms)")
        self.latency_ms = float(value) if value else self.latency_ms

    def settled_latency_ms(self) -> float:
        """Median of the node's last 300 frames, by its own diagnostics."""
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            rclpy.spin_once(self.node, timeout_sec=0.1)
        return self.latency_ms

    def reload_s(self) -> float:
        """Processor time of taking the newest generation into use again."""
        client = self.node.create_client(Trigger, "localization/reload")
        client.wait_for_service(60.0)
        before = self.cpu_s()
        rclpy.spin_until_future_complete(self.node, client.call_async(Trigger.Request()), timeout_sec=60.0)
        return self.cpu_s() - before

    def cpu_s(self) -> float:
        """Processor time of the whole process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * TICK_S

    def close(self) -> None:
        """End the node."""
        self.node.destroy_node()
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)


def camera_message(transport: str, width: int, height: int) -> Image | CompressedImage:
    """A natural-looking frame."""
    noise = np.random.default_rng(1).integers(0, 256, (height, width, 3), np.uint8)
    pixels = cv2.normalize(cv2.GaussianBlur(noise, (0, 0), 4), None, 0, 255, cv2.NORM_MINMAX)
    if transport == "compressed":
        return CompressedImage(format="jpeg", data=cv2.imencode(".jpg", pixels)[1].tobytes())
    return Image(height=height, width=width, encoding="bgr8", step=width * 3, data=pixels.tobytes())


def cpu_ms(work: Callable[[], object], times: int) -> float:
    """Processor time of this thread for one call, in milliseconds."""
    start = time.thread_time()
    for _ in range(times):
        work()
    return (time.thread_time() - start) / times * 1e3


def clock_ms(work: Callable[[], object], times: int) -> list[float]:
    """Time of each call by the clock, in milliseconds."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append((time.perf_counter() - start) * 1e3)
    return taken


def parts_of(localizer: Localizer, message: Image | CompressedImage) -> dict[str, Callable[[], object]]:
    """Every step of a frame's way through the node, to be timed alone."""
    decode = decode_compressed_image if isinstance(message, CompressedImage) else decode_image
    network, estimator = localizer.network, localizer.estimator
    data, image = bytes(serialize_message(message)), decode(message)
    tensor = network.preprocess([image])
    with torch.inference_mode():
        scores = network.scores(tensor)
        p = network.probabilities(scores)[0].numpy()
    estimate, header = estimator.estimate(p), Header()

    def probabilities() -> object:
        with torch.inference_mode():
            return network.probabilities(scores)[0].numpy()

    def answers() -> object:
        return [
            serialize_message(messages.fix_message(header, estimate, estimator)),
            serialize_message(messages.pose_message(header, estimate)),
        ]

    return {
        "deserialize the image": lambda: deserialize_message(data, type(message)),
        "decode": lambda: decode(message),
        "is it blank?": lambda: is_blank(image),
        "resize and normalise": lambda: network.preprocess([image]),
        "probabilities": probabilities,
        "position, covariance, confidence": lambda: estimator.estimate(p),
        "make and serialize two answers": answers,
    }


def measure(backbone: str, transport: str, args: argparse.Namespace) -> dict[str, float]:
    """Milliseconds of processor time per frame: bare network, node, and every part; medians over the rounds."""
    with tempfile.TemporaryDirectory() as folder:
        store = make_store(Path(folder), backbone)
        message = camera_message(transport, args.width, args.height)
        localizer = Localizer.open(store)
        parts = parts_of(localizer, message)
        decode = decode_compressed_image if transport == "compressed" else decode_image
        tensor = localizer.network.preprocess([decode(message)])

        def bare() -> object:
            with torch.inference_mode():
                return localizer.network.scores(tensor)

        node = NodeUnderTest(store, transport, Path(folder) / "log")
        rounds: dict[str, list[float]] = {}
        try:
            node.ask(message)
            start_s = node.cpu_s()
            reload_s = node.reload_s()
            for _ in range(3):
                node.ask(message)
            frames = max(4, round(args.seconds * 1e3 / statistics.median(clock_ms(bare, 3))))
            for _ in range(args.rounds):
                start = node.cpu_s()
                for _ in range(frames):
                    node.ask(message)
                rounds.setdefault("node", []).append((node.cpu_s() - start) / frames * 1e3)
                rounds.setdefault("network", []).append(cpu_ms(bare, frames))
                rounds.setdefault("network by the clock", []).extend(clock_ms(bare, frames))
                for name, part in parts.items():
                    rounds.setdefault(name, []).append(cpu_ms(part, 20))
            latency_ms = node.settled_latency_ms()
        finally:
            node.close()
    medians = {name: statistics.median(values) for name, values in rounds.items()}
    ratios = [n / b for n, b in zip(rounds["node"], rounds["network"])]
    ratio = statistics.median(ratios)
    return {**medians, "ratio": ratio, "latency": latency_ms, "start": start_s, "reload": reload_s}


def report(results: dict[tuple[str, str], dict[str, float]], args: argparse.Namespace) -> str:
    """The tables."""
    names = [f"{backbone}, {transport}" for backbone, transport in results]
    columns = list(results.values())
    parts = [name for name in columns[0] if name not in WHOLE]
    rest = [column["node"] - column["network"] - sum(column[part] for part in parts) for column in columns]
    lines = [
        "# What the localization node costs beside its network",
        "",
        f"`OMP_NUM_THREADS=1 python benchmarks/node_overhead.py --seconds {args.seconds:g} --rounds {args.rounds} "
        f"--width {args.width} --height {args.height}`",
        "",
        f"Time per frame in ms, median of {args.rounds} alternating rounds; frames of "
        f"{args.width} × {args.height} pixels; {platform.machine()}, one thread, random weights. "
        f"Load of the machine meanwhile: {os.getloadavg()[1]:.1f} on {os.cpu_count()} processors; the clock suffers.",
        "",
        "| | " + " | ".join(names) + " |",
        "|---|" + "---:|" * len(names),
        row("bare network, processor time", [f"{column['network']:.2f}" for column in columns]),
        row("node, whole process, processor time", [f"{column['node']:.2f}" for column in columns]),
        row(f"**node ÷ network** (hold ≤ {LIMIT:.2f})", [f"**{column['ratio']:.2f}**" for column in columns]),
        *(row(f"… {part}", [f"{column[part]:.2f}" for column in columns]) for part in parts),
        row("… executor, DDS and whatever else", [f"{value:.2f}" for value in rest]),
        row("bare network, by the clock", [f"{column['network by the clock']:.2f}" for column in columns]),
        row("node, arrival to position, by the clock", [f"{column['latency']:.2f}" for column in columns]),
        row(
            "node ÷ network, by the clock",
            [f"{column['latency'] / column['network by the clock']:.2f}" for column in columns],
        ),
        row("start of the process to the first answer, processor time, s", [f"{c['start']:.1f}" for c in columns]),
        row("hot reload (`~/reload`), processor time, s", [f"{c['reload']:.2f}" for c in columns]),
        "",
    ]
    return "\n".join(lines)


def row(name: str, cells: list[str]) -> str:
    """A line of the table."""
    return f"| {name} | " + " | ".join(cells) + " |"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="of network time per round (default: 1)")
    parser.add_argument("--rounds", type=int, default=5, help="default: 5")
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--height", type=int, default=480)
    parser.add_argument("--backbone", nargs="+", default=list(BACKBONES))
    parser.add_argument("--transport", nargs="+", choices=("raw", "compressed"), default=["raw", "compressed"])
    parser.add_argument("--results", type=Path, help="write the tables to this file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rclpy.init()
    results = {
        (backbone, transport): measure(backbone, transport, args)
        for backbone in args.backbone
        for transport in args.transport
    }
    rclpy.shutdown()
    text = report(results, args)
    print(text)
    if args.results:
        args.results.write_text(text)


if __name__ == "__main__":
    main()
