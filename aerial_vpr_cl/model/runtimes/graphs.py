"""The network as two ONNX graphs: the frozen trunk, written once for a map, and all that learns, for a generation."""

from __future__ import annotations

import copy
import inspect
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aerial_vpr_cl.errors import ModelError
from aerial_vpr_cl.model.backbone import fingerprint_of
from aerial_vpr_cl.model.network import Network

OPSET = 17
"""Of ONNX: the first with LayerNormalization, read by every ONNX Runtime since 1.13 and TensorRT since 8.6."""
INPUT, OUTPUT = "images_or_features", "features_or_scores"


class TrunkGraph(nn.Module):
    """(B, S, S, 3) uint8 RGB to the trunk's outputs: the normalisation is part of it."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network.trunk_features(self.network.normalise(images))


class TailGraph(nn.Module):
    """The trunk's outputs to (B, C) cosines: tail, aggregation and heads."""

    rows: Tensor

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("rows", network.heads.unit_rows())

    def forward(self, features: Tensor) -> Tensor:
        return F.linear(self.network.features_of_trunk(features), self.rows)


def write_trunk(path: Path, network: Network) -> None:
    """Write the frozen part as ONNX."""
    _write(path, TrunkGraph(on_cpu(network)), _example(network))


def write_tail(path: Path, network: Network) -> None:
    """Write all that learns as ONNX."""
    network = on_cpu(network)
    with torch.no_grad():
        features = TrunkGraph(network)(_example(network))
    _write(path, TailGraph(network), features)


def tail_fingerprint(network: Network) -> str:
    """Of all that learns, with the trunk that it belongs to."""
    return f"{fingerprint_of(network.living_tensors())} after {network.backbone.trunk.fingerprint}"


def on_cpu(network: Network) -> Network:
    """The network itself, or a copy of it where it computes elsewhere."""
    return network if network.device.type == "cpu" else copy.deepcopy(network).cpu()


def _example(network: Network) -> Tensor:
    # Two images: with one the tracer could take the size of the batch for a constant.
    return torch.zeros((2, network.input_size, network.input_size, 3), dtype=torch.uint8)


def _write(path: Path, graph: nn.Module, example: Tensor) -> None:
    # The newer exporter needs two more packages, and writes nothing better for networks as plain as these.
    older: dict[str, Any] = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                graph.eval(),
                (example,),
                str(path),
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_axes={INPUT: {0: "batch"}, OUTPUT: {0: "batch"}},
                opset_version=OPSET,
                **older,
            )
    except Exception as error:  # the exporter raises whatever its parts raise
        raise ModelError(
            f"{path}: the network cannot be written as ONNX ({str(error).splitlines()[0] if str(error) else error!r}); "
            "are the packages of requirements/onnx.txt installed?"
        ) from error
