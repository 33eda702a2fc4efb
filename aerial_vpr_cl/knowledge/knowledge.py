"""All that a store knows: the network, replay buffer and exemplars of a generation and its map; loaded and committed.

This is the one place that knows in which files they lie.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from aerial_vpr_cl.errors import ModelError
from aerial_vpr_cl.knowledge.disposal import DisposableMission
from aerial_vpr_cl.knowledge.draft import METHOD_FILE, REPLAY_FILE, TAIL_FILE, Generation
from aerial_vpr_cl.knowledge.facts import GenerationFacts
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.map_folder import (
    EXEMPLARS_FILE,
    TRUNK_FILE,
    MapFolder,
    add_files,
    open_map,
    remove_files,
)
from aerial_vpr_cl.memory.buffer import ReplayBuffer
from aerial_vpr_cl.model.checkpoint import load_network, load_tail, read_identity, save_tail, save_trunk
from aerial_vpr_cl.model.network import Network
from aerial_vpr_cl.satellite.exemplars import ExemplarMemory

SPACE_MARGIN_BYTES = 64 << 20
"""What a commit leaves free beside the files it writes."""


@dataclass(frozen=True)
class Knowledge:
    """All that a generation and its map say, loaded."""

    generation: Generation
    map: MapFolder
    network: Network
    buffer: ReplayBuffer
    exemplars: ExemplarMemory
    method_state: Mapping[str, Tensor]  # what the method that learnt it takes along

    def bytes_of_next(self, more: int = 0) -> int:
        """Room that the next generation takes at most, if its replay buffer grows by so many bytes."""
        return (self.generation.path / TAIL_FILE).stat().st_size + self.buffer.n_bytes + more + SPACE_MARGIN_BYTES


def load_knowledge(store: GenerationStore, device: torch.device | str = "cpu") -> Knowledge:
    """The newest sound generation with its map; every file is checked on the way."""
    folder = open_map(store.root)
    generation = store.newest(grid_hash=folder.grid.hash)
    state = generation.path / METHOD_FILE
    return Knowledge(
        generation=generation,
        map=folder,
        network=network_of(folder, generation, device=device),
        buffer=ReplayBuffer.load(generation.path / REPLAY_FILE, folder.grid.hash),
        exemplars=ExemplarMemory.load(folder.path / EXEMPLARS_FILE, folder.grid.hash),
        method_state=load_file(state, device=str(device)) if state.exists() else {},
    )


def network_of(
    folder: MapFolder, generation: Generation, *, device: torch.device | str = "cpu", previous: Network | None = None
) -> Network:
    """Load a network; `previous` is one that is in use, whose frozen trunk is shared instead of read if it is the same.

    ModelError if it was trained on other views than the map's exemplars and the frames are: it would answer, wrongly.
    """
    tail = generation.path / TAIL_FILE
    if previous is not None and _has_trunk_of(previous, tail):
        network = previous.copy_living_parts()
        load_tail(tail, network)
    else:
        network = load_network(folder.path / TRUNK_FILE, tail, folder.grid, device=device)
    if network.settings.view != folder.settings.view_kind:
        raise ModelError(
            f"{tail}: trained on views {network.settings.view}, but the map of this store is for views "
            f"{folder.settings.view_kind}; use the store it was trained in, or train a base model for this map"
        )
    return network


def commit_generation(
    store: GenerationStore,
    network: Network,
    buffer: ReplayBuffer,
    facts: GenerationFacts,
    *,
    method_state: Mapping[str, Tensor] | None = None,
    dispose: Iterable[DisposableMission] = (),
    bytes_needed: int | None = None,
) -> Generation:
    """Make network and replay buffer the next generation, over the grid of the network."""
    with store.draft(bytes_needed=bytes_needed) as draft:
        save_tail(draft.path / TAIL_FILE, network)
        buffer.save(draft.path / REPLAY_FILE, network.grid.hash)
        files = [TAIL_FILE, REPLAY_FILE]
        if method_state:
            save_file({name: value.cpu() for name, value in method_state.items()}, draft.path / METHOD_FILE)
            files.append(METHOD_FILE)
        return draft.commit(files, replace(facts, grid_hash=network.grid.hash), dispose=dispose)


def add_to_map(folder: MapFolder, network: Network, exemplars: ExemplarMemory) -> None:
    """Keep with the map what belongs to it and never changes again: the trunk and the exemplars."""
    remove_files(folder.path.parent, [TRUNK_FILE, EXEMPLARS_FILE])  # of a base training killed before its commit
    save_trunk(folder.path / TRUNK_FILE, network)
    exemplars.save(folder.path / EXEMPLARS_FILE, folder.grid.hash)
    add_files(folder.path.parent, [TRUNK_FILE, EXEMPLARS_FILE])


def _has_trunk_of(network: Network, tail: Path) -> bool:
    return read_identity(tail, "tail").get("trunk_fingerprint") == network.backbone.trunk.fingerprint
