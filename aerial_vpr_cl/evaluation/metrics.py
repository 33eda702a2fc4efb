"""The paper's metrics (sections 4.5 and 5.2), as pure functions. Shares and accuracies are 0 to 1, distances metres.

An *accuracy matrix* R has shape (K + 1, K): R[i, j] is the recall on the test queries of mission j + 1 after i missions
were learnt, so row 0 is the base model and row K the final one. Metrics that compare missions are NaN for K = 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

PRIMARY_THRESHOLD_M = 300.0


def distance_errors(predicted: ArrayLike, truth: ArrayLike) -> Array:
    """Metres between predicted and true positions, both (n, 2); a query without an answer (NaN) is infinitely wrong."""
    errors = np.linalg.norm(np.asarray(predicted, float) - np.asarray(truth, float), axis=1)
    return np.where(np.isnan(errors), np.inf, errors)


def recall_at(errors: ArrayLike, threshold_m: float) -> float:
    """Share of queries no further than the threshold from the truth (equation for Acc_k); NaN without queries."""
    errors = np.asarray(errors, float)
    return float(np.mean(errors <= threshold_m)) if errors.size else float("nan")


@dataclass(frozen=True)
class ErrorSummary:
    """Coordinate-based localization results of one set of queries: a row of the paper's table 4."""

    count: int
    recall_50: float
    recall_100: float
    recall_200: float
    recall_300: float
    median_m: float
    mean_m: float
    rmse_m: float


def summarize_errors(errors: ArrayLike) -> ErrorSummary:
    """Recalls, median, mean and root-mean-square of position errors (n,) in metres; all NaN without queries."""
    errors = np.asarray(errors, float)
    return ErrorSummary(
        count=errors.size,
        recall_50=recall_at(errors, 50.0),
        recall_100=recall_at(errors, 100.0),
        recall_200=recall_at(errors, 200.0),
        recall_300=recall_at(errors, 300.0),
        median_m=float(np.median(errors)) if errors.size else float("nan"),
        mean_m=_mean(errors),
        rmse_m=float(np.sqrt(_mean(errors**2))),
    )


def summarize_by_modality(errors: ArrayLike, modalities: Sequence[str]) -> dict[str, ErrorSummary]:
    """Summaries of all queries ("all") and of each modality apart, from one error and one modality per query."""
    errors, kinds = np.asarray(errors, float), np.asarray(modalities, dtype=str)
    parts = {kind: summarize_errors(errors[kinds == kind]) for kind in sorted(set(kinds.tolist()), reverse=True)}
    return {"all": summarize_errors(errors), **parts}


def accuracy_matrix(errors: Sequence[Sequence[ArrayLike]], threshold_m: float = PRIMARY_THRESHOLD_M) -> Array:
    """R from errors[i][j]: the position errors on the queries of mission j + 1 after i missions were learnt."""
    return checked_matrix([[recall_at(cell, threshold_m) for cell in row] for row in errors])


def checked_matrix(matrix: ArrayLike) -> Array:
    """The accuracy matrix as an array; ValueError unless it has one row more than columns."""
    R = np.asarray(matrix, float)
    if R.ndim != 2 or R.shape[0] != R.shape[1] + 1 or R.shape[1] == 0:
        raise ValueError(f"accuracy matrix has shape {R.shape}; expected (K + 1, K), row 0 for the base model")
    return R


def faa(matrix: ArrayLike) -> float:
    """Final average accuracy: the mean of the last row."""
    return float(checked_matrix(matrix)[-1].mean())


def bwt(matrix: ArrayLike) -> float:
    """Backward transfer: mean change on each earlier mission from just after it was learnt to the end."""
    R = checked_matrix(matrix)
    return _mean(R[-1, :-1] - _just_learnt(R)[:-1])


def fwt(matrix: ArrayLike) -> float:
    """Forward transfer: mean gain over the base model on each mission just before it is learnt."""
    R = checked_matrix(matrix)
    return _mean((np.diag(R) - R[0])[1:])


def af(matrix: ArrayLike) -> float:
    """Average forgetting: mean fall of each earlier mission from its best since it was learnt to the end."""
    R = checked_matrix(matrix)
    return _mean(np.array([R[j + 1 :, j].max() - R[-1, j] for j in range(R.shape[1] - 1)]))


def c2(matrix: ArrayLike) -> float:
    """Immediate adaptation: mean accuracy on each mission just after it was learnt."""
    return float(_just_learnt(checked_matrix(matrix)).mean())


def c3(matrix: ArrayLike, counts: ArrayLike, step: int | None = None) -> float:
    """Knowledge retention after `step` missions (default: all): the queries of the missions before it, pooled.

    counts (K,) are the missions' numbers of test queries. NaN for the first step, which has nothing to retain.
    """
    R, weights = checked_matrix(matrix), np.asarray(counts, float)
    step = R.shape[1] if step is None else step
    if step < 2:
        return float("nan")
    return float(np.average(R[step, : step - 1], weights=weights[: step - 1]))


def old_final(matrix: ArrayLike) -> float:
    """Mean final accuracy on all missions but the last, unpooled: "Old-3 Final" of the paper's SUES-200 table."""
    return _mean(checked_matrix(matrix)[-1, :-1])


@dataclass(frozen=True)
class ContinualSummary:
    """Continual-learning results of one run: a row of the paper's table 3."""

    faa: float
    bwt: float
    fwt: float
    af: float
    c1: float
    c2: float
    c3: float


def summarize_run(
    matrix: ArrayLike, counts: ArrayLike, held_out_errors: ArrayLike, threshold_m: float = PRIMARY_THRESHOLD_M
) -> ContinualSummary:
    """All continual-learning metrics of one run.

    counts (K,): test queries per mission. held_out_errors (n,): the final model's errors on all held-out queries.
    """
    c1 = recall_at(held_out_errors, threshold_m)
    return ContinualSummary(faa(matrix), bwt(matrix), fwt(matrix), af(matrix), c1, c2(matrix), c3(matrix, counts))


@dataclass(frozen=True)
class MeanStd:
    """Mean and sample standard deviation (NaN for fewer than two values) of `count` values."""

    mean: float
    std: float
    count: int


def mean_std(values: ArrayLike) -> MeanStd:
    """Mean and sample standard deviation, as every table of the paper gives them."""
    values = np.asarray(values, float)
    std = float(values.std(ddof=1)) if values.size > 1 else float("nan")
    return MeanStd(_mean(values), std, values.size)


def over_seeds(runs: Sequence[Any]) -> dict[str, MeanStd]:
    """Mean and deviation of every figure over runs, which are summaries of one kind or mappings with the same names."""
    rows = [run if isinstance(run, Mapping) else dataclasses.asdict(run) for run in runs]
    return {name: mean_std([row[name] for row in rows]) for name in rows[0]} if rows else {}


def _just_learnt(R: Array) -> Array:
    return np.diag(R, k=-1)


def _mean(values: Array) -> float:
    return float(values.mean()) if values.size else float("nan")
