"""What computes the network fastest, and does it give the same cells? PyTorch, compiled, ONNX Runtime, OpenVINO, int8.

    OMP_NUM_THREADS=1 python benchmarks/runtimes.py [STORE] [--results benchmarks/results/runtimes.md]

All runtimes take turns in one run on the same views, one at a time and as many at once as unknown headings need. Times
are processor time of the whole process, on one thread: the clock of a shared machine says little. With a STORE its
newest generation is measured, on views of its map and flights that int8 was not calibrated on; without one an
EfficientNet-Lite0 with ImageNet weights and random heads, on noise, where the cells of int8 mean nothing.
Compiling takes minutes (--compiled), OpenVINO is measured where it is installed.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.knowledge.engines import Views, views_of
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.knowledge import load_knowledge
from aerial_vpr_cl.localization.localizer import Localizer
from aerial_vpr_cl.model.network import Network, NetworkSettings
from aerial_vpr_cl.model.runtimes.engine import Engine, TorchEngine
from aerial_vpr_cl.model.runtimes.graphs import INPUT, write_tail, write_trunk
from aerial_vpr_cl.model.runtimes.names import EAGER
from aerial_vpr_cl.model.runtimes.onnx_engine import OnnxEngine, onnxruntime, open_session
from aerial_vpr_cl.model.runtimes.quantisation import quantise

BATCHES = (1, 12)
"""A known heading, and the headings that a compass of ±180° leaves to a network trained for 10°."""
FIRST_ANSWER = """
from aerial_vpr_cl.localization.localizer import Localizer
Localizer.open({store!r}, runtime={runtime!r}).warm_up()
"""


class OpenVino:
    """Intel's runtime over the same two graphs, in fp32."""

    name = "OpenVINO"

    def __init__(self, trunk: Path, tail: Path) -> None:
        import openvino

        core = openvino.Core()
        wanted = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
        self._trunk, self._tail = (core.compile_model(str(path), "CPU", wanted) for path in (trunk, tail))

    def scores(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Cosines."""
        return np.asarray(self._tail(self._trunk(images)[0])[0])


@dataclass
class Row:
    """What one runtime did."""

    difference: float  # largest, of a cosine, from PyTorch's
    same_cells: float  # share of views
    times_ms: dict[int, list[float]] = field(default_factory=dict)  # of a batch, by its size

    def ms(self, batch: int) -> float:
        """Of one view."""
        return statistics.median(self.times_ms[batch]) / batch


def engines_for(network: Network, views: Views, folder: Path, compiled: bool) -> dict[str, Engine]:
    """Every runtime that is installed here, PyTorch first."""
    plain = folder / "trunk.onnx", folder / "tail.onnx"
    rounded = folder / "trunk8.onnx", folder / "tail8.onnx"
    write_trunk(plain[0], network)
    write_tail(plain[1], network)
    quantise(plain[0], rounded[0], views.calibration)
    trunk = open_session(rounded[0])
    features = [trunk.run(None, {INPUT: view[None]})[0] for view in views.calibration]
    quantise(plain[1], rounded[1], np.concatenate(features))
    version = onnxruntime().__version__
    found: dict[str, Engine] = {
        f"{EAGER} (PyTorch {torch.__version__.split('+')[0]})": TorchEngine(network),
        f"onnx (ONNX Runtime {version})": OnnxEngine("onnx", *(open_session(path) for path in plain), plain[0]),
        f"int8 (ONNX Runtime {version})": OnnxEngine("int8", trunk, open_session(rounded[1]), rounded[0]),
    }
    try:
        found["OpenVINO"] = OpenVino(*plain)
    except ImportError:
        print("OpenVINO is not installed", file=sys.stderr)
    if compiled:
        found["compiled (torch.compile)"] = TorchEngine(network, compiled=True)
    return found


def compare(engines: dict[str, Engine], views: NDArray[np.uint8], rounds: int) -> dict[str, Row]:
    """All runtimes, by turns; the first is the reference."""
    answers = {name: np.concatenate([engine.scores(view[None]) for view in views]) for name, engine in engines.items()}
    reference = next(iter(answers.values()))
    rows = {
        name: Row(float(np.abs(scores - reference).max()), float((scores.argmax(1) == reference.argmax(1)).mean()))
        for name, scores in answers.items()
    }
    for batch in BATCHES:
        some = np.ascontiguousarray(np.resize(views, (batch, *views.shape[1:])))
        for engine in engines.values():
            engine.scores(some)  # compilers look at every new size of a batch
        for _ in range(rounds):
            for name, engine in engines.items():
                taken = processor_ms(lambda engine=engine, some=some: engine.scores(some))  # type: ignore[misc]
                rows[name].times_ms.setdefault(batch, []).append(taken)
    return rows


def processor_ms(work: Callable[[], object]) -> float:
    """Processor time of all threads of this process."""
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1e3


def starting(store: Path, runtimes: list[str]) -> dict[str, tuple[float, float]]:
    """By runtime: seconds of processor time from nothing to the first answer, and for a newer generation after that."""
    found = {}
    for runtime in runtimes:
        before = os.times()
        command = FIRST_ANSWER.format(store=str(store), runtime=runtime)
        subprocess.run([sys.executable, "-c", command], check=True)
        after = os.times()
        start = after.children_user + after.children_system - before.children_user - before.children_system
        localizer = Localizer.open(store, runtime=runtime)
        reload_ms = processor_ms(lambda: Localizer.open(store, runtime=runtime, previous=localizer).warm_up())  # noqa: B023
        found[localizer.engine.name] = start, reload_ms / 1e3
    return found


def report(what: str, rows: dict[str, Row], n_views: int, started: dict[str, tuple[float, float]], command: str) -> str:
    """The tables."""
    first = next(iter(rows.values()))
    head = " | ".join(f"{'one view' if batch == 1 else f'batch of {batch}, each'} ÷ PyTorch" for batch in BATCHES)
    lines = [
        "# What computes the network",
        "",
        f"`{command}`",
        "",
        f"{what}; {platform.machine()}, one thread, processor time, medians of runs by turns. Load of the machine "
        f"meanwhile: {os.getloadavg()[1]:.1f} on {os.cpu_count()} processors. Cells on {n_views} held-out views.",
        "",
        f"| runtime | {head} | ms, one view | ms, batch, each | same cells | largest difference of a cosine |",
        "|---|" + "--:|" * (len(BATCHES) + 4),
    ]
    for name, row in rows.items():
        ratios = " | ".join(f"**{row.ms(batch) / first.ms(batch):.2f}**" for batch in BATCHES)
        times = " | ".join(f"{row.ms(batch):.1f}" for batch in BATCHES)
        lines.append(f"| {name} | {ratios} | {times} | {row.same_cells:.1%} | {row.difference:.1g} |")
    if started:
        lines += ["", "| runtime | start of a process to the first answer, s | newer generation (hot reload), s |"]
        lines += ["|---|--:|--:|"]
        lines += [f"| {name} | {start:.1f} | {reload:.2f} |" for name, (start, reload) in started.items()]
    return "\n".join([*lines, ""])


def untrained(backbone: str) -> tuple[Network, Views]:
    """A network over 400 cells, and noise to show it."""
    grid = Grid(32614, 200.0, 2, np.array([(i, j) for i in range(20) for j in range(20)]))
    weights = None if backbone == "tf_efficientnet_lite0" else "random"
    network = Network.build(NetworkSettings(backbone), grid, weights=weights)
    noise = np.random.default_rng(0).integers(0, 256, (48, network.input_size, network.input_size, 3), np.uint8)
    views = np.stack([cv2.GaussianBlur(view, (0, 0), 2) for view in noise])
    return network, Views(views[:16], views[16:])


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "store", type=Path, nargs="?", help="measure its newest generation; exported before, also starts"
    )
    parser.add_argument("--backbone", default="tf_efficientnet_lite0", help="without a store")
    parser.add_argument("--views", type=int, default=400, help="held-out views, at most (default: 400)")
    parser.add_argument("--rounds", type=int, default=15, help="default: 15")
    parser.add_argument("--compiled", action="store_true", help="also torch.compile, which takes minutes")
    parser.add_argument("--results", type=Path, help="write the tables to this file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    if args.store:
        known = load_knowledge(GenerationStore(args.store))
        network, views = known.network, views_of(known)
        what = f"{network.backbone.name}, {network.grid.n_classes} cells, a trained store"
    else:
        network, views = untrained(args.backbone)
        what = f"{args.backbone}, {network.grid.n_classes} cells, untrained"
    views = views._replace(held_out=views.held_out[-args.views :])
    with tempfile.TemporaryDirectory() as folder:
        rows = compare(engines_for(network, views, Path(folder), args.compiled), views.held_out, args.rounds)
    started = starting(args.store, ["eager", "onnx"]) if args.store else {}
    options = f"{' STORE' if args.store else f' --backbone {args.backbone}'}{' --compiled' if args.compiled else ''}"
    command = f"OMP_NUM_THREADS=1 python benchmarks/runtimes.py{options} --views {args.views} --rounds {args.rounds}"
    text = report(what, rows, len(views.held_out), started, command)
    print(text)
    if args.results:
        args.results.write_text(text)


if __name__ == "__main__":
    main()
