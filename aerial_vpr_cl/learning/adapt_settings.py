"""Settings of an adaptation. Without PyTorch, so that the learner node, which only passes them on, stays small."""

from __future__ import annotations

from dataclasses import dataclass

from aerial_vpr_cl.learning.method_options import AS_SEEN_METHOD, AUTO, NORTH_UP_METHOD, check_method
from aerial_vpr_cl.settings import DEVICE_PATTERN, setting


@dataclass(frozen=True)
class LearnSettings:
    """How long and on how many views a mission is learnt."""

    cycles: int = setting(6, "passes over the mission; each goes through all groups", low=1)
    views: int = setting(4, "augmented views of every image; each passes the trunk once", low=1)
    batch_current: int = setting(20, "samples a step from the current mission", low=1)
    batch_exemplar: int = setting(10, "samples a step from the satellite exemplars", low=0)
    batch_replay: int = setting(10, "samples a step from the replay buffer", low=0)
    cache_mb: int = setting(
        4096, "most disk space for cached trunk outputs; 0 runs the plain loop without a cache", low=0
    )
    tail_rate: float | None = setting(None, "learning rate of the tail; unset: the backbone's recipe", low=1e-12)
    head_rate: float | None = setting(None, "learning rate of the heads; unset: the backbone's recipe", low=1e-12)
    plateau_cycles: int = setting(1, "cycles without a lower loss that are borne before a rate is halved", low=0)
    seed: int = setting(0, "fixes everything that is drawn", low=0)


@dataclass(frozen=True)
class MissionSettings(LearnSettings):
    """How a mission is learnt and what is kept of it."""

    method: str = setting(
        AUTO,
        "continual-learning method or selection strategy; its options may follow: dbs_hybrid+trim_ratio=0.1; "
        f"{AUTO}: {NORTH_UP_METHOD} for north-up views, {AS_SEEN_METHOD} for frames as seen",
        check=check_method,
    )
    budget: int = setting(200, "observations the replay buffer keeps per group (B)", low=0)
    max_buffer_mb: float = setting(0.0, "largest replay buffer on disk; 0: bounded by count only", low=0.0)


@dataclass(frozen=True)
class ThinningSettings:
    """When two frames are near-identical: flown less than this far, and looking this much alike."""

    thinning: bool = setting(True, "leave out near-identical frames (hovering) before learning")
    thinning_distance_m: float = setting(5.0, "frames further from the last kept one than this always count", low=0.0)
    thinning_difference: float = setting(
        0.04, "mean difference of thumbnails, share of full scale, from which a frame counts as new", low=0.0, high=1.0
    )


@dataclass(frozen=True)
class GateSettings:
    """How much may be lost on what was known before."""

    gate_margin: float = setting(
        0.10,
        "largest fall of recall on replay buffer and exemplars, as a share, that is still committed",
        low=0.0,
        high=1.0,
    )
    gate_samples: int = setting(400, "most exemplars that the gate looks at", low=0)


@dataclass(frozen=True)
class CalibrationSettings:
    """What tells how sure answers may be."""

    calibration_share: float = setting(
        0.1,
        "share of a mission's frames that is not learnt but tells how sure answers may be; all may be remembered",
        low=0.0,
        high=0.5,
    )


@dataclass(frozen=True)
class LabelSettings:
    """What is believed of a flight's positions."""

    labels: str = setting(
        "auto",
        "auto: GNSS where the proven track agrees with it, else the track (as_seen and without tilt or "
        "height: gnss); gnss: GNSS alone, as in the paper; track: never GNSS",
        choices=("auto", "gnss", "track"),
    )
    label_radius_cells: float = setting(
        0.25, "largest 95 % radius of a label from the track, in cell sides", low=0.01, high=1.0
    )
    gnss_bridge_s: float = setting(
        15.0,
        "longest stretch without a track, in seconds, over which GNSS that agrees at both ends is believed",
        low=0.0,
    )


@dataclass(frozen=True)
class AdaptSettings(LabelSettings, MissionSettings, ThinningSettings, GateSettings, CalibrationSettings):
    """Everything about an adaptation; the paper's values are the defaults where it gives one."""

    image_topic: str = setting("", "topic of the frames in a bag; empty: found by type")
    fix_topic: str = setting("", "topic of the GNSS fixes in a bag; empty: found by type")
    keep_raw: bool = setting(False, "keep the raw mission after it was learnt (laboratories)")
    keep_generations: int = setting(3, "generations kept on disk, at least two", low=2)
    device: str = setting(
        "auto", "where learning computes: auto (a GPU if there is one), cpu, cuda or cuda:N", pattern=DEVICE_PATTERN
    )
    threads: int = setting(0, "CPU threads to use; 0: all", low=0)
