"""int8: weights per channel, activations by ranges seen on calibration views; believed only after a comparison.

Static quantisation keeps depthwise convolutions usable, dynamic per-tensor quantisation does not. Whether it is faster
depends on the processor, and whether it keeps the cells depends on the network: both are measured before it is used.
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.errors import ModelError
from aerial_vpr_cl.model.runtimes.engine import Engine
from aerial_vpr_cl.model.runtimes.graphs import INPUT

BATCH = 8
LEAST_AGREEMENT = 0.99
"""Share of held-out views whose best cell must stay the same."""
TIMED_RUNS = 15
QUANTISED = ("Conv", "MatMul", "Clip", "Relu", "Add")
"""Operators that take the time, and those after them: a ReLU6 that is left out would have what it cuts off spread the
range. The last product, descriptor with class rows, stays exact (`_heads_of`)."""


def in_parts(rows: NDArray[Any]) -> list[NDArray[Any]]:
    """Rows in batches of a few."""
    return np.split(rows, range(BATCH, len(rows), BATCH))


def quantise(plain: Path, quantised: Path, inputs: NDArray[Any]) -> None:
    """Write a graph in int8, its activations' ranges from what (n, …) inputs cause in it."""
    try:
        from onnxruntime import quantization
    except ImportError as error:
        raise ModelError(f"quantising needs the packages onnxruntime and onnx ({error})") from None

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._rows = iter(in_parts(inputs))

        def get_next(self) -> dict[str, NDArray[Any]] | None:
            part = next(self._rows, None)
            return None if part is None else {INPUT: part}

    with _quiet():
        quantization.quantize_static(
            str(plain),
            str(quantised),
            Reader(),
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=True,
            activation_type=quantization.QuantType.QUInt8,  # on x86 twice as fast as signed ones
            weight_type=quantization.QuantType.QInt8,
            op_types_to_quantize=list(QUANTISED),
            nodes_to_exclude=_heads_of(plain),
        )


@dataclass(frozen=True)
class Judgement:
    """A quantised engine beside the exact one, on views that it was not calibrated on."""

    agreement: float  # share of views with the same best cell
    views: int
    time_ratio: float  # quantised ÷ exact, one view at a time

    @property
    def refusal(self) -> str:
        """Why it must not be used; empty if it may."""
        if self.agreement < LEAST_AGREEMENT:
            return (
                f"int8 is refused: {self.agreement:.1%} of {self.views} held-out views keep their cell, "
                f"{LEAST_AGREEMENT:.0%} are needed"
            )
        if self.time_ratio >= 1.0:
            return f"int8 is refused: it takes {self.time_ratio:.2f} of the time of the exact engine on this computer"
        return ""


def judge(quantised: Engine, exact: Engine, views: NDArray[np.uint8]) -> Judgement:
    """Compare two engines on (n, S, S, 3) held-out views."""
    same = [quantised.scores(part).argmax(axis=1) == exact.scores(part).argmax(axis=1) for part in in_parts(views)]
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(TIMED_RUNS):  # in turns: whatever else the computer does meets both
        for engine, taken in zip((quantised, exact), seconds):
            start = time.perf_counter()
            engine.scores(views[:1])
            taken.append(time.perf_counter() - start)
    ratio = statistics.median(seconds[0]) / statistics.median(seconds[1])
    return Judgement(float(np.concatenate(same).mean()), len(views), ratio)


def _heads_of(path: Path) -> list[str]:
    """The node that gives the scores, if the graph ends with a product: a rounded class row would be another place."""
    import onnx

    last = onnx.load(str(path), load_external_data=False).graph.node[-1]
    return [last.name] if last.op_type in ("MatMul", "Gemm") else []


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the advice to optimise the graph first, which the sessions do themselves."""
    logger = logging.getLogger()
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
