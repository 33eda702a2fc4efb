"""aerial-vpr inspect: show what a store remembers of flown missions."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.files import prepare_output
from aerial_vpr_cl.knowledge.draft import REPLAY_FILE
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.map_folder import MapFolder, open_map
from aerial_vpr_cl.localization.view import View, ViewSettings, make_view
from aerial_vpr_cl.memory.buffer import ReplayBuffer
from aerial_vpr_cl.memory.picture import PROJECTIONS, draw_retained, retained_of_mission, save_contact_sheet
from aerial_vpr_cl.mission.frames import Frame
from aerial_vpr_cl.mission.mission import Mission, read_mission
from aerial_vpr_cl.terminal import table

if TYPE_CHECKING:
    from torch import Tensor

HELP = """Show the replay buffer of a store: how many frames of which mission and sensor each group keeps.

With --sheet the frames themselves, with --retained where the kept ones lie among all frames of a mission whose bag
still exists, in the feature space of the frozen trunk, which no learning moves."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of inspect."""
    parser.add_argument("store", type=Path, metavar="STORE", help="directory of the store")
    parser.add_argument("--buffer", type=Path, metavar="FILE", help="a replay.h5 (default: of the newest generation)")
    parser.add_argument("--sheet", type=Path, metavar="PNG", help="write a contact sheet of the frames")
    parser.add_argument("--retained", type=Path, metavar="PNG", help="write the picture of kept and other frames")
    parser.add_argument("--mission", type=Path, nargs="+", metavar="BAG", help="missions for --retained")
    parser.add_argument("--projection", choices=PROJECTIONS, default="tsne", help="for --retained (default: tsne)")


def run(args: argparse.Namespace) -> None:
    """Print the tables and write the pictures that were asked for."""
    if bool(args.retained) != bool(args.mission):
        raise SettingsError("--retained and --mission belong together: the picture needs the frames that were not kept")
    for picture in filter(None, (args.sheet, args.retained)):
        prepare_output(picture)
    folder = open_map(args.store)
    path = args.buffer or GenerationStore(args.store).newest(grid_hash=folder.grid.hash).path / REPLAY_FILE
    buffer = ReplayBuffer.load(path, folder.grid.hash)
    print(f"{path}\n{describe(buffer)}")
    args.json.write({"buffer": path, **figures_of(buffer)})
    if args.sheet:
        save_contact_sheet(buffer, args.sheet)
        print(f"contact sheet  {args.sheet}")
    if args.retained:
        missions = [read_mission(bag, folder.grid) for bag in args.mission]
        features = trunk_features(args.store, folder, missions)
        panels = {
            mission.name: (rows, retained_of_mission(buffer, mission.name, mission.stamps_ns))
            for mission, rows in zip(missions, features)
        }
        draw_retained(panels, args.retained, args.projection)
        print(f"retained frames  {args.retained}")


def describe(buffer: ReplayBuffer) -> str:
    """Counts by group and by mission and modality, as two tables."""
    groups = [
        [str(number), str(len(group)), str(len({kept.label for kept in group})), str(seen)]
        for number, (group, seen) in enumerate(zip(buffer.groups, buffer.seen))
    ]
    everything = [str(len(buffer)), str(len({kept.label for kept in buffer})), str(sum(buffer.seen))]
    flown = Counter((kept.mission, kept.modality) for kept in buffer)
    missions = [
        [mission, modality, *(str(_count(group, mission, modality)) for group in buffer.groups), str(count)]
        for (mission, modality), count in flown.items()
    ]
    limit = "" if buffer.max_bytes is None else f" of at most {buffer.max_bytes / 1e6:.1f} MB"
    tables = [
        f"{len(buffer)} frames, {buffer.n_bytes / 1e6:.1f} MB{limit}; {buffer.budget} places in each of "
        f"{len(buffer.groups)} groups",
        table(["group", "frames", "cells", "seen"], [*groups, ["all", *everything]]),
    ]
    if missions:
        names = [f"group {number}" for number in range(len(buffer.groups))]
        tables.append(table(["mission", "modality", *names, "all"], missions))
        modalities = Counter(kept.modality for kept in buffer)
        tables.append(", ".join(f"{count} {modality}" for modality, count in sorted(modalities.items())))
    return "\n\n".join(tables)


def figures_of(buffer: ReplayBuffer) -> dict[str, Any]:
    """The same as values."""
    flown = Counter((kept.mission, kept.modality) for kept in buffer)
    return {
        "frames": len(buffer),
        "bytes": buffer.n_bytes,
        "budget": buffer.budget,
        "groups": [
            {"frames": len(group), "cells": len({kept.label for kept in group}), "seen": seen}
            for group, seen in zip(buffer.groups, buffer.seen)
        ],
        "missions": [
            {"mission": mission, "modality": modality, "frames": count} for (mission, modality), count in flown.items()
        ],
    }


def trunk_features(store: Path, folder: MapFolder, missions: Sequence[Mission]) -> list[NDArray[np.float32]]:
    """(n, d) mean over the trunk's outputs for every frame of each mission: the trunk is frozen for life."""
    # They take seconds to import, and the tables do not need them.
    from aerial_vpr_cl.knowledge.knowledge import network_of
    from aerial_vpr_cl.model.batches import in_batches

    network = network_of(folder, GenerationStore(store).newest(grid_hash=folder.grid.hash))
    views = ViewSettings(folder.settings.view, folder.settings.footprint_m, network.input_size)

    def means(frames: Sequence[Frame]) -> tuple[Tensor]:
        outputs = network.trunk_features(network.preprocess([_shown(frame, views) for frame in frames]))
        # ViT: (B, tokens, d); CNN: (B, d, H, W)
        return (outputs.mean(dim=1) if outputs.ndim == 3 else outputs.flatten(2).mean(dim=2),)

    return [in_batches(means, mission.frames)[0] for mission in missions]


def _shown(frame: Frame, views: ViewSettings) -> NDArray[np.uint8]:
    """What the network is shown of a frame; one that makes no view as it is."""
    image = frame.decode()
    view = make_view(image, frame.situation, views)
    return view.image if isinstance(view, View) else image


def _count(group: Sequence, mission: str, modality: str) -> int:
    return sum(kept.mission == mission and kept.modality == modality for kept in group)
