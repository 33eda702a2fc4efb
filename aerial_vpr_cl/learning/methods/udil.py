"""UDIL (adapted): unified domain-incremental learning, a mission being a domain (paper, section 5.3).

Shi and Wang bound the error on all domains by losses whose weights are learnt too (A Unified Approach to Domain
Incremental Learning with Memory, NeurIPS 2023). Names of the weights are theirs: α and γ weigh distillation and
cross-entropy on the memory of a past domain, β distillation on the current one; α + β + γ = 1 for each past domain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aerial_vpr_cl.learning.batches import CURRENT, EXEMPLAR, REPLAY
from aerial_vpr_cl.learning.method_options import MethodOptions, UdilOptions
from aerial_vpr_cl.learning.methods.base import Batch, Method, MissionStep, frozen_copy, stored
from aerial_vpr_cl.learning.methods.distillation import distillation
from aerial_vpr_cl.learning.methods.udil_bound import Coefficients, domain_divergence, per_domain
from aerial_vpr_cl.memory.buffer import Observation
from aerial_vpr_cl.model.network import Network

HIDDEN = 800
PAPER_DOMAINS = 11
"""Outputs of the paper's discriminator, for ten missions; longer sequences get more."""


class UnifiedDomainIncremental(Method):
    """Classification, distillation from the history model, adversarial alignment of missions, contrast of classes.

    As in the code of its authors a step has three parts: discriminator and weights learn, then the network by the
    bound's losses and the contrast, then its tail by alignment and stability. The discriminator lives on from mission
    to mission, the weights are new in each. The buffer's logits and features are those of the history model.
    """

    name = "udil"
    strategy = "balanced"
    stores_logits = True
    stores_features = True
    refreshes_stored = True
    options: UdilOptions

    def __init__(self, options: MethodOptions) -> None:
        super().__init__(options)
        self._learnt: Mapping[str, Tensor] = {}

    def state(self) -> dict[str, Tensor]:
        return {f"discriminator.{name}": value for name, value in self.discriminator.state_dict().items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self._learnt = {name.removeprefix("discriminator."): value for name, value in state.items()}

    def begin_mission(self, network: Network, step: MissionStep) -> None:
        self._history = frozen_copy(network)
        self._current_domain = step.number
        self._domain_of = {mission: number for number, mission in enumerate(step.past_missions, start=1)}
        # One output a mission; output 0 is for missions that the history does not name.
        outputs = max(PAPER_DOMAINS, step.number + 1)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(step.number)
            self.discriminator = discriminator(network.feature_dim, outputs).to(network.device)
        take_over(self.discriminator, self._learnt)

    def begin_learning(
        self, network: Network, current: Sequence[Observation], replay: Sequence[Observation], tail_rate: float
    ) -> None:
        rate = self.options.discriminator_rate
        self._discriminator_adam = torch.optim.Adam(
            self.discriminator.parameters(), lr=tail_rate if rate is None else rate
        )
        groups = network.heads.group_of_class.tolist()
        self.coefficients = {}
        for group in range(len(network.heads.weights)):
            own = [observation for observation in replay if groups[observation.label] == group]
            self.coefficients[group] = Coefficients(
                domains=[self._domain(observation) for observation in own],
                wrong=[_history_was_wrong(observation, network) for observation in own],
                n_current=sum(groups[observation.label] == group for observation in current),
                rate=self.options.coefficient_rate,
                bound_weight=self.options.bound_weight,
                device=network.device,
            )

    def before_step(self, network: Network, batch: Batch) -> None:
        """One step of the discriminator and one of the coefficients, on the network as it is."""
        if not batch.replayed:
            return
        with torch.no_grad():
            features = network.features_of_trunk(batch.trunk)
            logits = network.heads.logits(features, batch.group)
        _, history_logits = self._outputs_of_history(batch)
        airborne, replay = ~batch.of(EXEMPLAR), batch.of(REPLAY)
        coefficients = self.coefficients[batch.group]
        column = self._columns(batch)
        domains = torch.full((int(airborne.sum()),), self._current_domain, device=features.device)
        domains[-len(column) :] = coefficients.domains[column]
        belief = self._domain_logits(features[airborne])
        shares = self._domain_shares(batch, coefficients.weights()[1].detach(), column)
        self._discriminator_adam.zero_grad()
        (shares * F.cross_entropy(belief, domains, reduction="none")).sum().backward()
        self._discriminator_adam.step()
        answers, old_answers = logits.argmax(dim=1), history_logits.argmax(dim=1)
        rows = network.heads.rows(batch.labels, batch.group)
        coefficients.step(
            wrong=per_domain((answers != rows)[replay].float(), column, len(coefficients.domains)),
            differs=per_domain((answers != old_answers)[replay].float(), column, len(coefficients.domains)),
            differs_now=(answers != old_answers)[batch.of(CURRENT)].float().mean(),
            divergence=domain_divergence(belief.detach(), domains, coefficients.domains, self._current_domain),
        )

    def loss(self, network: Network, batch: Batch) -> Tensor:
        """The bound's losses by their weights, and the contrast."""
        features = network.features_of_trunk(batch.trunk)
        _, history_logits = self._outputs_of_history(batch)
        losses = network.heads.cross_entropy(features, batch.labels, batch.group)
        logits = network.heads.logits(features, batch.group)
        distilled = distillation(logits, history_logits, self.options.temperature)
        current, exemplar, replay = (batch.of(source) for source in (CURRENT, EXEMPLAR, REPLAY))
        alpha, beta, gamma = self.coefficients[batch.group].weights().detach()
        total = losses[current].mean() + beta.sum() * self._limited(distilled[current])
        if bool(exemplar.any()):
            total = total + losses[exemplar].mean() + beta.sum() * self._limited(distilled[exemplar])
        if batch.replayed:
            column = self._columns(batch)
            total = total + (gamma * per_domain(losses[replay], column, len(gamma))).sum()
            total = total + (alpha * per_domain(distilled[replay], column, len(alpha))).sum()
        contrast = supervised_contrast(features[~exemplar], batch.labels[~exemplar], self.options.contrast_temperature)
        return total + self.options.contrast_weight * contrast

    def tail_loss(self, network: Network, batch: Batch) -> Tensor | None:
        """Alignment of missions, and stability of what is remembered of past ones."""
        if not batch.replayed:
            return None
        features = network.features_of_trunk(batch.trunk)
        history_features, _ = self._outputs_of_history(batch)
        airborne, replay = ~batch.of(EXEMPLAR), batch.of(REPLAY)
        beta = self.coefficients[batch.group].weights()[1].detach()
        # Away from whatever the discriminator believes, which is bounded, where the true domain is not.
        belief = self._domain_logits(features[airborne])
        unsure = F.cross_entropy(belief, belief.argmax(dim=1), reduction="none")
        alignment = -(self._domain_shares(batch, beta, self._columns(batch)) * unsure).sum()
        moved = (features[replay] - history_features[replay]).square().sum(dim=1).mean()
        return self.options.alignment_weight * alignment + self.options.stability_weight * moved

    def _columns(self, batch: Batch) -> Tensor:
        """Columns of the replayed samples' missions among the group's coefficients."""
        return self.coefficients[batch.group].columns([self._domain(observation) for observation in batch.replayed])

    def _outputs_of_history(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Features and logits of the history model: as stored with replayed samples, computed for the others."""
        with torch.no_grad():
            features = self._history.features_of_trunk(batch.trunk)
            logits = self._history.heads.logits(features, batch.group)
        first = len(batch.labels) - len(batch.replayed)
        for values, what in ((features, "feature"), (logits, "logits")):
            rows, old = stored(batch.replayed, what, values.device)
            if len(rows):
                values[first + rows] = old
        return features, logits

    def _limited(self, distilled: Tensor) -> Tensor:
        mean = distilled.mean()
        return mean if float(mean.detach()) < self.options.distillation_limit else torch.zeros_like(mean)

    def _domain(self, observation: Observation) -> int:
        return self._domain_of.get(observation.mission, 0)

    def _domain_logits(self, features: Tensor) -> Tensor:
        return self.discriminator(features)[:, : self._current_domain + 1]

    def _domain_shares(self, batch: Batch, beta: Tensor, column: Tensor) -> Tensor:
        """Weights of the airborne rows: the current mission counts one, the past ones together one, by their β."""
        n_current = int(batch.of(CURRENT).sum())
        counts = torch.bincount(column, minlength=len(beta))
        past = (beta / beta.sum())[column] / counts[column]
        return torch.cat([past.new_full((n_current,), 1 / n_current), past])


def discriminator(dim: int, n_domains: int) -> nn.Sequential:
    """Features to logits of domains: 768 → 800 → 800 → 11 in the paper."""
    return nn.Sequential(
        nn.Linear(dim, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_domains)
    )


@torch.no_grad()
def take_over(network: nn.Module, learnt: Mapping[str, Tensor]) -> None:
    """Copy what an earlier discriminator has learnt; outputs that it had not stay as they are."""
    for name, own in network.state_dict().items():
        if name in learnt and learnt[name].shape[1:] == own.shape[1:]:
            rows = min(len(own), len(learnt[name]))
            own[:rows] = learnt[name][:rows]


def supervised_contrast(features: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Supervised contrastive loss with negative squared Euclidean similarity; rows without a partner are left out."""
    similarity = -(features[:, None] - features[None]).square().sum(dim=2) / temperature
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    partner = (labels[:, None] == labels[None]) & ~itself
    anchors = partner.any(dim=1)
    if not bool(anchors.any()):
        return features.new_zeros(())
    log_share = F.log_softmax(similarity.masked_fill(itself, float("-inf")), dim=1).masked_fill(~partner, 0.0)
    return -(log_share.sum(dim=1)[anchors] / partner.sum(dim=1)[anchors]).mean()


def _history_was_wrong(observation: Observation, network: Network) -> float:
    if observation.logits is None:
        return 0.0
    return float(int(observation.logits.argmax()) != int(network.heads.row_of_class[observation.label]))
