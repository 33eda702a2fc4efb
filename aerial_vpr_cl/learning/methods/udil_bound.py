"""The generalisation bound of UDIL: the weights of its losses, learnt by making the bound small."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Coefficients:
    """α, β and γ of every past domain in one group, as a softmax of three learnt numbers each."""

    def __init__(
        self,
        *,
        domains: Sequence[int],  # of the group's replay buffer, one an observation
        wrong: Sequence[float],  # 1 where the history model's answer to that observation is wrong
        n_current: int,
        rate: float,
        bound_weight: float,
        device: torch.device,
    ) -> None:
        found, index = torch.unique(torch.tensor(domains, dtype=torch.int64), return_inverse=True)
        self.domains = found.to(device)  # (k,) past domains that the group remembers, ascending
        self.history_errors = per_domain(torch.tensor(wrong), index, len(found)).to(device)
        self.counts = torch.bincount(index, minlength=len(found)).float().to(device)
        self.n_current = max(1, n_current)
        self.bound_weight = bound_weight  # C of the bound
        self.divergence = torch.zeros(len(found), device=device)  # latest known; NaN-free where a batch lacks a domain
        self.logits = torch.zeros(3, len(found), device=device, requires_grad=True)
        self._adam = torch.optim.Adam([self.logits], lr=rate)

    def weights(self) -> Tensor:
        """(3, k) rows α, β, γ."""
        return torch.softmax(self.logits, dim=0)

    def columns(self, domains: Sequence[int]) -> Tensor:
        """Columns of the given domains, all of which must be remembered."""
        return torch.searchsorted(self.domains, torch.tensor(domains, device=self.domains.device))

    def bound(self, wrong: Tensor, differs: Tensor, differs_now: Tensor) -> Tensor:
        """The bound's terms that depend on the coefficients, from 0-1 losses of the present network.

        wrong, differs (k,): share of wrong answers, and of answers unlike the history model's, on each past domain;
        differs_now: the latter on the current domain.
        """
        alpha, beta, gamma = self.weights()
        losses = (gamma * wrong + alpha * differs).sum() + beta.sum() * differs_now
        trade_off = 0.5 * (beta * self.divergence).sum() + ((alpha + beta) * self.history_errors).sum()
        spread = (1 + beta.sum()) ** 2 / self.n_current + ((alpha + gamma) ** 2 / self.counts).sum()
        return losses + trade_off + self.bound_weight * spread.sqrt()

    def step(self, wrong: Tensor, differs: Tensor, differs_now: Tensor, divergence: Tensor) -> None:
        """One step of Adam down the bound; divergence (k,) is NaN for domains that the batch lacks."""
        self.divergence = torch.where(divergence.isnan(), self.divergence, divergence)
        self._adam.zero_grad()
        self.bound(wrong, differs, differs_now).backward()
        self._adam.step()


def per_domain(values: Tensor, column: Tensor, n_domains: int) -> Tensor:
    """(n_domains,) means of values (n,) by column; zero for a domain without values."""
    counts = torch.bincount(column, minlength=n_domains).clamp(min=1)
    return values.new_zeros(n_domains).index_add(0, column, values) / counts


def domain_divergence(belief: Tensor, domains: Tensor, past: Tensor, current: int) -> Tensor:
    """(k,) estimates 2(1 − 2·error) of the divergence of past domains from the current; NaN where one is missing.

    belief (n, d): logits of the discriminator; the error is its mistake rate between the two domains alone.
    """
    divergences = []
    for domain in past.tolist():
        said_current = belief[:, current] > belief[:, domain]
        theirs, ours = domains == domain, domains == current
        if domain == current or not bool(theirs.any()) or not bool(ours.any()):
            divergences.append(float("nan"))
            continue
        error = float(said_current[theirs].float().mean() + (~said_current[ours]).float().mean()) / 2
        divergences.append(2 * (1 - 2 * min(error, 1 - error)))
    return torch.tensor(divergences, device=belief.device)
