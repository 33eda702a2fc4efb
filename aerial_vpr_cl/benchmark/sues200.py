"""SUES-200 in its published folders: altitude pseudo-missions and drone-to-satellite retrieval (paper, section 5.5).

Two layouts are read. As downloaded, with the list of training locations from the data set's benchmark repository:

    SUES-200-512x512/drone_view_512/0001/150/0.jpg ... 49.jpg    200 locations × 150, 200, 250, 300 m × 50 images
    SUES-200-512x512/satellite-view/0001/0.png                   one image a location
    SUES-200-512x512/indexs.yaml                                 index: ['0001', ...], the 120 training locations

or as that repository's split_datasets.py lays it out, where the folders themselves say which location is for what:

    Training/150/drone/0001/0.jpg ...           Training/150/satellite/0001/0.png
    Testing/150/query_drone/0008/0.jpg ...      Testing/150/gallery_satellite/0001/0.png
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aerial_vpr_cl.benchmark.retrieval import unit_rows
from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.settings import read_yaml

ALTITUDES_M = (150, 200, 250, 300)
LEARNING_IMAGES = 40
"""The first 40 images of a location and altitude are learnt from; the remaining ten are its test queries."""


@dataclass(frozen=True)
class Sues200:
    """Where the images are: by location and altitude from the drone, by location from the satellite."""

    training_locations: tuple[str, ...]
    test_locations: tuple[str, ...]
    drone: dict[tuple[str, int], tuple[Path, ...]]
    satellite: dict[str, tuple[Path, ...]]


@dataclass(frozen=True)
class AltitudeMission:
    """One pseudo-mission: the training locations from one altitude. Labels are places in `training_locations`."""

    altitude_m: int
    train_images: tuple[Path, ...]
    train_labels: NDArray[np.int64]
    test_images: tuple[Path, ...]
    test_labels: NDArray[np.int64]


@dataclass(frozen=True)
class RetrievalTask:
    """Drone images of the test locations to be found among the satellite images of all locations."""

    queries: tuple[Path, ...]
    query_locations: tuple[str, ...]
    gallery: tuple[Path, ...]
    gallery_locations: tuple[str, ...]


def open_sues200(root: Path, split: Path | None = None) -> Sues200:
    """Find the images below `root`; `split` is indexs.yaml, by default the one in `root`."""
    root = Path(root)
    if (root / "Training").is_dir() and (root / "Testing").is_dir():
        return _open_split_folders(root)
    drone_folders = [path for path in sorted(root.glob("*drone*")) if path.is_dir()]
    if not drone_folders or not (root / "satellite-view").is_dir():
        raise MissionError(
            f"{root}: not SUES-200; expected drone_view_512/ and satellite-view/, or Training/ and Testing/"
        )
    split = Path(split) if split else root / "indexs.yaml"
    if not split.is_file():
        raise MissionError(f"{split}: no such file; copy script/indexs.yaml of the SUES-200-Benchmark repository there")
    listed = {f"{int(name):04d}" for name in read_yaml(split).get("index", [])}
    locations = _subfolders(root / "satellite-view")
    unknown = sorted(listed - set(locations))
    if not listed or unknown:
        reason = f"location {unknown[0]} is not in {root}" if unknown else "no list 'index' of training locations"
        raise MissionError(f"{split}: {reason}; use the file published with the data set")
    drone = {(name, h): _images(drone_folders[0] / name / str(h)) for name in locations for h in ALTITUDES_M}
    return Sues200(
        training_locations=tuple(name for name in locations if name in listed),
        test_locations=tuple(name for name in locations if name not in listed),
        drone=drone,
        satellite={name: _images(root / "satellite-view" / name) for name in locations},
    )


def altitude_missions(data: Sues200) -> tuple[AltitudeMission, ...]:
    """The four pseudo-missions in ascending altitude."""
    return tuple(_altitude_mission(data, altitude) for altitude in ALTITUDES_M)


def retrieval_task(data: Sues200, altitudes_m: Sequence[int] = ALTITUDES_M) -> RetrievalTask:
    """The standard drone-to-satellite task: test locations as queries, all locations' satellite images as gallery."""
    queries = [(p, name) for h in altitudes_m for name in data.test_locations for p in data.drone[name, h]]
    gallery = [(p, name) for name, paths in data.satellite.items() for p in paths]
    return RetrievalTask(
        queries=tuple(path for path, _ in queries),
        query_locations=tuple(name for _, name in queries),
        gallery=tuple(path for path, _ in gallery),
        gallery_locations=tuple(name for _, name in gallery),
    )


@dataclass(frozen=True)
class RetrievalSummary:
    """Retrieval results: shares 0 to 1, and the mean place (from 1) of the first right gallery image."""

    recall_1: float
    recall_5: float
    recall_10: float
    mean_average_precision: float
    mean_rank: float


def summarize_retrieval(
    queries: ArrayLike, gallery: ArrayLike, query_labels: Sequence[str | int], gallery_labels: Sequence[str | int]
) -> RetrievalSummary:
    """Recall at 1, 5, 10, mAP and mean rank of query features (m, d) in gallery features (n, d), by cosine similarity.

    Average precision is the mean precision at the right images: 1/rank where there is one. The data set's own script
    averages with the precision just before, but no ranking gives the paper's R@k and mAP together under that rule.
    """
    order = np.argsort(-(unit_rows(queries) @ unit_rows(gallery).T), axis=1, kind="stable")
    right = np.asarray(gallery_labels)[order] == np.asarray(query_labels)[:, None]
    if not right.any(axis=1).all():
        raise ValueError("every query needs at least one gallery image with its label")
    first = right.argmax(axis=1)
    precision = right.cumsum(axis=1) / np.arange(1, right.shape[1] + 1)
    average_precision = (precision * right).sum(axis=1) / right.sum(axis=1)
    return RetrievalSummary(
        recall_1=float(np.mean(first < 1)),
        recall_5=float(np.mean(first < 5)),
        recall_10=float(np.mean(first < 10)),
        mean_average_precision=float(average_precision.mean()),
        mean_rank=float(first.mean() + 1),
    )


def _altitude_mission(data: Sues200, altitude_m: int) -> AltitudeMission:
    train: list[tuple[Path, int]] = []
    test: list[tuple[Path, int]] = []
    for label, name in enumerate(data.training_locations):
        images = data.drone[name, altitude_m]
        if len(images) <= LEARNING_IMAGES:
            where = images[0].parent
            raise MissionError(f"{where}: {len(images)} images, expected 50; unpack the data set again")
        train += [(path, label) for path in images[:LEARNING_IMAGES]]
        test += [(path, label) for path in images[LEARNING_IMAGES:]]
    return AltitudeMission(
        altitude_m,
        tuple(path for path, _ in train),
        np.array([label for _, label in train], np.int64),
        tuple(path for path, _ in test),
        np.array([label for _, label in test], np.int64),
    )


def _open_split_folders(root: Path) -> Sues200:
    training, testing = root / "Training", root / "Testing"
    first = str(ALTITUDES_M[0])
    train_names = _subfolders(training / first / "drone")
    test_names = _subfolders(testing / first / "query_drone")
    folders = [(training, "drone", train_names), (testing, "query_drone", test_names)]
    gallery = testing / first / "gallery_satellite"
    return Sues200(
        training_locations=train_names,
        test_locations=test_names,
        drone={
            (name, h): _images(part / str(h) / view / name)
            for part, view, names in folders
            for name in names
            for h in ALTITUDES_M
        },
        satellite={name: _images(gallery / name) for name in _subfolders(gallery)},
    )


def _subfolders(folder: Path) -> tuple[str, ...]:
    if not folder.is_dir():
        raise MissionError(f"{folder}: no such folder; it belongs to the published layout of SUES-200")
    return tuple(sorted(path.name for path in folder.iterdir() if path.is_dir()))


def _images(folder: Path) -> tuple[Path, ...]:
    """Images in the order they were taken, which is that of the number in their name: 2.jpg comes before 10.jpg."""
    found = [p for p in folder.glob("*.*") if p.suffix.lower() in {".jpg", ".jpeg", ".png"} and p.stem.isdigit()]
    if not found:
        raise MissionError(f"{folder}: no images named 0.jpg, 1.jpg, ...; is the data set complete?")
    return tuple(sorted(found, key=lambda path: int(path.stem)))
