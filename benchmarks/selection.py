"""How long does choosing what to remember take? DBS-Hybrid beside a dense n×n form of it, and its growth with n.

    OMP_NUM_THREADS=1 python benchmarks/selection.py [--results benchmarks/results/selection.md]

Both forms are timed in turns in one run, so that their ratio holds on a machine with a noisy clock, and by processor
time of one thread, so that other work on the machine counts little. Pools are as in the paper: up to 38 classes in a
group, d = 768, B = 200 (its own figures: mean 65.9 ms, maximum 399 ms on a workstation).
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.memory.scoring import normalise, settle
from aerial_vpr_cl.memory.strategies import Pool, select

DIM, CLASSES, BUDGET = 768, 38, 200
LARGEST_POOL = 247
SIZES = (250, 1000, 5000)
TURNS = 3  # on each pool; the fastest counts
LIMIT_MS = 5.0


def make_pool(n: int, seed: int) -> tuple[NDArray, ...]:
    """Features around their prototypes, with the scenes of a flight as smaller clusters; labels, prototypes, losses."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(CLASSES, DIM))
    scenes = rng.normal(size=(4 * CLASSES, DIM))
    labels = rng.integers(CLASSES, size=n)
    scene = 4 * labels + rng.integers(4, size=n)
    features = rows[labels] + scenes[scene] + 0.7 * rng.normal(size=(n, DIM))
    return features.astype(np.float32), labels, rows[labels].astype(np.float32), rng.exponential(size=n)


def naive_hybrid(features: NDArray, labels: NDArray, prototypes: NDArray, budget: int) -> NDArray[np.int64]:
    """DBS-Hybrid as the paper describes it: dense pairwise distances, class by class, minimum over all retained."""
    z = normalise(features)
    distance = settle(1 - z @ z.T)
    q = settle((z * normalise(prototypes)).sum(axis=1))
    classes = np.unique(labels)
    kept = [int(np.flatnonzero(labels == c)[np.argmax(q[labels == c])]) for c in classes][:budget]
    eligible = np.zeros(len(labels), bool)
    for c in classes:
        members = np.flatnonzero(labels == c)
        threshold = np.quantile(q[members], 0.05) if len(members) > 2 else -np.inf
        eligible[members] = q[members] >= threshold
    eligible[kept] = False
    excluded = np.setdiff1d(np.flatnonzero(~eligible), kept)
    while len(kept) < budget and eligible.any():
        near = np.where(eligible, distance[:, kept].min(axis=1), -np.inf)
        kept.append(int(np.argmax(near)))
        eligible[kept[-1]] = False
    backfill = excluded[np.argsort(-q[excluded], kind="stable")][: budget - len(kept)]
    return np.array([*kept, *backfill.tolist()], np.int64)


def timed_ms(work: Callable[[], object]) -> float:
    """Milliseconds of processor time of one call."""
    start = time.process_time()
    work()
    return 1e3 * (time.process_time() - start)


def compare(n: int, budget: int, repeats: int) -> tuple[list[float], list[float]]:
    """Times of our form and of the dense one on the same pools, in turns; their selections must be equal."""
    ours, naive = [], []
    for seed in range(repeats):
        features, labels, prototypes, losses = make_pool(n, seed)
        chosen: dict[str, NDArray] = {}

        def choose() -> None:
            pool = Pool(features, labels, prototypes, losses, labels)  # noqa: B023
            chosen["ours"] = select("dbs_hybrid", pool, budget, np.random.default_rng(0))  # noqa: B023

        def choose_naively() -> None:
            chosen["naive"] = naive_hybrid(features, labels, prototypes, budget)  # noqa: B023

        turns = [(timed_ms(choose), timed_ms(choose_naively)) for _ in range(TURNS)]
        ours.append(min(mine for mine, _ in turns))
        naive.append(min(dense for _, dense in turns))
        if chosen["ours"].tolist() != chosen["naive"].tolist():
            raise SystemExit(f"the two forms differ at n = {n}, seed {seed}")
    return ours, naive


def main() -> None:
    """Measure, print the table and, if asked, write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=40, help="pools of paper size (default: 40)")
    parser.add_argument("--results", type=Path, help="Markdown file to write")
    args = parser.parse_args()
    compare(LARGEST_POOL, BUDGET, 3)  # warm up
    ours, naive = compare(LARGEST_POOL, BUDGET, args.repeats)
    lines = [
        "# Selection time of DBS-Hybrid",
        "",
        "    OMP_NUM_THREADS=1 python benchmarks/selection.py --results benchmarks/results/selection.md",
        "",
        f"{platform.machine()}, {os.cpu_count()} cores, {os.environ.get('OMP_NUM_THREADS', 'all')} thread(s), Python "
        f"{platform.python_version()}, numpy {np.__version__}. Processor time from features, labels and prototypes to "
        f"indices, checks and normalisation included; d = {DIM}, {CLASSES} classes; the fastest of "
        f"{TURNS} turns on each of {args.repeats} or, above n = {SIZES[0]}, fewer pools. Both forms chose the same "
        "candidates every time.",
        "",
        "| n | B | ours, median (ms) | 95th percentile (ms) | dense n×n, median (ms) | ours ÷ dense |",
        "|---|---|---|---|---|---|",
        row(LARGEST_POOL, BUDGET, ours, naive),
    ]
    growth = []
    for budget in (50, BUDGET):
        medians = []
        for n in SIZES:
            ours_n, naive_n = compare(n, budget, max(3, args.repeats * SIZES[0] // n))
            lines.append(row(n, budget, ours_n, naive_n))
            medians.append(statistics.median(ours_n))
        steps = [f"{later / earlier:.1f}" for earlier, later in pairwise(medians)]
        growth.append(f"- B = {budget}: {' and '.join(steps)}, together {medians[-1] / medians[0]:.1f}")
    middle = statistics.median(ours)
    lines += [
        "",
        f"At n = {LARGEST_POOL} the median of {middle:.2f} ms is {'within' if middle <= LIMIT_MS else 'above'} the "
        f"limit of {LIMIT_MS:g} ms. Growth of time from n = {SIZES[0]} to {SIZES[1]} to {SIZES[2]}, that is 4 and 5 "
        "times the candidates, together 20:",
        "",
        *growth,
        "",
        f"With n = {SIZES[0]} and B = {BUDGET} the pool is nearly used up while choosing, so that first step starts "
        "low.",
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if args.results:
        args.results.parent.mkdir(parents=True, exist_ok=True)
        args.results.write_text(text)


def row(n: int, budget: int, ours: list[float], naive: list[float]) -> str:
    """One line of the table."""
    middle, high, dense = statistics.median(ours), float(np.quantile(ours, 0.95)), statistics.median(naive)
    return f"| {n} | {budget} | {middle:.2f} | {high:.2f} | {dense:.1f} | {middle / dense:.2f} |"


if __name__ == "__main__":
    main()
