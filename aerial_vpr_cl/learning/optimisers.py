"""One Adam for the tail and one per head, each with a plateau schedule (paper, section 5.1.3)."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import Adam
from torch.optim.lr_scheduler import ReduceLROnPlateau

from aerial_vpr_cl.model.network import Network


class Optimisers:
    """Steps the tail and the active group's head; halves a learning rate when its training loss stops falling.

    `patience` cycles without a lower loss are borne. It must be well below the number of cycles to have any effect.
    """

    def __init__(self, network: Network, tail_rate: float, head_rate: float, *, patience: int) -> None:
        self.adams = {"tail": Adam(network.tail_parameters(), lr=tail_rate)}
        for group in range(network.grid.n_groups):
            own = network.head_parameters(group)
            if own:  # a group without classes has nothing to learn, and Adam refuses an empty list
                self.adams[str(group)] = Adam(own, lr=head_rate)
        self.schedules = {
            name: ReduceLROnPlateau(adam, factor=0.5, patience=patience) for name, adam in self.adams.items()
        }

    def step(self, loss: torch.Tensor, group: int) -> None:
        """Back-propagate and update the tail and one head."""
        active = [self.adams["tail"], self.adams[str(group)]]
        for adam in active:
            adam.zero_grad(set_to_none=True)
        loss.backward()
        for adam in active:
            adam.step()

    def step_tail(self, loss: torch.Tensor) -> None:
        """Back-propagate and update the tail alone."""
        self.adams["tail"].zero_grad(set_to_none=True)
        loss.backward()
        self.adams["tail"].step()

    def end_head_epoch(self, group: int, loss: float) -> None:
        """Tell a head's schedule the mean loss of its epoch."""
        self.schedules[str(group)].step(loss)

    def end_cycle(self, loss: float) -> None:
        """Tell the tail's schedule the mean loss of a cycle over all groups."""
        self.schedules["tail"].step(loss)

    def state(self) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        """Plain values for JSON and tensors for safetensors: all that is needed to go on."""
        facts: dict[str, Any] = {}
        tensors: dict[str, torch.Tensor] = {}
        for name, adam in self.adams.items():
            schedule = self.schedules[name].state_dict()
            plain = {key: value for key, value in schedule.items() if isinstance(value, int | float | list)}
            facts[name] = {"rates": [group["lr"] for group in adam.param_groups], "schedule": plain}
            for index, moments in adam.state_dict()["state"].items():
                tensors |= {f"{name}.{index}.{key}": torch.as_tensor(value) for key, value in moments.items()}
        return facts, tensors

    def load(self, facts: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        """Go on from what `state` gave."""
        for name, adam in self.adams.items():
            own: dict[int, dict[str, torch.Tensor]] = {}
            for key, value in tensors.items():
                adam_name, index, moment = key.split(".")
                if adam_name == name:
                    own.setdefault(int(index), {})[moment] = value
            adam.load_state_dict({"state": own, "param_groups": adam.state_dict()["param_groups"]})
            for group, rate in zip(adam.param_groups, facts[name]["rates"]):
                group["lr"] = rate
            self.schedules[name].load_state_dict(facts[name]["schedule"])
