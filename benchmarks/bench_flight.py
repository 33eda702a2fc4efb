"""What bench.py measures of a flight: registration, retrieval, runtimes and the node, on ground that it draws."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

import numpy as np
import registration
import scale_map
import torch
from bench_rows import LITE, Effort, NotHere, Row, network_of
from scale_world import Country

from aerial_vpr_cl.benchmark.retrieval import NearestPatchIndex
from aerial_vpr_cl.errors import ModelError
from aerial_vpr_cl.knowledge.map_folder import build_map
from aerial_vpr_cl.localization.orientation_file import make_orientation, open_orientation
from aerial_vpr_cl.model.runtimes.engine import TorchEngine
from aerial_vpr_cl.model.runtimes.graphs import write_tail, write_trunk
from aerial_vpr_cl.model.runtimes.onnx_engine import OnnxEngine, open_session
from aerial_vpr_cl.satellite.patches import PatchSettings
from aerial_vpr_cl.satellite.raster import SatelliteMap

MAP_DATE = "*20150926*.tif"


def laying(effort: Effort) -> list[Row]:
    """Registration beside the network, and what a map takes on disk."""
    country, folder = Country(1), effort.scratch / "country"
    scale_map.world(country, folder, 0)
    built = scale_map.map(country, folder, 0)
    channel_mb = scale_map.channel(country, folder, 0)["channel_mb"]
    found = scale_map.search(country, folder, 0)
    network = network_of(built["classes"])
    images = network.preprocess(np.zeros((1, 128, 128, 3), np.uint8))
    with torch.inference_mode():
        forward_ms = scale_map.median_ms(lambda: network.scores(images))
    ratio = found["tracking_ms"] / forward_ms
    raster_mb = scale_map.raster_of(folder).stat().st_size / 1e6
    stored = stored_mb(folder)
    return [
        Row(
            "registration while tracking ÷ EfficientNet-Lite0",
            "≤ 2",
            f"{ratio:.1f}",
            f"{found['tracking_ms']:.0f} and {forward_ms:.0f} ms",
            ratio <= 2.0,
        ),
        Row(
            "registration everywhere ÷ on twenty proposed cells, 10 km²",
            "",
            f"{1e3 * found['everything_s'] / found['proposed_ms']:.1f}",
            f"{1e3 * found['everything_s']:.0f} and {found['proposed_ms']:.0f} ms",
        ),
        Row(
            "satellite storage ÷ raster, procedural ground at 5 m",
            "≤ 1.2",
            f"{stored / raster_mb:.2f}",
            f"{stored:.2f} and {raster_mb:.2f} MB, of which the channel {channel_mb:.2f}",
            stored <= 1.2 * raster_mb,
        ),
    ]


def retrieving(effort: Effort) -> list[Row]:
    """Exact search over all patches of 100 km² instead of classification, with the same features."""
    network, dim = network_of(2500), 1280
    rng = np.random.default_rng(0)
    index = NearestPatchIndex(rng.random((16 * 2500, dim), np.float32), np.zeros((16 * 2500, 2)))
    one = rng.random((1, dim), np.float32)
    tensor = torch.from_numpy(one)
    with torch.inference_mode():
        classes_ms = scale_map.median_ms(lambda: network.heads.cosines(tensor))
    patches_ms = scale_map.median_ms(lambda: index.nearest(one))
    heads_mb = 2500 * dim * 4 / 1e6
    return [
        Row(
            "retrieval over all patches ÷ classification, 100 km²: time of the search",
            "",
            f"{patches_ms / classes_ms:.1f}",
            f"{patches_ms:.1f} and {classes_ms:.1f} ms",
        ),
        Row(
            "… memory",
            "",
            f"{index.memory_bytes / 1e6 / heads_mb:.0f}",
            f"{index.memory_bytes / 1e6:.0f} and {heads_mb:.0f} MB",
        ),
    ]


def running(effort: Effort) -> list[Row]:
    """PyTorch as it is beside ONNX Runtime, with the same weights."""
    network = network_of(2500)
    paths = effort.scratch / "trunk.onnx", effort.scratch / "tail.onnx"
    try:
        write_trunk(paths[0], network)
        write_tail(paths[1], network)
        engine = OnnxEngine("onnx", *map(open_session, paths), paths[0])
    except (ModelError, ImportError) as error:
        raise NotHere(f"the other runtime is not there: {error}") from None
    image = np.random.default_rng(0).integers(0, 256, (1, network.input_size, network.input_size, 3), np.uint8)
    eager = TorchEngine(network)
    eager_ms, onnx_ms = (scale_map.median_ms(lambda e=e: e.scores(image)) for e in (eager, engine))  # type: ignore[misc]
    apart = float(np.abs(eager.scores(image) - engine.scores(image)).max())
    return [
        Row(
            f"eager PyTorch ÷ ONNX Runtime, {LITE}, 2,500 classes",
            "",
            f"{eager_ms / onnx_ms:.1f}",
            f"{eager_ms:.1f} and {onnx_ms:.1f} ms; scores differ by {apart:.0e}",
        )
    ]


def answering(effort: Effort) -> list[Row]:
    """The node beside its bare network."""
    try:
        node_overhead = importlib.import_module("node_overhead")
    except ImportError as error:
        raise NotHere(f"the node needs ROS 2: {error}") from None
    rclpy = importlib.import_module("rclpy")
    rows, wanted = [], argparse.Namespace(seconds=1.0, rounds=2, width=640, height=480)
    rclpy.init()
    try:
        for transport in ("raw", "compressed"):
            found = node_overhead.measure(LITE, transport, wanted)
            parts = sum(value for name, value in found.items() if name not in node_overhead.WHOLE) + found["network"]
            rows += [
                Row(
                    f"node ÷ bare network, {LITE}, 640 × 480 {transport}",
                    "",
                    f"{found['ratio']:.2f}",
                    f"{found['node']:.0f} and {found['network']:.0f} ms of processor time",
                ),
                Row(
                    f"node time per frame ÷ its parts, {transport}",
                    "≤ 1.10",
                    f"{found['node'] / parts:.2f}",
                    f"{found['node']:.1f} and {parts:.1f} ms",
                    found["node"] <= 1.10 * parts,
                ),
            ]
    finally:
        rclpy.shutdown()
    return rows


def real_dates(effort: Effort) -> list[Row]:
    """Registration alone on other dates of real imagery, where there is any."""
    if effort.rasters is None:
        raise NotHere("needs the dated GeoTIFFs of naip_nd: make bench RASTERS=FOLDER")
    (path,) = effort.rasters.glob(MAP_DATE)
    satellite = SatelliteMap.open(path, bands=registration.MODALITIES["VIS"])
    others = [other for other in sorted(effort.rasters.glob("*.tif")) if other != path]
    rasters = {
        name: [SatelliteMap.open(other, bands=bands, epsg=satellite.epsg) for other in others]
        for name, bands in registration.MODALITIES.items()
    }
    open_orientation(build_map(path, effort.scratch / "real", PatchSettings(), bands=registration.MODALITIES["VIS"]))
    stored, raster_mb = stored_mb(effort.scratch / "real"), path.stat().st_size / 1e6
    case = next(case for case in registration.CASES if case.name == "σ 3°, 5 %")
    outcomes = registration.measure(case, rasters, make_orientation([satellite]), max(2, effort.repeats // 5))
    shares = [float((found.error_m < registration.NEAR_M).mean()) for found in outcomes.values()]
    seconds = np.median(np.concatenate([found.seconds for found in outcomes.values()]))
    return [
        Row(
            "registration alone, whole map, other dates, σ 3°, 5 %: within 50 m, VIS / NIR",
            "≥ 95 / 93 %",
            " / ".join(f"{100 * share:.0f} %" for share in shares),
            f"{len(next(iter(outcomes.values())).error_m)} frames each, {seconds:.2f} s a frame",
            shares[0] >= 0.95 and shares[1] >= 0.93,
        ),
        Row(
            "satellite storage ÷ raster, photographed ground at 5 m",
            "≤ 1.2",
            f"{stored / raster_mb:.2f}",
            f"{stored:.2f} and {raster_mb:.2f} MB",
            stored <= 1.2 * raster_mb,
        ),
    ]


def stored_mb(store: Path) -> float:
    """What a store's map takes on disk."""
    return sum(path.stat().st_size for path in (store / "map").iterdir()) / 1e6
