"""Pictures of what is remembered: a contact sheet of the buffer, and kept frames among all of their mission."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import cv2
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.files import new_file
from aerial_vpr_cl.memory.buffer import Observation, ReplayBuffer

THUMBNAIL_PX = 112
CAPTION_PX = 26
COLUMNS = 12
MARGIN_PX = 4
BACKGROUND, INK, MISSING = 255, (40, 40, 40), 200
PROJECTIONS = ("tsne", "pca")
PERPLEXITY = 30.0
FEWEST_FOR_TSNE = 5


def contact_sheet(buffer: ReplayBuffer, per_group: int = 4 * COLUMNS) -> NDArray[np.uint8]:
    """RGB sheet of the buffer's frames: group by group, most valuable first, with cell, sensor and mission."""
    strips = []
    for number, group in enumerate(buffer.groups):
        shown = group[:per_group]
        more = f", the first {len(shown)}" if len(shown) < len(group) else ""
        strips.append(_headline(f"group {number}: {len(group)} of {buffer.budget} places{more}"))
        for start in range(0, len(shown), COLUMNS):
            tiles = [_tile(observation) for observation in shown[start : start + COLUMNS]]
            tiles += [np.full_like(tiles[0], BACKGROUND)] * (COLUMNS - len(tiles))
            strips.append(np.concatenate(tiles, axis=1))
    return np.concatenate(strips) if strips else _headline("no groups")


def save_contact_sheet(buffer: ReplayBuffer, path: Path, per_group: int = 4 * COLUMNS) -> None:
    """Write the contact sheet as PNG."""
    _, png = cv2.imencode(".png", cv2.cvtColor(contact_sheet(buffer, per_group), cv2.COLOR_RGB2BGR))
    with new_file(Path(path)) as temporary:
        temporary.write_bytes(png.tobytes())


def retained_of_mission(buffer: ReplayBuffer, mission: str, stamps_ns: ArrayLike) -> NDArray[np.bool_]:
    """(n,) which frames of a mission, known by their times, are in the buffer."""
    kept = [observation.stamp_ns for observation in buffer if observation.mission == mission]
    return np.isin(np.asarray(stamps_ns, np.int64), np.asarray(kept, np.int64))


def project(features: ArrayLike, projection: str = "tsne", seed: int = 0) -> NDArray[np.float64]:
    """(n, d) features to (n, 2): by t-SNE, which shows neighbourhoods, or by PCA, which shows distances."""
    if projection not in PROJECTIONS:
        raise SettingsError(f"unknown projection '{projection}'; choose one of {', '.join(PROJECTIONS)}")
    points = np.asarray(features, np.float64)
    points = points - (points.mean(axis=0) if len(points) else 0)
    if projection == "pca" or len(points) < FEWEST_FOR_TSNE:
        axes = np.linalg.svd(points, full_matrices=False)[2][:2] if len(points) else np.zeros((0, points.shape[1]))
        flat = np.zeros((len(points), 2))
        flat[:, : len(axes)] = points @ axes.T
        return flat
    from sklearn.manifold import TSNE  # takes seconds to import

    perplexity = min(PERPLEXITY, (len(points) - 1) / 3)
    return np.asarray(TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(points), np.float64)


def draw_retained(
    missions: Mapping[str, tuple[ArrayLike, ArrayLike]], path: Path, projection: str = "tsne", seed: int = 0
) -> None:
    """Write a PNG, one panel a mission: all its frames in grey, the retained ones in colour (paper, section 5.6.2).

    `missions`: title → features (n, d) in a space that no learning moves, and (n,) which are retained. Panels with the
    same features, for example of several strategies, get the same projection.
    """
    figure = Figure(figsize=(4.2 * max(1, len(missions)), 4.2), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    for number, (title, (features, retained)) in enumerate(missions.items(), start=1):
        points, kept = project(features, projection, seed), np.asarray(retained, bool)
        axes = figure.add_subplot(1, len(missions), number)
        axes.scatter(points[:, 0], points[:, 1], s=14, color="#c8c8c8", label="all frames")
        chosen = points[kept]
        axes.scatter(
            chosen[:, 0], chosen[:, 1], s=22, color="#0072B2", edgecolor="white", linewidth=0.5, label="retained"
        )
        axes.set_title(f"{title}, n = {int(kept.sum())} of {len(kept)}", fontsize=10)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.legend(fontsize=8, loc="best")
    with new_file(Path(path)) as temporary:
        figure.savefig(temporary, format="png")


def _tile(observation: Observation) -> NDArray[np.uint8]:
    """One frame, squeezed to a square, over its caption."""
    tile = np.full((THUMBNAIL_PX + CAPTION_PX + MARGIN_PX, THUMBNAIL_PX + MARGIN_PX, 3), BACKGROUND, np.uint8)
    data = np.frombuffer(observation.image, np.uint8)
    image = cv2.imdecode(data, cv2.IMREAD_COLOR) if len(data) else None
    if image is None:
        tile[:THUMBNAIL_PX, :THUMBNAIL_PX] = MISSING
        _write(tile, "not an image", THUMBNAIL_PX // 2)
    else:
        small = cv2.resize(image, (THUMBNAIL_PX, THUMBNAIL_PX), interpolation=cv2.INTER_AREA)
        tile[:THUMBNAIL_PX, :THUMBNAIL_PX] = small[:, :, ::-1]
    _write(tile, f"cell {observation.label} {observation.modality}", THUMBNAIL_PX + 11)
    _write(tile, observation.mission[-18:], THUMBNAIL_PX + 22)
    return tile


def _headline(text: str) -> NDArray[np.uint8]:
    line = np.full((CAPTION_PX, COLUMNS * (THUMBNAIL_PX + MARGIN_PX), 3), BACKGROUND, np.uint8)
    _write(line, text, 17, scale=0.5)
    return line


def _write(image: NDArray[np.uint8], text: str, baseline: int, scale: float = 0.34) -> None:
    printable = text.encode("ascii", "replace").decode()  # OpenCV's font has no other letters
    cv2.putText(image, printable, (3, baseline), cv2.FONT_HERSHEY_SIMPLEX, scale, INK, 1, cv2.LINE_AA)
