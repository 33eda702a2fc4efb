"""The flight of mission_support as other recorders write it, and as all must read it."""

import numpy as np
from mission_support import ORIGIN, jpeg, picture, place, stamp
from rosbags.rosbag2 import CompressionFormat, Writer

from aerial_vpr_cl.mission import messages

FRAMES = 20


def foreign(path, storage, raw=False, compression=None, unstamped=False):
    """The same flight as another recorder would write it, by rosbags' own writer."""
    writer = Writer(path, version=9, storage_plugin=storage)
    if compression:
        writer.set_compression(compression, CompressionFormat.ZSTD)
    with writer:
        store = messages.type_store()
        kind = messages.IMAGE if raw else messages.COMPRESSED_IMAGE
        camera = writer.add_connection("/cam0/image_raw", kind, typestore=store)
        gnss = writer.add_connection("/mavros/global_position/raw/fix", messages.NAV_SAT_FIX, typestore=store)
        for half_second in range(2 * FRAMES):
            time = half_second / 2
            header = 0 if unstamped else stamp(time)
            writer.write(gnss, stamp(time), messages.nav_sat_fix(header, *place(time), 500.0))
            if half_second % 2 == 0:
                index = half_second // 2
                image = messages.raw_image(header, picture(index)) if raw else None
                writer.write(camera, stamp(time), image or messages.compressed_image(header, jpeg(index)))
    return path


def assert_whole_flight(mission):
    np.testing.assert_array_equal(mission.stamps_ns, [stamp(second) for second in range(len(mission))])
    np.testing.assert_allclose(mission.positions - ORIGIN, [[20.0 * s, 0] for s in range(len(mission))], atol=1e-3)
