"""Classification beside retrieval: the same network, map and queries; what differs is accuracy, memory and time."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from aerial_vpr_cl.benchmark.protocol import Course
from aerial_vpr_cl.benchmark.retrieval import NearestPatchIndex
from aerial_vpr_cl.evaluation.metrics import distance_errors, summarize_errors
from aerial_vpr_cl.knowledge.map_folder import MapFolder
from aerial_vpr_cl.learning.trunk_outputs import Picture, TrunkOutputs, features_of, whole_image
from aerial_vpr_cl.model.network import Network

TIMED_QUERIES = 50


def compare(
    network: Network, course: Course, folder: MapFolder, trunk: TrunkOutputs, most_patches: int
) -> tuple[dict[str, Any], dict[str, float]]:
    """Facts and times of both ways on all test frames, those of held-out missions included.

    Times are of the search alone, a query at a time: the network runs in both ways alike.
    """
    queries = _features_of_tests(network, course, trunk)
    truth = np.concatenate([mission.positions for mission in course.missions])
    index = patch_index(network, folder, trunk, most_patches)
    heads = torch.cat([weight.detach() for weight in network.heads.weights])
    with torch.inference_mode():
        cells = network.heads.cosines(torch.from_numpy(queries).to(network.device)).argmax(dim=1).cpu().numpy()
    facts = {
        "patches": len(index.features),
        "classification": asdict(summarize_errors(distance_errors(course.grid.centres[cells], truth))),
        "retrieval": asdict(summarize_errors(distance_errors(index.locate(queries), truth))),
        "classification_bytes": heads.numel() * heads.element_size() + course.grid.centres.nbytes,
        "retrieval_bytes": index.memory_bytes,
    }

    @torch.inference_mode()
    def classify(query: NDArray[np.float32]) -> int:
        return int(network.heads.cosines(torch.from_numpy(query).to(network.device)).argmax())

    some = queries[:TIMED_QUERIES]
    times = {
        "classification_ms": _median_ms(classify, some),
        "retrieval_ms": _median_ms(index.nearest, some),
    }
    return facts, times


def patch_index(network: Network, folder: MapFolder, trunk: TrunkOutputs, most: int) -> NearestPatchIndex:
    """The features of the map's patches, evenly thinned to at most so many."""
    patches = folder.patches
    rows = np.unique(np.linspace(0, len(patches) - 1, min(most, len(patches))).astype(int))

    def read(row: int) -> NDArray[np.uint8]:
        centres, angles = patches.centres[row : row + 1], patches.angles_deg[row : row + 1]
        return folder.satellite.read_patches(centres, angles, patches.footprint_m, network.input_size)[0][0]

    pictures = [Picture(("patch", int(row)), functools.partial(read, int(row))) for row in rows]
    return NearestPatchIndex(features_of(network, pictures, trunk), patches.centres[rows])


def _features_of_tests(network: Network, course: Course, trunk: TrunkOutputs) -> NDArray[np.float32]:
    frames = [whole_image(observation) for mission in course.missions for observation in mission.test]
    return features_of(network, frames, trunk)


def _median_ms(search: Callable[[Any], Any], queries: NDArray[np.float32]) -> float:
    times = []
    for query in queries:
        started = time.perf_counter()
        search(query[None])
        times.append(1000 * (time.perf_counter() - started))
    return float(np.median(times))
