"""Scenarios: a YAML file that names a world, the day of its map, and the missions flown over it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.settings import load_settings, read_yaml, setting
from aerial_vpr_cl.simulation.camera import CameraSettings
from aerial_vpr_cl.simulation.gnss import GnssSettings
from aerial_vpr_cl.simulation.sensors import InstrumentSettings
from aerial_vpr_cl.simulation.tracks import TrackSettings
from aerial_vpr_cl.simulation.world.appearance import Appearance
from aerial_vpr_cl.simulation.world.ground import World
from aerial_vpr_cl.simulation.world.procedural import procedural_world
from aerial_vpr_cl.simulation.world.raster_world import RasterWorld
from aerial_vpr_cl.simulation.world.terrain import WorldSettings

FEWEST_FRAMES = 24
"""A scaled mission keeps at least so many frames: with five dropped each side of the split, both halves remain."""
ROLES = ("sequence", "held_out")


@dataclass(frozen=True)
class MissionSpec:
    """One mission to fly."""

    name: str = setting("mission", "name of the mission and of its bag")
    frames: int = setting(100, "number of frames", low=2)
    modality: str = setting("VIS", "what the camera sees", choices=("VIS", "IR"))
    role: str = setting("sequence", "learnt from in the mission sequence, or held out for evaluation", choices=ROLES)
    start: str = setting("2026-06-01T09:00:00+00:00", "time of the first frame, ISO 8601; UTC unless it says otherwise")
    seed: int = setting(0, "which track, errors and noise, together with the name", low=0)
    appearance: Appearance = setting(Appearance(), "season, light and change; of procedural worlds only")
    camera: CameraSettings = setting(CameraSettings(), "optics and sensor")
    track: TrackSettings = setting(TrackSettings(), "route, height and speed")
    gnss: GnssSettings = setting(GnssSettings(), "the satellite receiver")
    sensors: InstrumentSettings = setting(InstrumentSettings(), "compass, tilt, height, odometry and their errors")
    raster: Path | None = setting(None, "GeoTIFF to fly over instead of the scenario's world")
    bands: tuple[int, ...] | None = setting(
        None, "bands of the raster, from 1: three as red, green, blue, or one as grey"
    )

    @property
    def start_ns(self) -> int:
        """Time of the first frame in nanoseconds."""
        try:
            moment = datetime.fromisoformat(self.start.replace("Z", "+00:00"))
        except ValueError:
            raise SettingsError(f"mission {self.name}: start '{self.start}' is not an ISO 8601 time") from None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        return round(moment.timestamp()) * 1_000_000_000

    def scaled(self, factor: float) -> MissionSpec:
        """The same mission with its number of frames multiplied, and a route as much shorter."""
        return dataclasses.replace(self, frames=max(FEWEST_FRAMES, round(self.frames * factor)))


@dataclass(frozen=True)
class Scenario:
    """A world and its missions."""

    world: WorldSettings = setting(WorldSettings(), "the procedural world; unused where a raster is given")
    map: Appearance = setting(Appearance(), "the day on which the satellite map of the procedural world is taken")
    raster: Path | None = setting(None, "GeoTIFF to fly over instead of the procedural world")
    bands: tuple[int, ...] | None = setting(None, "bands of the raster, from 1")
    missions: tuple[MissionSpec, ...] = setting((), "the missions, in the order of the file")

    def world_of(self, mission: MissionSpec) -> World:
        """What this mission flies over: its own raster, else the scenario's raster, else the procedural world."""
        raster = mission.raster or self.raster
        if raster is None:
            return procedural_world(self.world)
        return RasterWorld(raster, bands=mission.bands or self.bands)

    def chosen(self, names: Sequence[str] | None) -> tuple[MissionSpec, ...]:
        """The missions of these names, or all; an unknown name is refused with the list of known ones."""
        if not names:
            return self.missions
        known = {mission.name: mission for mission in self.missions}
        for name in names:
            if name not in known:
                raise SettingsError(f"no mission '{name}' in the scenario; it has {', '.join(known)}")
        return tuple(known[name] for name in names)


def load_scenario(path: str | Path, *, raster: Path | None = None) -> Scenario:
    """Read a scenario file.

    Rasters are looked for beside the file unless their paths are absolute. `raster` overrides that: a directory is
    searched instead of the file's own, a file is flown over by every mission.
    """
    path = Path(path)
    values = read_yaml(path)
    entries = values.pop("missions", None) or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise SettingsError(f"{path}: 'missions' must be a list of mappings, each with at least a name")
    common = values.pop("mission_defaults", None) or {}
    folder = raster if raster is not None and raster.is_dir() else path.parent
    missions = []
    for number, entry in enumerate(entries, start=1):
        what = f"{path}: mission {entry.get('name', number)}"
        if "name" not in entry:
            raise SettingsError(f"{what}: has no name")
        missions.append(_mission(_merged(common, entry), what, folder))
    names = [mission.name for mission in missions]
    for name in names:
        if names.count(name) > 1:
            raise SettingsError(f"{path}: two missions are called {name}; names must differ")
    try:
        scenario = load_settings(Scenario, values)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None
    _refuse_plain_values(scenario, ("world", "map"), str(path))
    own = None if scenario.raster is None else folder / scenario.raster
    if raster is not None and not raster.is_dir():
        own = raster
        missions = [dataclasses.replace(mission, raster=None) for mission in missions]
    return dataclasses.replace(scenario, missions=tuple(missions), raster=own)


def _mission(entry: dict, what: str, folder: Path) -> MissionSpec:
    try:
        mission = load_settings(MissionSpec, entry)
    except SettingsError as error:
        raise SettingsError(f"{what}: {error}") from None
    _refuse_plain_values(mission, ("appearance", "camera", "track", "gnss", "sensors"), what)
    return mission if mission.raster is None else dataclasses.replace(mission, raster=folder / mission.raster)


def _refuse_plain_values(settings: Scenario | MissionSpec, names: Sequence[str], what: str) -> None:
    """Groups of settings must be mappings in the file."""
    for name in names:
        value = getattr(settings, name)
        if not dataclasses.is_dataclass(value):
            raise SettingsError(f"{what}: '{name}' must be a mapping of names to values, not {value!r}")


def _merged(common: dict, entry: dict) -> dict:
    """The entry over the defaults of all missions, mappings merged key by key."""
    merged = dict(common)
    for key, value in entry.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = {**merged[key], **value} if both else value
    return merged
