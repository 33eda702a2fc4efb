"""The network on disk: the trunk once, the tail with every generation; safetensors with their identity inside.

The identity is JSON in the file's metadata: format, kind, grid hash, network settings, normalisation, and the trunk's
fingerprint, so that a tail never meets another grid or another trunk. The class table is a tensor of the tail's file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from aerial_vpr_cl.errors import ModelError, SettingsError
from aerial_vpr_cl.files import new_file
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.geo.view_kind import PAPER_VIEW
from aerial_vpr_cl.model.backbone import LIVING_BLOCKS
from aerial_vpr_cl.model.network import Network, NetworkSettings
from aerial_vpr_cl.model.weights import EMPTY
from aerial_vpr_cl.settings import load_settings

FORMAT = 1
_KEY = "aerial_vpr_cl"
ONE_STORE = "use the trunk and tail of one store"
LOOKS = ("backbone.tail.", "aggregation.")
"""What a network has learnt of looks, whatever the map; its heads are what it knows of places."""


def save_trunk(path: Path, network: Network) -> None:
    """Write the frozen part of the backbone."""
    _write(path, dict(network.backbone.trunk.state_dict()), _trunk_identity(network))


def save_tail(path: Path, network: Network) -> None:
    """Write all that learns: tail, aggregation, heads and temperature, with the class table."""
    _write(path, {**network.living_tensors(), "cells": torch.tensor(network.grid.cells)}, _tail_identity(network))


def load_network(trunk_path: Path, tail_path: Path, grid: Grid, *, device: torch.device | str = "cpu") -> Network:
    """The network that `save_trunk` and `save_tail` wrote, for the grid it was made for."""
    tail_identity = read_identity(tail_path, "tail")
    _check_grid(tail_path, tail_identity, grid)
    try:
        settings = load_settings(NetworkSettings, tail_identity["settings"])
    except SettingsError as error:
        raise ModelError(f"{tail_path}: {error}; was it written by a newer version?") from None
    network = Network.build(settings, grid, weights=EMPTY)
    load_trunk(trunk_path, network)
    load_tail(tail_path, network)
    return network.to(device)


def load_trunk(path: Path, network: Network) -> None:
    """Fill the trunk of a network of the same backbone and input size."""
    identity = read_identity(path, "trunk")
    _check_same(path, identity, _backbone_facts(network))
    trunk = network.backbone.trunk
    _fill(path, trunk.state_dict(), _read(path))
    trunk.was_filled()
    if trunk.fingerprint != identity["fingerprint"]:
        raise ModelError(f"{path}: the trunk's weights are damaged; copy the file again or restore it from a backup")


def load_tail(path: Path, network: Network) -> None:
    """Fill tail, aggregation, heads and temperature of a network of the same grid, trunk and settings."""
    identity = read_identity(path, "tail")
    _check_grid(path, identity, network.grid)
    _check_kind(path, identity, network)
    tensors = _read(path)
    cells = tensors.pop("cells", None)
    if cells is None or not torch.equal(cells, torch.tensor(network.grid.cells)):
        raise ModelError(
            f"{path}: its class table is not that of the grid; the file is damaged, use another generation"
        )
    _fill(path, network.living_tensors(), tensors)


def load_looks(path: Path, network: Network) -> None:
    """Fill tail and aggregation, but no heads, with those of a network of another map and of the same kind."""
    _check_kind(path, read_identity(path, "tail"), network, "train with the same network settings as that store")
    theirs = _read(path)
    ours = {name: own for name, own in network.living_tensors().items() if name.startswith(LOOKS)}
    _fill(path, ours, {name: tensor for name, tensor in theirs.items() if name.startswith(LOOKS)})


def read_identity(path: Path, kind: str | None = None) -> dict[str, Any]:
    """What a checkpoint says it is; `kind` "trunk" or "tail" refuses the other."""
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(_KEY)
        identity = json.loads(text) if text is not None else None
    except FileNotFoundError:
        raise ModelError(f"{path}: no such checkpoint; train the base model first or choose another store") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    if not isinstance(identity, dict):
        raise ModelError(f"{path}: a safetensors file, but not a checkpoint of this package")
    if identity.get("format") != FORMAT:
        raise ModelError(f"{path}: checkpoint format {identity.get('format')}, this version reads {FORMAT}")
    if kind is not None and identity.get("kind") != kind:
        raise ModelError(f"{path}: holds a {identity.get('kind')} where a {kind} is needed; were two paths swapped?")
    if "settings" in identity:  # tails that were written before there was a choice are the paper's
        identity["settings"].setdefault("view", asdict(PAPER_VIEW))
        identity["settings"].setdefault("living_blocks", LIVING_BLOCKS)
    return identity


def _trunk_identity(network: Network) -> dict[str, Any]:
    fingerprint = network.backbone.trunk.fingerprint
    return {"format": FORMAT, "kind": "trunk", "fingerprint": fingerprint, **_backbone_facts(network)}


def _tail_identity(network: Network) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "kind": "tail",
        "grid_hash": network.grid.hash,
        "n_classes": network.grid.n_classes,
        "group_sizes": [len(weight) for weight in network.heads.weights],
        "trunk_fingerprint": network.backbone.trunk.fingerprint,
        "settings": asdict(network.settings),
        **_backbone_facts(network),
    }


def _backbone_facts(network: Network) -> dict[str, Any]:
    backbone = network.backbone
    return {
        "backbone": backbone.name,
        "input_size": backbone.input_size,
        "mean": list(backbone.mean),
        "std": list(backbone.std),
    }


def _check_kind(path: Path, identity: Mapping[str, Any], network: Network, advice: str = ONE_STORE) -> None:
    """A tail is of use only behind its own trunk, pooled and trained as it was."""
    _check_same(path, identity, _backbone_facts(network), advice)
    _check_same(path, identity["settings"], _plain(asdict(network.settings)), advice)
    if identity["trunk_fingerprint"] != network.backbone.trunk.fingerprint:
        raise ModelError(f"{path}: belongs to another trunk than the one given; use the trunk file of the same store")


def _check_grid(path: Path, identity: Mapping[str, Any], grid: Grid) -> None:
    if identity.get("grid_hash") != grid.hash:
        raise ModelError(
            f"{path}: made for another grid ({identity.get('n_classes')} cells, hash "
            f"{str(identity.get('grid_hash'))[:12]}) than this map's ({grid.n_classes} cells, hash {grid.hash[:12]}); "
            "use the store it was trained in, or train a base model for this map"
        )


def _check_same(path: Path, found: Mapping[str, Any], wanted: Mapping[str, Any], advice: str = ONE_STORE) -> None:
    for name, value in wanted.items():
        if found.get(name) != value:
            raise ModelError(
                f"{path}: its {name.replace('_', ' ')} is {found.get(name)}, but the network's is {value}; {advice}"
            )


def _write(path: Path, tensors: dict[str, Tensor], identity: dict[str, Any]) -> None:
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    for name, value in plain.items():
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise ModelError(f"{path}: not written, as '{name}' holds values that are not finite; training diverged")
    with new_file(path) as temporary:
        save_file(plain, temporary, metadata={_KEY: json.dumps(identity)})


def _read(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (safe_open is no mapping)
    except (SafetensorError, OSError, ValueError) as error:
        raise _unreadable(path, error) from None


@torch.no_grad()
def _fill(path: Path, target: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Copy values, so that nothing of the network stays mapped to the file; all or nothing."""
    for name in target.keys() | tensors.keys():
        if name not in target or name not in tensors or target[name].shape != tensors[name].shape:
            raise ModelError(f"{path}: tensor '{name}' is missing, unknown or of another shape; the file is damaged")
    for name, value in target.items():
        value.copy_(tensors[name])


def _unreadable(path: Path, error: Exception) -> ModelError:
    return ModelError(
        f"{path}: not a readable safetensors file ({error}); restore it or roll back to a generation before"
    )


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(values))
