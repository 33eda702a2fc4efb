"""ROS 2 is imported only by the verbs that need it; where it is missing they say what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aerial_vpr_cl.errors import MissionError


@contextmanager
def ros_needed() -> Iterator[None]:
    """Around the imports of a verb: MissionError instead of ImportError."""
    try:
        yield
    except ImportError as error:
        remedy = "source the setup.bash of ROS 2 or install requirements/ros.txt"
        raise MissionError(f"ROS 2 is missing ({error}); {remedy}") from None
