"""Which engine a network gets: the one that was asked for, or the fastest there is; PyTorch if nothing else works."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

import numpy as np

from aerial_vpr_cl.errors import ModelError
from aerial_vpr_cl.model.network import Network
from aerial_vpr_cl.model.runtimes.engine import Engine, TorchEngine
from aerial_vpr_cl.model.runtimes.names import AUTO, COMPILED, EAGER, INT8, ONNX
from aerial_vpr_cl.model.runtimes.onnx_engine import OnnxEngine, open_onnx

log = logging.getLogger(__name__)

FASTEST_FIRST = (INT8, ONNX)
"""int8 engines are kept only where they were measured to be faster and to give the same cells."""


class Chosen(NamedTuple):
    """An engine that has answered once, and why it is not the one that was wanted; empty if it is."""

    engine: Engine
    problem: str = ""


def choose_engine(
    network: Network, runtime: str = AUTO, folder: Path | None = None, previous: Engine | None = None
) -> Chosen:
    """An engine for a network, of those in `folder`; `previous` is the one in use, parts of which may serve again.

    Never fails: what does not work is said and logged, and PyTorch takes its place. A store that nothing was ever
    exported to lacks nothing.
    """
    wanted = FASTEST_FIRST if runtime == AUTO else (runtime,)
    exported = folder is not None and folder.is_dir()
    if runtime == EAGER or (runtime == AUTO and not exported):
        return Chosen(TorchEngine(network))
    problem = ""
    for name in wanted:
        try:
            engine = _open(network, name, folder, previous)
            engine.scores(np.zeros((1, network.input_size, network.input_size, 3), np.uint8))
            return Chosen(engine)
        except Exception as error:  # compilers and runtimes raise all kinds
            problem = f"runtime {name} is not used: {str(error) or repr(error)}"
    log.warning("%s; PyTorch computes the network", problem)
    return Chosen(TorchEngine(network), problem)


def _open(network: Network, name: str, folder: Path | None, previous: Engine | None) -> Engine:
    if name == COMPILED:
        return TorchEngine(network, compiled=True)
    if folder is None:
        raise ModelError("a network without a store has no engines")
    return open_onnx(folder, network, name, previous if isinstance(previous, OnnxEngine) else None)
