"""The network of a generation: its tail on the trunk of the map, and of the map's kind of view."""

from __future__ import annotations

from pathlib import Path

import torch

from aerial_vpr_cl.errors import ModelError
from aerial_vpr_cl.knowledge.draft import Generation
from aerial_vpr_cl.knowledge.map_folder import MapFolder
from aerial_vpr_cl.model.checkpoint import load_network, load_tail, read_identity
from aerial_vpr_cl.model.network import Network

TRUNK_FILE, TAIL_FILE = "trunk.safetensors", "tail.safetensors"


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


def _has_trunk_of(network: Network, tail: Path) -> bool:
    return read_identity(tail, "tail").get("trunk_fingerprint") == network.backbone.trunk.fingerprint
