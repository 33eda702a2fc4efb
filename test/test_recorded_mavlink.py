"""A flight of ArduPlane's simulator as it came over the cable, played to us again over real UDP.

The log holds the ground, the take-off, a climb to 470 m, a stretch with GNSS and the first seconds without it. It was
made by benchmarks/closed_loop.py --tlog and thinned to what the bridge reads.
"""

import socket
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from autopilot_support import free_port
from nav_msgs.msg import Odometry
from pymavlink.dialects.v20 import ardupilotmega as mavlink
from ros_support import NodeProcess, Peer
from sensor_msgs.msg import Imu, NavSatFix, Range
from std_msgs.msg import Bool

from aerial_vpr_cl.autopilot.link import Link
from aerial_vpr_cl.autopilot.telemetry import (
    Attitude,
    GlobalPosition,
    GnssFix,
    Height,
    Landed,
    LocalPosition,
    Origin,
    Telemetry,
)
from aerial_vpr_cl.geo.projection import Projection
from aerial_vpr_cl.geo.rotation import from_quaternion

LOG = Path(__file__).parent / "mavlink" / "arduplane.tlog"
PROJECTION = Projection(32614)


def packets(path):
    """(time in nanoseconds, bytes) of a .tlog: eight bytes of microseconds before every packet."""
    data, place, found = path.read_bytes(), 0, []
    while place < len(data):
        (stamp_us,) = struct.unpack_from(">Q", data, place)
        length = data[place + 9] + 12  # MAVLink 2, not signed
        found.append((1000 * stamp_us, data[place + 8 : place + 8 + length]))
        place += 8 + length
    return found


@pytest.fixture(scope="module")
def told():
    """All that the bridge reads off the log, by kind; its clock is the log's."""
    now = [0]
    link = Link("udp:127.0.0.1:0", now_ns=lambda: now[0])
    list(link.poll(0.01))
    telemetry, values = Telemetry(link.clock), []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as cable:
        for stamp_ns, packet in packets(LOG):
            now[0] = stamp_ns
            cable.sendto(packet, ("127.0.0.1", link.transport.port))
            for message, arrived_ns in link.poll(5.0):
                values += telemetry.take(message, arrived_ns, link.armed)
    assert not link.counts, link.counts
    link.close()
    kinds = (Attitude, Height, LocalPosition, GlobalPosition, GnssFix, Landed, Origin)
    return {kind: [value for value in values if isinstance(value, kind)] for kind in kinds}


def test_it_stands_then_flies(told):
    landed = [value.landed for value in told[Landed]]
    assert landed[0] and not landed[-1]
    assert np.count_nonzero(np.diff(landed)) == 1  # nothing flickers


def test_it_climbs_to_its_height(told):
    heights = np.array([value.height_m for value in told[Height]])
    assert abs(heights[0]) < 5.0
    assert heights[-1] == pytest.approx(470.0, abs=30.0)


def test_gnss_comes_and_goes(told):
    good = [value.status >= 0 for value in told[GnssFix]]
    assert not good[0] and not good[-1]
    assert np.count_nonzero(np.diff(good)) == 2
    assert sum(good) > 100


def test_odometry_goes_where_the_filter_does_while_gnss_holds_it(told):
    end_ns = max(value.stamp_ns for value in told[GnssFix] if value.status >= 0)
    filtered = [value for value in told[GlobalPosition] if value.stamp_ns < end_ns]
    there = np.array([PROJECTION.to_utm(value.latitude, value.longitude) for value in filtered])
    stamps = np.array([value.stamp_ns for value in told[LocalPosition]])
    places = np.array([value.position[:2] for value in told[LocalPosition]])
    moved = np.stack([np.interp([value.stamp_ns for value in filtered], stamps, places[:, k]) for k in (0, 1)], axis=1)
    steps = np.diff(there, axis=0), np.diff(moved, axis=0)
    way_m = np.hypot(*steps[0].T).sum()
    assert way_m > 2000.0
    # Thinned to four a second the sum of velocities cuts corners; from step to step it stays with the filter.
    assert np.percentile(np.hypot(*(steps[0] - steps[1]).T), 95) < 3.0
    assert np.hypot(*(there[-1] - there[0] - moved[-1] + moved[0])) < 0.05 * way_m


def test_the_nose_points_where_it_flies_up_to_the_wind(told):
    moving = [value for value in told[LocalPosition] if np.hypot(*value.velocity[:2]) > 15.0]
    assert len(moving) > 100
    noses = np.array([from_quaternion(value.quaternion)[:2, 0] for value in moving])
    ways = np.array([value.velocity[:2] for value in moving])
    cosines = (noses * ways).sum(axis=1) / np.hypot(*noses.T) / np.hypot(*ways.T)
    assert np.degrees(np.arccos(cosines.clip(-1.0, 1.0))).max() < 40.0


def test_the_origin_is_where_it_took_off(told):
    home, origin = told[GlobalPosition][0], told[Origin][0]
    there, here = (PROJECTION.to_utm(value.latitude, value.longitude) for value in (home, origin))
    assert np.hypot(*(here - there)) < 50.0


def test_the_node_makes_topics_of_it(tmp_path):
    port = free_port()
    kinds = {"imu": Imu, "height": Range, "odometry": Odometry, "fix": NavSatFix, "landed": Bool}
    recorded = packets(LOG)
    recorded = [entry for entry in recorded if entry[0] > recorded[-1][0] - 40_000_000_000]
    with (
        NodeProcess("autopilot_bridge_node", log=tmp_path / "log", parameters={"address": f"udp:127.0.0.1:{port}"}),
        Peer() as peer,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as cable,
    ):
        heard = {topic: peer.listen(kind, topic) for topic, kind in kinds.items()}
        peer.wait_matched(180.0)
        begin_s, end_s = time.monotonic(), time.monotonic() + 35.0
        for stamp_ns, packet in recorded:
            peer.spin(max(begin_s + (stamp_ns - recorded[0][0]) / 1e9 - time.monotonic(), 0.0))
            cable.sendto(packet, ("127.0.0.1", port))
            if all(heard.values()) or time.monotonic() > end_s:
                break
        peer.wait_for(lambda: all(heard.values()), 5.0)
    assert heard["height"][-1].range == pytest.approx(470.0, abs=30.0)
    assert not heard["landed"][-1].data
    assert heard["fix"][-1].latitude == pytest.approx(47.02, abs=0.02)


def test_the_log_is_small_and_holds_only_what_the_bridge_reads():
    assert LOG.stat().st_size < 300_000
    mav = mavlink.MAVLink(None)
    kinds = {message.get_type() for _, packet in packets(LOG) for message in mav.parse_buffer(packet)}
    kinds -= {"HEARTBEAT"}
    assert kinds == {
        "ATTITUDE_QUATERNION",
        "LOCAL_POSITION_NED",
        "GLOBAL_POSITION_INT",
        "GPS_RAW_INT",
        "EXTENDED_SYS_STATE",
        "GPS_GLOBAL_ORIGIN",
    }
