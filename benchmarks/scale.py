"""What grows with the map: every stage of a store's life over procedural countries of 10 to 1,000 km².

    python benchmarks/scale.py [--tiles 1 3 6 10] [--steps 40] [--work DIR] [--out benchmarks/results/scale]

A country of n × n tiles has n² × 10.24 km² in cells of 200 m. Each stage of each size runs in a process of its own, so
that its peak memory is its own, and leaves its figures in OUT/tilesN.json; what is there is not measured again
(--again STAGE…). Then README.md and growth.png are drawn from the records. Seconds are processor time of one thread.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scale_report import write_report
from scale_world import Country, Training

STAGES = {
    "world": "scale_map",
    "map": "scale_map",
    "channel": "scale_map",
    "search": "scale_map",
    "retrieval": "scale_map",
    "train": "scale_network",
    "first_fix": "scale_first_fix",
    "query": "scale_network",
    "adapt": "scale_network",
}
"""The module of each, in the order in which they need each other. Where no network is needed PyTorch is not loaded."""

MARK = "figures: "


def measure(country: Country, stage: str, store: Path, training: Training) -> dict[str, Any]:
    """Run a stage in a process of its own; its figures, with its peak memory."""
    command = [sys.executable, __file__, "--stage", stage, "--tiles", str(country.tiles)]
    for name, value in asdict(training).items():
        command += [] if value is None else ["--" + name.replace("_", "-"), str(value)]
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    done = subprocess.run(
        [*command, "--work", str(store)], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.rsplit(MARK, 1)[1])


def run_stage(args: argparse.Namespace) -> None:
    """In the child: do one stage and print its figures."""
    stage = getattr(importlib.import_module(STAGES[args.stage]), args.stage)
    start_mb, start_s = memory_mb("VmRSS"), time.process_time()
    figures = stage(Country(args.tiles[0]), args.work, Training(args.steps, args.begin_with, args.imprint))
    own = {"cpu_s": time.process_time() - start_s, "start_mb": start_mb, "peak_mb": memory_mb("VmHWM")}
    rounded = {name: round(value, 4) if isinstance(value, float) else value for name, value in (own | figures).items()}
    print(MARK + json.dumps(rounded))


def memory_mb(name: str) -> float:
    """A figure of this process's memory, as the kernel has it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith(name))


def main() -> None:
    """Measure what has no record yet, and draw the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiles", type=int, nargs="+", default=[1, 3, 10], help="sides of the countries, in tiles")
    parser.add_argument("--steps", type=int, default=40, help="of base training (default: %(default)s)")
    parser.add_argument("--begin-with", metavar="STORE", help="store of another map whose tail training begins with")
    parser.add_argument("--imprint", type=int, metavar="N", help="views of each cell as which its classifier begins")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES), metavar="STAGE", help="only these")
    parser.add_argument("--again", nargs="+", choices=STAGES, default=[], metavar="STAGE", help="measure these anew")
    parser.add_argument("--work", type=Path, help="folder of the stores (default: a temporary one)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "scale")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.stage:
        run_stage(args)
        return
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for tiles in args.tiles:
            country, path = Country(tiles), args.out / f"tiles{tiles}.json"
            record = json.loads(path.read_text()) if path.exists() else {}
            record |= {"km2": country.km2, "machine": f"{platform.machine()}, {os.cpu_count()} cores"}
            for stage in args.stages:
                if stage in record and stage not in args.again:
                    continue
                store = (args.work or Path(scratch)) / f"tiles{tiles}"
                record[stage] = measure(country, stage, store, Training(args.steps, args.begin_with, args.imprint))
                print(f"{country.km2:.0f} km² {stage}: {record[stage]}", file=sys.stderr, flush=True)
                path.write_text(json.dumps(record, indent=1) + "\n")
    write_report(args.out)


if __name__ == "__main__":
    main()
