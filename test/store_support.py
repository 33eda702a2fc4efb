"""A small store without training, in a second: a painted map, a random network, generation 0; and flights over it."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from synthetic_rasters import NORTH, WEST, noise_image, write_raster

from aerial_vpr_cl.knowledge import knowledge
from aerial_vpr_cl.knowledge.draft import Generation
from aerial_vpr_cl.knowledge.facts import GenerationFacts
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.knowledge import add_to_map
from aerial_vpr_cl.knowledge.map_folder import build_map, open_map
from aerial_vpr_cl.memory.buffer import ReplayBuffer
from aerial_vpr_cl.mission.bag_writer import MissionWriter
from aerial_vpr_cl.model.network import Network, NetworkSettings
from aerial_vpr_cl.satellite.exemplars import ExemplarMemory
from aerial_vpr_cl.satellite.patches import PatchSettings

SIDE_M = 1200.0
"""Side of the mapped square, whose north-west corner is (WEST, NORTH): 6 × 6 cells of 200 m."""
PIXEL_M = 4.0
START_NS = 1_700_000_000_000_000_000
SURE = 0.02
"""A temperature at which even a random network is confident."""


def make_map(root: Path, *, seed: int = 0, modulus: int = 2, blur_px: float = 3.0, view: str = "as_seen") -> Path:
    """A store with a painted map of 200 m cells and no generation; more blur makes cells easier to tell apart."""
    root = Path(root)
    root.mkdir(parents=True, exist_ok=True)
    side = int(SIDE_M / PIXEL_M)
    painted = cv2.GaussianBlur(noise_image(side, side, seed=seed), (0, 0), blur_px)
    painted = cv2.normalize(painted, None, 1, 255, cv2.NORM_MINMAX)
    raster = write_raster(root / "painted.tif", painted, pixel=PIXEL_M)
    store = GenerationStore.create(root / "store")
    build_map(raster, store.root, PatchSettings(cell_side_m=200.0, modulus=modulus, rotations=1, view=view))
    return store.root


def make_store(
    root: Path,
    *,
    seed: int = 0,
    input_size: int = 32,
    temperature: float = SURE,
    modulus: int = 2,
    weights: str | None = "random",
    view: str = "as_seen",
    **settings: object,
) -> Path:
    """A store with a map and an untrained EfficientNet-Lite0 as generation 0; weights=None: those of ImageNet."""
    store = make_map(root, seed=seed, modulus=modulus, view=view)
    folder = open_map(store)
    given = {"backbone": "tf_efficientnet_lite0", "input_size": input_size, "view": folder.settings.view_kind}
    wanted = NetworkSettings(**{**given, **settings})  # type: ignore[arg-type]
    network = Network.build(wanted, folder.grid, weights=weights, seed=seed)
    add_to_map(folder, network, ExemplarMemory.choose(folder.patches, np.arange(0, len(folder.patches), 2)))
    commit_generation(store, network, temperature)
    return store


def commit_generation(store: Path, network: Network, temperature: float = SURE) -> Generation:
    """The next generation: this network at this temperature, and an empty replay buffer."""
    network.temperature.fill_(temperature)
    buffer = ReplayBuffer.empty(network.grid.n_groups)
    return knowledge.commit_generation(GenerationStore(store), network, buffer, GenerationFacts())


def track(n: int, *, speed_mps: float = 20.0, period_s: float = 1.0) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(n,) stamps and (n, 2) positions of a straight flight to the east through the middle of the map."""
    seconds = np.arange(n) * period_s
    east = WEST + 300.0 + speed_mps * seconds
    points = np.stack([east, np.full(n, NORTH - SIDE_M / 2 - 30.0)], axis=1)
    return START_NS + np.round(seconds * 1e9).astype(np.int64), points


def view(store: Path, points: NDArray[np.float64], size_px: int = 64) -> NDArray[np.uint8]:
    """(n, size, size, 3) what a camera sees straight down at these points, north up, 300 m wide."""
    images, _ = open_map(store).satellite.read_patches(points, np.zeros(len(points)), 300.0, size_px)
    return images


def jpeg(image: NDArray[np.uint8], quality: int = 90) -> bytes:
    """RGB to JPEG bytes."""
    return cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()


def write_flight(store: Path, path: Path, n: int = 20, **options: object) -> Path:
    """A mission over the map of a store: n frames, one a second, with a fix and the truth at each and fixes between."""
    grid = open_map(store).grid
    stamps, points = track(2 * n, speed_mps=20.0, period_s=0.5)
    latitudes, longitudes = grid.projection.to_wgs84(points)
    frames = view(store, points[::2])
    with MissionWriter(path, **options) as writer:  # type: ignore[arg-type]
        for row, stamp_ns in enumerate(stamps.tolist()):
            writer.write_fix(stamp_ns, latitudes[row], longitudes[row], 500.0)
            if row % 2 == 0:
                writer.write_truth(stamp_ns, latitudes[row], longitudes[row], 500.0)
                writer.write_image(stamp_ns, jpeg(frames[row // 2]))
    return path
