"""What learning is for once views are registered: proposals before and after, by sensor and by structure of the ground.

    python benchmarks/learning_worth.py WORK --method anchored > benchmarks/results/learning_worth.md

WORK is the work folder of `aerial-vpr benchmark config/benchmarks/naip_nd_north_up.yaml --out WORK`: its missions, its
store and its records. Frames of the held-out missions are also laid on the whole map, one by one, without a network.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.benchmark.protocol import read_flown
from aerial_vpr_cl.benchmark.records import PROPOSALS, Record, read_records
from aerial_vpr_cl.knowledge.map_folder import MapFolder, open_map
from aerial_vpr_cl.localization.map_orientation import MapOrientation
from aerial_vpr_cl.localization.open_tracker import VIEW_PX
from aerial_vpr_cl.localization.orientation_file import make_orientation
from aerial_vpr_cl.localization.registration import register
from aerial_vpr_cl.localization.view import View, ViewSettings, make_view
from aerial_vpr_cl.mission.mission import read_flight

MAP_PX = 128
NEAR_M, NETWORK_NEAR_M, PROVEN = 50.0, 300.0, 0.99
PARTS = ("weakest quarter", "second", "third", "strongest quarter")


@dataclass(frozen=True, eq=False)
class Laid:
    """One frame: how much its ground has to hold on to, where registration puts it, and where the network does."""

    structure: float  # mean gradient of the map beneath it, in grey levels a pixel
    error_m: float
    proof: float
    before_m: float  # error of the network before the first mission, and after the last
    after_m: float


def chosen(records: Path, method: str, seed: int) -> Record:
    """The record of a method in forward order."""
    for run, record in read_records(records).items():
        if (run.method, run.order, run.seed) == (method, "forward", seed):
            return record
    raise SystemExit(f"{records}: has no record of {method} in forward order with seed {seed}")


def proposals(record: Record) -> Iterator[str]:
    """Frames whose own cell is among the first 1 / 5 / 20, by sensor."""
    yield "| frames of | sensor | before the first mission | after the last |"
    yield "|---|---|--:|--:|"
    for words, names in (("missions that were learnt", record["missions"]), ("missions held out", record["held_out"])):
        for modality in ("VIS", "IR"):
            own = [name for name in names if record["facts"][name]["modality"] == modality]
            weights = [record["facts"][name]["test"] for name in own]
            cells = []
            for moment in ("base", "final"):
                shares = [record["proposed_of"][moment][name] for name in own]
                means = [np.average([share[str(count)] for share in shares], weights=weights) for count in PROPOSALS]
                cells.append(" / ".join(f"{100 * mean:.0f}" for mean in means) + " %")
            yield f"| {words} | {modality} | " + " | ".join(cells) + " |"


def laid(work: Path, folder: MapFolder, channel: MapOrientation, record: Record, every: int) -> Iterator[Laid]:
    """Frames of the held-out missions on the whole map."""
    views = ViewSettings(footprint_m=folder.settings.footprint_m, size_px=VIEW_PX)
    for name in record["held_out"]:
        bag = work / "missions" / name
        tested = read_flown(bag, folder.grid, views, held_out=True).test
        frames = {frame.stamp_ns: frame for frame in read_flight(bag, folder.grid).over(folder.grid).frames}
        errors = [record[moment][name]["errors_m"] for moment in ("base", "final")]
        for row in range(0, len(tested), every):
            frame = frames[tested[row].stamp_ns]
            view = make_view(frame.decode(), frame.situation, views)
            peak = register(view, channel).peak if isinstance(view, View) else None
            if peak is not None:
                error_m = float(np.hypot(*(peak.position - frame.position)))
                yield Laid(structure_at(folder, frame.position), error_m, peak.proof, errors[0][row], errors[1][row])


def structure_at(folder: MapFolder, position: NDArray[np.float64]) -> float:
    """How much the map has to hold on to beneath a view: open water and bare fields have little."""
    images, _ = folder.satellite.read_patches(position[None], 0.0, folder.settings.footprint_m, MAP_PX)
    grey = cv2.GaussianBlur(images[0].mean(axis=2, dtype=np.float32), (0, 0), 1.0)
    return float(np.hypot(*np.gradient(grey)).mean())


def by_structure(frames: list[Laid]) -> Iterator[str]:
    """Quarters of the frames by how much structure their ground has."""
    yield "| ground | frames | registration, whole map: within 50 m | proven | network, within 300 m: before | after |"
    yield "|---|--:|--:|--:|--:|--:|"
    order = np.argsort([frame.structure for frame in frames])
    for words, rows in zip(PARTS, np.array_split(order, len(PARTS))):
        part = [frames[row] for row in rows]
        shares = (
            np.array([frame.error_m for frame in part]) <= NEAR_M,
            np.array([frame.proof for frame in part]) >= PROVEN,
            np.array([frame.before_m for frame in part]) <= NETWORK_NEAR_M,
            np.array([frame.after_m for frame in part]) <= NETWORK_NEAR_M,
        )
        yield f"| {words} | {len(part)} | " + " | ".join(_percent(share) for share in shares) + " |"
    lost = [frame for frame in frames if frame.proof < PROVEN]
    before, after = (
        np.mean([getattr(frame, which) <= NETWORK_NEAR_M for frame in lost]) for which in ("before_m", "after_m")
    )
    yield ""
    yield (
        f"Of the {len(lost)} frames that registration does not prove, the network has {100 * before:.0f} % within "
        f"300 m before the first mission and {100 * after:.0f} % after the last."
    )


def _percent(hits: NDArray[np.bool_]) -> str:
    return f"{100 * hits.mean():.0f} %"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--method", default="anchored")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=4, help="lay every so many frames on the map")
    args = parser.parse_args()
    record = chosen(args.work / "results", args.method, args.seed)
    folder = open_map(args.work / "store")
    frames = list(laid(args.work, folder, make_orientation([folder.satellite]), record, args.every))
    print("## Proposals: the own cell among the first 1 / 5 / 20\n")
    print("\n".join(proposals(record)))
    print("\n## Weak ground\n")
    print("\n".join(by_structure(frames)))


if __name__ == "__main__":
    main()
