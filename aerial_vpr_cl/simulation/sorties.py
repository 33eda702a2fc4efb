"""Flying a mission: frames, true positions and fixes in time order, in memory or into a bag."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.images import encode_jpeg
from aerial_vpr_cl.mission.bag_writer import MissionWriter
from aerial_vpr_cl.mission.readings import OdometryReading, Reading
from aerial_vpr_cl.progress import Progress, silent
from aerial_vpr_cl.simulation.camera import Pose, body_axes, develop, reach_m, take_picture
from aerial_vpr_cl.simulation.flights import Flight, box_of, plan_flight
from aerial_vpr_cl.simulation.gnss import Fix, receive, told_positions
from aerial_vpr_cl.simulation.scenario import MissionSpec
from aerial_vpr_cl.simulation.sensors import quaternions, sense
from aerial_vpr_cl.simulation.world.ground import GroundImage, World
from aerial_vpr_cl.simulation.world.noise import smooth_series


@dataclass(frozen=True)
class View:
    """One moment of a flight, as the drone records it and as it truly is."""

    stamp_ns: int
    image: NDArray[np.uint8]  # (H, W, 3) RGB
    position: NDArray[np.float64]  # (2,) true easting and northing
    heading_deg: float
    fix: Fix | None  # the latest one, not older than two of its intervals


@dataclass(frozen=True)
class Sortie:
    """A planned flight over one appearance of the ground. Planning is quick; frames are made one by one."""

    spec: MissionSpec
    ground: GroundImage
    flight: Flight
    fixes: tuple[Fix, ...]

    @cached_property
    def north_deg(self) -> float:
        """Bearing of true north on the map, in the middle of the flight."""
        return self.ground.projection.north_deg(self.flight.path.mean(axis=0))

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """What the drone's instruments say, in time order."""
        spec, rng = self.spec, _stream(self.spec, 4)
        believed = partial(told_positions, self.flight, spec.gnss) if spec.sensors.odometry_follows_gnss else None
        return tuple(sense(self.flight, self.attitudes_at, spec.camera, spec.sensors, self.north_deg, rng, believed))

    def positions(self) -> NDArray[np.float64]:
        """(n, 2) true positions of the frames."""
        return self.flight.positions_at(self.flight.stamps_ns)

    def pose(self, index: int) -> Pose:
        """Where the camera is and looks at frame number `index`."""
        stamp = self.flight.stamps_ns[index : index + 1]
        pitch_deg, roll_deg, _ = self._wobble[:, index]
        altitude_m, heading_deg = self.flight.altitudes_m_at(stamp)[0], self.flight.headings_deg_at(stamp)[0]
        position = self.flight.positions_at(stamp)[0]
        return Pose(position, float(altitude_m), float(heading_deg), float(pitch_deg), float(roll_deg))

    def attitudes_at(self, stamps_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        """(n, 3, 3) true rotations base_link → ENU; between frames the drone sways from one pose to the next."""
        pitch, roll = (np.interp(stamps_ns, self.flight.stamps_ns, angle) for angle in self._wobble[:2])
        return body_axes(self.spec.camera, self.flight.headings_deg_at(stamps_ns), pitch, roll)

    def frame(self, index: int) -> NDArray[np.uint8]:
        """RGB frame number `index`; each has its own noise, so any one can be made without the others."""
        picture = take_picture(self.ground, self.spec.camera, self.pose(index))
        exposure_ev, is_grey = float(self._wobble[2, index]), self.spec.modality == "IR"
        return develop(picture, self.spec.camera, _stream(self.spec, 3, index), exposure_ev=exposure_ev, grey=is_grey)

    @cached_property
    def _wobble(self) -> NDArray[np.float64]:
        """(3, n) pitch and roll in degrees and exposure in stops, wandering over a few frames."""
        rng, n, camera = _stream(self.spec, 2), self.spec.frames, self.spec.camera
        series = np.stack([smooth_series(n, 3.0, rng) for _ in range(3)]).clip(-3.0, 3.0)
        return series * np.array([[camera.shake_deg], [camera.shake_deg], [camera.exposure_wander_ev]])


def plan(world: World, spec: MissionSpec) -> Sortie:
    """Plan the flight and its GNSS; the same world, specification and seed give the same sortie."""
    try:
        ground = world.ground(spec.appearance, spec.modality)
        top = spec.track.altitude_m + 2.0 * spec.track.altitude_wander_m
        box = box_of(ground.bounds, spec.track, reach_m(spec.camera, top))
        flight = plan_flight(spec.track, box, spec.frames, spec.start_ns, _stream(spec, 0))
    except SettingsError as error:
        raise SettingsError(f"mission {spec.name}: {error}") from None
    fixes = receive(flight, spec.gnss, ground.projection, _stream(spec, 1))
    return Sortie(spec, ground, flight, tuple(fixes))


def fly(world: World, spec: MissionSpec) -> Iterator[View]:
    """Fly a mission in memory, frame by frame."""
    yield from views(plan(world, spec))


def views(sortie: Sortie) -> Iterator[View]:
    """The frames of a sortie with their true positions and the fix known at that moment."""
    flight, stamps = sortie.flight, sortie.flight.stamps_ns
    fix_stamps = np.array([fix.stamp_ns for fix in sortie.fixes], np.int64)
    latest = np.searchsorted(fix_stamps, stamps, side="right") - 1
    oldest_ns = round(2e9 / sortie.spec.gnss.rate_hz)
    moments = zip(stamps, sortie.positions(), flight.headings_deg_at(stamps), latest)
    for k, (stamp, position, heading, known) in enumerate(moments):
        fix = sortie.fixes[known] if known >= 0 and stamp - fix_stamps[known] <= oldest_ns else None
        yield View(int(stamp), sortie.frame(k), position, float(heading), fix)


def simulate_mission(
    world: World, spec: MissionSpec, path: Path, *, raw: bool = False, progress: Progress = silent
) -> Sortie:
    """Fly a mission into a new bag at `path`; nothing is left there when it cannot be finished."""
    sortie = plan(world, spec)
    writer = MissionWriter(
        path, name=spec.name, modality=spec.modality, sensors={"mount_forward_deg": spec.camera.tilt_deg}
    )
    try:
        with writer:
            _record(sortie, writer, raw, progress)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    return sortie


def _record(sortie: Sortie, writer: MissionWriter, raw: bool, progress: Progress) -> None:
    stamps = sortie.flight.stamps_ns
    latitudes, longitudes = sortie.ground.projection.to_wgs84(sortie.positions())
    poses = _true_poses(sortie)
    heard = sorted([*sortie.fixes, *sortie.readings], key=lambda message: message.stamp_ns, reverse=True)
    for k, pose in enumerate(poses):
        image = sortie.frame(k)
        while heard and heard[-1].stamp_ns <= stamps[k]:
            _write(writer, heard.pop())
        if raw:
            writer.write_raw_image(int(stamps[k]), image)
        else:
            writer.write_image(int(stamps[k]), encode_jpeg(image, sortie.spec.camera.jpeg_quality))
        writer.write_truth(int(stamps[k]), float(latitudes[k]), float(longitudes[k]), pose.position[2])
        writer.write_true_pose(pose)
        progress(f"flying {sortie.spec.name}", k + 1, len(stamps))
    while heard:
        _write(writer, heard.pop())


def _true_poses(sortie: Sortie) -> list[OdometryReading]:
    """Easting, northing, height above ground and attitude at every frame."""
    stamps = sortie.flight.stamps_ns
    places = np.column_stack([sortie.positions(), sortie.flight.altitudes_m_at(stamps)]).tolist()
    attitudes = quaternions(sortie.attitudes_at(stamps)).tolist()
    return [OdometryReading(int(s), tuple(place), tuple(q)) for s, place, q in zip(stamps, places, attitudes)]


def _write(writer: MissionWriter, message: Fix | Reading) -> None:
    if not isinstance(message, Fix):
        writer.write_reading(message)
        return
    writer.write_fix(
        message.stamp_ns,
        message.latitude,
        message.longitude,
        message.altitude_m,
        status=message.status,
        variance_m2=message.variance_m2,
    )


def _stream(spec: MissionSpec, *purpose: int) -> np.random.Generator:
    """Random numbers of one purpose: changing the camera leaves the track and the GNSS as they were."""
    return np.random.default_rng([spec.seed, zlib.crc32(spec.name.encode()), *purpose])
