"""A recorder that is flown through the flight of mission_support."""

import threading

from mission_support import GRID, jpeg, place, stamp

from aerial_vpr_cl.mission.gnss import Fix, GnssGates
from aerial_vpr_cl.mission.recorder import MissionRecorder
from aerial_vpr_cl.mission.recorder_settings import RecorderSettings

LIMIT_S = 30.0
ALL = RecorderSettings(mode="service", rate_hz=0.0)
EAST = (0.0, 0.0, 0.0, 1.0)
"""The attitude of a level drone that flies this way, as ROS has it."""


def fix_at(seconds, **changes):
    latitude, longitude = place(seconds)
    return Fix(stamp(seconds), latitude, longitude, 500.0, 0, 2.0)._replace(**changes)


def record(folder, settings=ALL, *, seconds=20, image=jpeg, fix=fix_at, gates=None, hz=1, is_caught=False):
    """Fly a recorder through the flight of mission_support: a frame every 1/hz s, a fix every half second."""
    recorder = MissionRecorder(folder, GRID, settings, gates or GnssGates())
    recorder.start().result(LIMIT_S)
    for step in range(seconds * 2 * hz):
        time = step / (2 * hz)
        if step % hz == 0 and (found := fix(time)) is not None:
            recorder.offer_fix(found, is_caught=is_caught)
        if step % 2 == 0:
            recorder.offer_image(stamp(time), image(step // 2))
            pace(recorder)
    path = recorder.stop().result(LIMIT_S)
    recorder.close()
    return path, recorder


def pace(recorder):
    """Offer no faster than the writer writes, where dropping is not what is tested."""
    while recorder._waiting and recorder._inbox:
        threading.Event().wait(0.0005)
