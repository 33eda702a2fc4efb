"""Engines of a store: the frozen trunk once, the tail with every generation, in STORE/engines.

They are a cache of what map and generation hold: whatever is missing or damaged there is made again by an export.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.errors import ModelError
from aerial_vpr_cl.images import decode_compressed
from aerial_vpr_cl.knowledge.draft import TAIL_FILE
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.knowledge import Knowledge, load_knowledge
from aerial_vpr_cl.model.network import Network
from aerial_vpr_cl.model.runtimes.engine_files import TAIL, TRUNK, find_engine, keep_engine, prune_engines
from aerial_vpr_cl.model.runtimes.graphs import INPUT, write_tail, write_trunk
from aerial_vpr_cl.model.runtimes.names import INT8, ONNX
from aerial_vpr_cl.model.runtimes.onnx_engine import OnnxEngine, identity_of, open_onnx, open_session
from aerial_vpr_cl.model.runtimes.quantisation import Judgement, in_parts, judge, quantise
from aerial_vpr_cl.progress import Progress, silent

log = logging.getLogger(__name__)

ENGINES_FOLDER = "engines"
CALIBRATION_VIEWS, HELD_OUT_VIEWS = 160, 400
"""Enough for ranges of activations; and enough that four changed cells are one per cent."""


class Views(NamedTuple):
    """(n, S, S, 3) views to quantise by, and others to judge by: patches of the map and replayed frames."""

    calibration: NDArray[np.uint8]
    held_out: NDArray[np.uint8]


class Exported(NamedTuple):
    """What an export left in the store."""

    generation: int
    paths: list[Path]
    judgement: Judgement | None = None  # of int8, where it was asked for


def engines_of(store: Path) -> Path:
    """Where the engines of a store lie."""
    return Path(store) / ENGINES_FOLDER


def export_engines(store: Path, *, int8: bool = False, progress: Progress = silent) -> Exported:
    """Make the engines of the newest generation; with `int8` also quantised ones, ModelError if they are refused."""
    known = load_knowledge(GenerationStore(store))
    folder = engines_of(store)
    progress("export", 0, 2 + int8)
    paths = _export_plain(folder, known.network)
    progress("export", 2, 2 + int8)
    judgement = None
    if int8:
        judgement = _export_int8(folder, known.network, views_of(known))
        paths += [find_engine(folder, identity_of(known.network, part, INT8)) for part in (TRUNK, TAIL)]
        progress("export", 3, 3)
    prune_engines(folder, known.network.backbone.trunk.fingerprint)
    return Exported(known.generation.number, paths, judgement)


def follow_with_engines(store: Path, known: Knowledge) -> None:
    """Engines of what is about to be committed, as far as the store has engines: whoever loads it then finds them.

    Never fails: without them the network runs in PyTorch. Nor do they take the room that the generation needs.
    """
    folder = engines_of(store)
    largest = (known.generation.path / TAIL_FILE).stat().st_size
    if folder.is_dir() and shutil.disk_usage(folder).free < known.bytes_of_next() + 2 * largest:
        log.warning("the next generation has no engines: the disk has room for it alone")
        return
    for precision in (ONNX, INT8):
        try:
            find_engine(folder, identity_of(known.network, TRUNK, precision))
        except ModelError:
            continue  # nobody asked for it
        try:
            if precision == ONNX:
                _export_plain(folder, known.network)
            else:
                _export_int8(folder, known.network, views_of(known))
        except Exception as error:  # a full disk, another export beside it: nothing that learning should end for
            log.warning("the next generation has no %s engine: %s", precision, error)
    prune_engines(folder, known.network.backbone.trunk.fingerprint)


def views_of(known: Knowledge) -> Views:
    """Views of the map and of the flights that a generation remembers."""
    folder, exemplars, size, rng = known.map, known.exemplars, known.network.input_size, np.random.default_rng(0)
    rows = np.unique(np.linspace(0, len(exemplars) - 1, min(CALIBRATION_VIEWS, len(exemplars))).astype(int))
    calibration = exemplars.read(rows, size, folder.satellite)
    # Between the places that patches are cut at: none of these was learnt or calibrated on.
    patches = folder.patches
    chosen = rng.choice(len(patches), min(HELD_OUT_VIEWS, len(patches)), replace=False)
    places = patches.centres[chosen] + rng.choice([-0.4, 0.4], (len(chosen), 2)) * folder.settings.stride_m
    held_out, _ = folder.satellite.read_patches(places, patches.angles_deg[chosen], patches.footprint_m, size)
    flown = [decode_compressed(observation.image) for observation in known.buffer]
    if flown:
        replayed = known.network.resize(flown)
        calibration = np.concatenate([calibration, replayed[0::2][:CALIBRATION_VIEWS]])
        held_out = np.concatenate([held_out, replayed[1::2][:HELD_OUT_VIEWS]])
    return Views(calibration, held_out)


def _export_plain(folder: Path, network: Network) -> list[Path]:
    return [
        keep_engine(folder, identity_of(network, part, ONNX), lambda path, write=write: write(path, network))  # type: ignore[misc]
        for part, write in ((TRUNK, write_trunk), (TAIL, write_tail))
    ]


def _export_int8(folder: Path, network: Network, views: Views) -> Judgement:
    exact = open_onnx(folder, network, ONNX)
    plain_trunk, plain_tail = (find_engine(folder, identity_of(network, part, ONNX)) for part in (TRUNK, TAIL))
    trunk_path = keep_engine(
        folder, identity_of(network, TRUNK, INT8), lambda path: quantise(plain_trunk, path, views.calibration)
    )
    trunk = open_session(trunk_path)

    def judged(tail: Path) -> Judgement:
        return judge(OnnxEngine(INT8, trunk, open_session(tail), trunk_path), exact, views.held_out)

    def make(path: Path) -> None:
        features = [trunk.run(None, {INPUT: part})[0] for part in in_parts(views.calibration)]
        quantise(plain_tail, path, np.concatenate(features))
        if refusal := judged(path).refusal:  # an engine that is kept may be used
            raise ModelError(refusal)

    return judged(keep_engine(folder, identity_of(network, TAIL, INT8), make))
