"""The cases of benchmarks/tracking.py: what a drone lacks, what goes wrong, and what its tracker goes without."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from aerial_vpr_cl.images import encode_jpeg
from aerial_vpr_cl.mission.frames import Frame
from aerial_vpr_cl.mission.mission import Flight
from aerial_vpr_cl.mission.situation import Motion
from aerial_vpr_cl.simulation.scenario import MissionSpec

JUMP_M = 130.0


def _as_it_was(flight: Flight) -> Flight:
    return flight


def _as_planned(spec: MissionSpec) -> MissionSpec:
    return spec


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    title: str
    change: Callable[[Flight], Flight] = _as_it_was  # of what was recorded
    plan: Callable[[MissionSpec], MissionSpec] = _as_planned  # of what is flown
    settings: Mapping[str, object] = field(default_factory=dict)  # of the tracker
    fitted: bool = True  # whether what a match is worth was fitted on the map
    same_route: bool = True  # whether the receiver flew what the camera saw
    answered_as: str = ""  # the case whose answers these are: no tracker hears of GNSS


def _each(change: Callable[[Frame], Frame]) -> Callable[[Flight], Flight]:
    return lambda flight: replace(flight, frames=tuple(change(frame) for frame in flight.frames))


def _without_heading(frame: Frame) -> Frame:
    return replace(frame, situation=replace(frame.situation, heading_sigma_deg=180.0))


def _without_height(frame: Frame) -> Frame:
    return replace(frame, situation=replace(frame.situation, height_m=None))


def _without_odometry(frame: Frame) -> Frame:
    return replace(frame, motion=None)


def _mirrored(frame: Frame) -> Frame:
    """Ground that is on no map, with everything else as it was."""
    return replace(frame, image=encode_jpeg(np.ascontiguousarray(frame.decode()[:, ::-1]), 90))


def _kidnapped(flight: Flight) -> Flight:
    """After a quarter of the flight the drone is carried to the farthest place of its route; only the camera tells."""
    quarter = len(flight.frames) // 4
    away = np.hypot(*(flight.positions[quarter:] - flight.positions[quarter]).T)
    rest = flight.frames[quarter + int(np.argmax(away[: len(away) // 2 + 1])) :]
    gap_ns = rest[0].stamp_ns - flight.frames[quarter].stamp_ns
    later = tuple(replace(frame, stamp_ns=frame.stamp_ns - gap_ns) for frame in rest)
    return replace(flight, frames=flight.frames[:quarter] + later)


def _jumping(flight: Flight) -> Flight:
    """At a quarter, at half and at three quarters the odometry says that the drone went aside, and it did not."""
    frames = list(flight.frames)
    for turn, row in enumerate(len(frames) * k // 4 for k in (1, 2, 3)):
        motion = frames[row].motion
        if motion is not None:
            aside = motion.forward_left_m + np.array([0.0, JUMP_M if turn % 2 else -JUMP_M])
            frames[row] = replace(frames[row], motion=replace(motion, forward_left_m=aside))
    return replace(flight, frames=tuple(frames))


def _frozen(flight: Flight) -> Flight:
    """The camera stops halfway."""
    half = len(flight.frames) // 2
    return _from(flight, half, lambda frame: replace(frame, image=flight.frames[half].image))


def _standing_odometry(flight: Flight) -> Flight:
    """From a quarter on the odometry says that the drone stands."""
    quarter = len(flight.frames) // 4
    return _from(flight, quarter, lambda frame: replace(frame, motion=_stopped(frame.motion)))


def _stopped(motion: Motion | None) -> Motion | None:
    return None if motion is None else replace(motion, forward_left_m=np.zeros(2), turn_deg=0.0)


def _blank_without_odometry(flight: Flight) -> Flight:
    """No odometry, and from halfway on a lens cap: the way on is a guess."""
    flight = _each(_without_odometry)(flight)
    height, width = flight.frames[0].decode().shape[:2]
    blank = encode_jpeg(np.full((height, width, 3), 90, np.uint8), 90)
    return _from(flight, len(flight.frames) // 2, lambda frame: replace(frame, image=blank))


def _from(flight: Flight, row: int, change: Callable[[Frame], Frame]) -> Flight:
    return replace(flight, frames=flight.frames[:row] + tuple(change(frame) for frame in flight.frames[row:]))


def _odometry(noise: float) -> Callable[[MissionSpec], MissionSpec]:
    return lambda spec: replace(spec, sensors=replace(spec.sensors, odometry_noise=noise))


def _spoofed(kind: str) -> Callable[[MissionSpec], MissionSpec]:
    """A receiver that hears nothing but the lie, and states a small covariance."""
    return lambda spec: replace(spec, gnss=replace(spec.gnss, spoofing=kind, spoofing_m=1000.0, outages=0, jumps=0))


def _deceived(kind: str) -> Callable[[MissionSpec], MissionSpec]:
    """The same, with the odometry of an autopilot that believes its receiver."""
    lie = _spoofed(kind)
    return lambda spec: replace(lie(spec), sensors=replace(spec.sensors, odometry_follows_gnss=True))


def _creeping(spec: MissionSpec) -> MissionSpec:
    """A drone that all but hovers: a frame every second and every metre."""
    return replace(spec, track=replace(spec.track, speed_m_s=1.0, spacing_m=1.0))


def _low(spec: MissionSpec) -> MissionSpec:
    """The camera sees half of what views usually show, across."""
    return replace(spec, track=replace(spec.track, altitude_m=spec.track.altitude_m / 2.0))


CASES: dict[str, Case] = {
    "all": Case("all senses"),
    "no_heading": Case("no heading", _each(_without_heading)),
    "no_height": Case("no height", _each(_without_height)),
    "no_odometry": Case("no odometry", _each(_without_odometry)),
    "none": Case("camera alone", _each(lambda frame: _without_odometry(_without_height(_without_heading(frame))))),
    "no_registration": Case("no registration: the network alone", settings={"use_registration": False}),
    "no_network": Case("no network", settings={"use_network": False}),
    "no_calibration": Case("no calibration: a match is worth the same on every map", fitted=False),
    "no_belief": Case("every frame alone", settings={"use_belief": False}),
    **{f"odometry_{n}": Case(f"odometry errs by {n} %", plan=_odometry(n / 100.0)) for n in (1, 2, 5, 10, 20)},
    **{
        f"odometry_{n}_told": Case(
            f"odometry errs by {n} %, and the tracker is told",
            plan=_odometry(n / 100.0),
            settings={"odometry_noise": n / 100.0},
        )
        for n in (10, 20)
    },
    "odometry_jumps": Case(f"odometry jumps by {JUMP_M:.0f} m three times", _jumping),
    "odometry_drifts": Case("odometry follows a receiver that is dragged off to 1 km", plan=_deceived("drift")),
    "odometry_replays": Case("odometry follows a receiver that hears another track", plan=_deceived("replayed")),
    "odometry_stands": Case("odometry stands still from a quarter on", _standing_odometry),
    "blank": Case("no odometry, and blank images from halfway on", _blank_without_odometry),
    "creeping": Case("creeps at 1 m/s", plan=_creeping),
    "creeping_no_odometry": Case("creeps at 1 m/s, no odometry", _each(_without_odometry), plan=_creeping),
    "low": Case("flown at half the height", plan=_low),
    "kidnapped": Case("kidnapped in mid-flight", _kidnapped, same_route=False),
    "frozen": Case("camera frozen from halfway on", _frozen),
    "off_map": Case("off the map (mirrored ground)", _each(_mirrored)),
    "gnss_offset": Case("GNSS spoofed by a constant 1 km", plan=_spoofed("offset"), answered_as="all"),
    "gnss_drift": Case("GNSS dragged off, to 1 km at the end", plan=_spoofed("drift"), answered_as="all"),
}
