"""Mission orders: the paper's missions (table 1), its four named and five random orders (appendix A), and others."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from aerial_vpr_cl.errors import SettingsError

Mission = TypeVar("Mission")


@dataclass(frozen=True)
class PaperMission:
    """One row of the paper's table 1."""

    name: str
    modality: str
    images: int
    district: str
    role: str


PAPER_MISSIONS = (
    PaperMission("JHT-01", "VIS", 63, "Chengyang", "CL"),
    PaperMission("JHT-02", "VIS", 348, "Chengyang", "CL"),
    PaperMission("JHT-04", "VIS", 257, "Chengyang", "CL"),
    PaperMission("JHT-05", "IR", 257, "Chengyang", "CL"),
    PaperMission("LSZ-01", "VIS", 275, "Jimo", "CL"),
    PaperMission("LSZ-02", "VIS", 234, "Jimo", "Held-out"),
    PaperMission("LSZ-03", "IR", 232, "Jimo", "Held-out"),
    PaperMission("LSZ-04", "VIS", 215, "Jimo", "Held-out"),
    PaperMission("LSZ-06", "VIS", 281, "Jimo", "CL"),
    PaperMission("LSZ-07", "VIS", 284, "Jimo", "CL"),
    PaperMission("LSZ-08", "IR", 214, "Jimo", "Held-out"),
    PaperMission("TD-01-seq", "VIS", 193, "Jimo", "Held-out"),
    PaperMission("TD-02-seq", "VIS", 237, "Jimo", "CL"),
    PaperMission("TD-03-seq", "VIS", 347, "Jimo", "Held-out"),
    PaperMission("TD-04-seq", "VIS", 328, "Jimo", "Held-out"),
    PaperMission("TD-05-seq", "VIS", 468, "Jimo", "Held-out"),
    PaperMission("TD-06-seq", "VIS", 167, "Jimo", "Held-out"),
    PaperMission("TD-07-seq", "VIS", 189, "Jimo", "CL"),
    PaperMission("TD-08-seq", "VIS", 194, "Jimo", "Held-out"),
    PaperMission("TD-12-seq", "IR", 156, "Jimo", "Held-out"),
    PaperMission("TD-13-seq", "IR", 500, "Jimo", "CL"),
)

PAPER_FORWARD = (
    "JHT-02",
    "LSZ-07",
    "LSZ-06",
    "TD-02-seq",
    "TD-07-seq",
    "JHT-04",
    "LSZ-01",
    "JHT-01",
    "JHT-05",
    "TD-13-seq",
)

NAMED_ORDERS = ("forward", "backward", "pressure", "robust")
PAPER_RANDOM_ORDERS = ("random-104729", "random-130363", "random-155921", "random-181081", "random-208367")

# Places in the Forward order, as the appendix lists the two arrangements of the paper's ten missions.
_PAPER_PRESSURE = (9, 0, 8, 1, 3, 2, 5, 4, 6, 7)
_PAPER_ROBUST = (0, 3, 9, 1, 5, 8, 2, 4, 6, 7)


def order(name: str, missions: Sequence[Mission]) -> tuple[Mission, ...]:
    """The missions, given in forward order, in the order called `name`.

    forward: as given. backward: reversed. pressure: the last mission, which should be the strangest, comes first.
    robust: one fixed shuffle. random-SEED: the shuffle of Python's `random.Random(SEED)`. Ten missions are arranged by
    place as the paper's ten were; its five random orders are exactly random-104729, ..., random-208367.
    """
    places = list(range(len(missions)))
    if name == "forward":
        pass
    elif name == "backward":
        places.reverse()
    elif name == "pressure":
        places = list(_PAPER_PRESSURE) if len(places) == 10 else places[-1:] + places[:-1]
    elif name == "robust":
        places = list(_PAPER_ROBUST) if len(places) == 10 else _shuffled(places, 0)
    elif match := re.fullmatch(r"random-(\d+)", name):
        places = _shuffled(places, int(match[1]))
    else:
        raise SettingsError(f"unknown mission order '{name}'; valid names: {', '.join(NAMED_ORDERS)}, random-SEED")
    return tuple(missions[place] for place in places)


def _shuffled(places: list[int], seed: int) -> list[int]:
    places = list(places)
    random.Random(seed).shuffle(places)
    return places
