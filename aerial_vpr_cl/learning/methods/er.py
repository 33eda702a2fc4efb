"""DIL-ER: experience replay from a reservoir, without the satellite exemplars (paper, section 5.3)."""

from __future__ import annotations

from aerial_vpr_cl.learning.method_options import MethodOptions
from aerial_vpr_cl.learning.methods.replay import Replay


class ExperienceReplay(Replay):
    """The current mission and a uniform sample of everything flown before."""

    name = "er"
    uses_exemplars = False

    def __init__(self, options: MethodOptions) -> None:
        super().__init__(options, "reservoir")
