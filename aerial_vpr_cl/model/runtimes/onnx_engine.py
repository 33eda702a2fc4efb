"""ONNX Runtime: on the CPU, and by TensorRT or CUDA where the network computes on a GPU and the runtime can.

The package onnxruntime is optional; without it the network runs in PyTorch.
"""

from __future__ import annotations

import importlib
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from aerial_vpr_cl.errors import ModelError
from aerial_vpr_cl.model.network import Network
from aerial_vpr_cl.model.runtimes.engine_files import TAIL, TRUNK, EngineIdentity, find_engine
from aerial_vpr_cl.model.runtimes.graphs import INPUT, OPSET, tail_fingerprint
from aerial_vpr_cl.model.runtimes.names import INT8, ONNX

TENSORRT, CUDA, CPU = "TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"
NAMES = {TENSORRT: "TensorRT", CUDA: "CUDA", CPU: "CPU"}
WARNINGS_AND_WORSE = 3  # of ONNX Runtime's log: 2 warns of every node that stays on the CPU


class OnnxEngine:
    """Two sessions, the trunk's and the tail's; a newer generation takes over the trunk's."""

    def __init__(self, name: str, trunk: Any, tail: Any, trunk_path: Path) -> None:
        self.name = name
        self.trunk = trunk
        self.trunk_path = trunk_path
        self._tail = tail

    def scores(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Cosines by the two graphs, one after the other."""
        (features,) = self.trunk.run(None, {INPUT: images})
        (scores,) = self._tail.run(None, {INPUT: features})
        return scores


def open_onnx(folder: Path, network: Network, precision: str, previous: OnnxEngine | None = None) -> OnnxEngine:
    """The engines of a network in a folder; ModelError says why there are none.

    `previous` is the engine in use, whose trunk is taken over where it is the same.
    """
    providers = providers_for(network.device, precision)
    trunk_path = find_engine(folder, identity_of(network, TRUNK, precision))
    tail_path = find_engine(folder, identity_of(network, TAIL, precision))
    same_trunk = previous is not None and previous.trunk_path == trunk_path
    trunk = previous.trunk if same_trunk and previous is not None else open_session(trunk_path, providers)
    tail = open_session(tail_path, providers)
    provider = NAMES.get(trunk.get_providers()[0], trunk.get_providers()[0])
    return OnnxEngine(f"{precision} ({provider})", trunk, tail, trunk_path)


def open_session(path: Path, providers: list[Any] | None = None) -> Any:
    """A graph ready to run, with as many threads as PyTorch has; waiting ones sleep, as others need the processor."""
    runtime = onnxruntime()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = WARNINGS_AND_WORSE
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return runtime.InferenceSession(str(path), options, providers=_with_caches(providers or [CPU], path.parent))
    except Exception as error:  # its exceptions have no common base
        raise ModelError(f"{path}: ONNX Runtime cannot use it: {error}") from None


def providers_for(device: torch.device, precision: str) -> list[str]:
    """Who may run the graphs of a network on this device, the fastest first; ModelError if nobody fits.

    Quantised graphs are judged on the CPU, and run there only.
    """
    if device.type == "cpu":
        return [CPU]
    there = onnxruntime().get_available_providers()
    found = [name for name in (TENSORRT, CUDA) if name in there and device.type == "cuda" and precision == ONNX]
    if not found:
        raise ModelError(f"ONNX Runtime {onnxruntime().__version__} has nothing for {precision} on {device.type} here")
    return [*found, CPU]


def identity_of(network: Network, part: str, precision: str) -> EngineIdentity:
    """What the engine of a part of this network is built from.

    A plain graph is the same for every version of the runtime. A quantised one was accepted for what a version did
    with it on one kind of processor.
    """
    fingerprint = network.backbone.trunk.fingerprint if part == TRUNK else tail_fingerprint(network)
    quantised = precision == INT8
    runtime = f"onnxruntime {onnxruntime().__version__} {platform.machine()}" if quantised else f"opset {OPSET}"
    return EngineIdentity(part, precision, fingerprint, network.input_size, runtime)


def onnxruntime() -> Any:
    """The module; ModelError where it is not installed."""
    try:
        return importlib.import_module("onnxruntime")
    except ImportError as error:
        raise ModelError(f"ONNX Runtime is not installed ({error}); pip install onnxruntime") from None


def _with_caches(providers: list[str], folder: Path) -> list[Any]:
    # TensorRT builds for minutes what it then finds again; it names the files by graph, version and GPU itself.
    cache = {"trt_engine_cache_enable": True, "trt_engine_cache_path": str(folder)}
    return [(name, cache) if name == TENSORRT else name for name in providers]
