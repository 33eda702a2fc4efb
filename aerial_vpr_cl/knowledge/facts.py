"""What the manifests of a map and of a generation say beside the sizes and hashes of their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from aerial_vpr_cl.errors import StoreError
from aerial_vpr_cl.knowledge.report import MissionReport


@dataclass(frozen=True)
class LearntMission:
    """A mission that a generation has learnt, or one before it."""

    id: str  # what tells one flight from another
    name: str
    modality: str
    frames: int  # with a position worth learning from
    used: int


@dataclass(frozen=True)
class GenerationFacts:
    """What a generation knows of itself. Values of other versions of this software are left out in reading."""

    grid_hash: str = ""
    parent: int | None = None  # the generation it was adapted from; None: base training
    missions: tuple[LearntMission, ...] = ()  # oldest first
    held_out_recall: float | None = None  # of base training
    report: MissionReport | None = None  # of its adaptation
    settings: Mapping[str, Any] = field(default_factory=dict)  # how it was learnt, for the record

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a manifest."""
        return {
            "grid_hash": self.grid_hash,
            "parent": self.parent,
            "missions": [asdict(mission) for mission in self.missions],
            "held_out_recall": self.held_out_recall,
            "report": self.report.to_dict() if self.report else None,
            "settings": dict(self.settings),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> GenerationFacts:
        """The facts that `to_dict` wrote; StoreError for what cannot be understood."""
        try:
            return cls(
                grid_hash=values.get("grid_hash", ""),
                parent=values.get("parent"),
                missions=tuple(LearntMission(**mission) for mission in values.get("missions", ())),
                held_out_recall=values.get("held_out_recall"),
                report=MissionReport.from_dict(values["report"]) if values.get("report") else None,
                settings=dict(values.get("settings", {})),
            )
        except (TypeError, ValueError, AttributeError) as error:
            raise StoreError(f"the facts of the manifest are not understood: {error}") from None


@dataclass(frozen=True)
class MapSource:
    """Where the raster of a map came from."""

    name: str
    sha256: str | None  # None: no local file
    bands: tuple[int, ...]


ValueRange = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class MapDate:
    """Another date of the map's ground, and how its raster is to be read."""

    file: str  # in the map folder
    bands: tuple[int, ...]
    value_range: ValueRange | None
    source: MapSource


@dataclass(frozen=True)
class MapFacts:
    """How the rasters of a map are to be read, so that they look as they did when the map was built."""

    bands: tuple[int, ...]
    value_range: ValueRange | None
    source: MapSource
    dates: tuple[MapDate, ...] = ()
    datum: tuple[float, float] | None = None  # easting and northing of the frame `map`; None: not noted

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> MapFacts:
        """The facts in the manifest of a map; StoreError for what cannot be understood."""
        try:
            return cls(
                *_reading(values),
                dates=tuple(MapDate(date["file"], *_reading(date)) for date in values.get("dates", ())),
                datum=_point(values["datum"]) if "datum" in values else None,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"the facts of the manifest are not understood: {error!r}") from None


def _reading(values: Mapping[str, Any]) -> tuple[tuple[int, ...], ValueRange | None, MapSource]:
    source, ranges = values["source"], values["value_range"]
    return (
        tuple(values["bands"]),
        tuple((float(low), float(high)) for low, high in ranges) if ranges else None,
        MapSource(source["name"], source["sha256"], tuple(source["bands"])),
    )


def _point(values: Sequence[float]) -> tuple[float, float]:
    easting, northing = values
    return float(easting), float(northing)
