"""What learning a mission did: numbers that are kept with its generation, and the words a pilot is told."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class Recalls:
    """Share of frames placed near the truth; NaN where there is nothing to look at."""

    mission: float
    replay: float
    exemplars: float


@dataclass(frozen=True)
class MissionReport:
    """One mission: learnt, or why not."""

    mission: str
    generation: int  # the one that serves now
    committed: bool
    reason: str = ""  # why nothing was committed
    frames: int = 0  # frames of the mission that have a position worth learning from
    used: int = 0  # of these, after near-identical ones were left out
    kept: int = 0  # observations of this mission now in the replay buffer
    refused: dict[str, int] = field(default_factory=dict)  # frames left out, by reason
    labels: dict[str, int] = field(default_factory=dict)  # frames with a position, by where it comes from
    before: Recalls | None = None  # None: it was not learnt now
    after: Recalls | None = None
    steps: int = 0
    seconds: float = 0.0
    seconds_of: dict[str, float] = field(default_factory=dict)  # its parts, in their order
    keep_raw: bool = False  # whether the raw mission is still there

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what could not be measured is None."""
        values = asdict(self)
        for name in ("before", "after"):
            values[name] = {key: None if math.isnan(value) else value for key, value in (values[name] or {}).items()}
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> MissionReport:
        """The report that `to_dict` wrote."""
        known = {entry.name: values[entry.name] for entry in fields(cls) if entry.name in values}
        for name in ("before", "after"):
            recalls = {key: math.nan if share is None else share for key, share in (known.get(name) or {}).items()}
            known[name] = Recalls(**recalls) if recalls else None
        return cls(**known)

    def summary(self) -> str:
        """One line for the operator."""
        if not self.committed:
            return f"{self.mission}: not learnt: {self.reason}; mission kept"
        if self.before is None or self.after is None:
            return f"{self.mission}: was learnt before and is not learnt again; delete the mission if it is not needed"
        flown = self.frames + sum(self.refused.values())
        raw = "raw mission kept" if self.keep_raw else f"{flown - self.kept} deleted"
        changes = [
            f"{what} {old:.0%} -> {new:.0%}"
            for what, old, new in (
                ("on this flight", self.before.mission, self.after.mission),
                ("on earlier ones", self.before.replay, self.after.replay),
                ("on the map", self.before.exemplars, self.after.exemplars),
            )
            if not math.isnan(old) and not math.isnan(new)
        ]
        tracked = self.labels.get("track", 0)
        return (
            f"{self.mission}: learnt as generation {self.generation}: {flown} frames flown"
            f"{f' ({tracked} placed by their track, not by GNSS)' if tracked else ''}, {self.used} used, "
            f"{self.kept} kept, {raw}; recall {', '.join(changes)}"
        )

    def costs(self) -> str:
        """Where the time went, for whoever waits for it; empty where nothing was learnt."""
        parts = ", ".join(f"{part} {seconds:.1f}" for part, seconds in self.seconds_of.items() if seconds >= 0.05)
        return f"{self.mission}: {self.seconds:.1f} s: {parts}" if parts else ""
