"""Training over several processes: who this one is under torchrun, and what all of them must agree on."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import Tensor

from aerial_vpr_cl.model.devices import pick_device


def join_processes(wanted_device: str) -> tuple[int, int]:
    """Rank and number of processes; under torchrun the process group is set up once."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1 and not dist.is_initialized():
        device = pick_device(wanted_device, local_rank())
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return (dist.get_rank(), world) if world > 1 else (0, 1)


def local_rank() -> int:
    """Place of this process among those on this computer: it decides which GPU it takes."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def sum_over_processes(values: Tensor) -> Tensor:
    """What all processes have found together; the same in each."""
    if dist.is_initialized():
        values = values.clone()
        dist.all_reduce(values)
    return values


def mean_over_processes(loss: Tensor) -> float:
    """A loss over the whole batch, of which each process has seen its share."""
    processes = dist.get_world_size() if dist.is_initialized() else 1
    return float(sum_over_processes(loss)) / processes


def from_first_process(value: float, world: int) -> float:
    """What the first process has measured, so that all decide alike."""
    if world == 1:
        return value
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    shared = torch.tensor([value], dtype=torch.float64, device=device)
    dist.broadcast(shared, 0)
    return float(shared)
