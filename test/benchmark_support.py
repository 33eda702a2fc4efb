"""A benchmark small enough for tests: a simulated world, three short missions, a network of random weights."""

from __future__ import annotations

from pathlib import Path

from aerial_vpr_cl.benchmark.settings import load_benchmark
from aerial_vpr_cl.benchmark.work_folder import WorkFolder

SCENARIO = """
world: {seed: 3, width_m: 1600, height_m: 1600, resolution_m: 4, epsg: 32650, west: 804000, south: 4022000}
mission_defaults:
  camera: {width_px: 64, height_px: 64, hfov_deg: 50}
  track: {kind: out_and_back, altitude_m: 300, spacing_m: 30}
missions:
  - {name: A, frames: 32, modality: VIS, role: sequence}
  - {name: B, frames: 32, modality: IR, role: sequence, gnss: {outages: 3, outage_s: 12}}
  - {name: C, frames: 24, modality: VIS, role: held_out}
"""
CONFIG = """
scenario: scenario.yaml
map: {view: as_seen, cell_side_m: 200, footprint_m: 300, rotations: 1}
base: {backbone: tf_efficientnet_lite0, weights: random, input_size: 64, batch: 8, epoch_steps: 1, max_steps: 4,
  held_out: 16, exemplars: 2, exemplar_candidates: 2, device: cpu}
learn: {cycles: 1, views: 2, batch_current: 8, batch_exemplar: 4, batch_replay: 4}
retrieval_patches: 40
base_threads: 1
studies:
  - {name: main, title: Tiny, methods: [ft, dbs_hybrid], seeds: [0, 1], budgets: [4]}
  - {name: capacity, methods: [ft, dbs_hybrid], orders: [forward, backward], seeds: [0], budgets: [2, 4]}
"""


def write_config(folder: Path, config: str = CONFIG) -> Path:
    """The benchmark file with its scenario."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scenario.yaml").write_text(SCENARIO)
    (folder / "bench.yaml").write_text(config)
    return folder / "bench.yaml"


def prepared(session: Path) -> WorkFolder:
    """The benchmark with its missions flown and its base model made, once for all tests of a session."""
    folder = session / "prepared-benchmark"
    work = WorkFolder(folder / "out", load_benchmark(write_config(folder)))
    work.prepare()  # changes nothing the second time
    return work
