"""The cable to an autopilot over real UDP: another MAVLink program on the other end, and what it must not do to us."""

import re
import socket
import time

import pytest
from autopilot_support import Vehicle
from pymavlink.dialects.v20 import ardupilotmega as mavlink

from aerial_vpr_cl.autopilot.answers import message_interval, status_text
from aerial_vpr_cl.autopilot.link import MAY_SEND, Link, NotAllowedError
from aerial_vpr_cl.autopilot.transport import check_address
from aerial_vpr_cl.errors import SettingsError

PASSPHRASE = "correct horse"


@pytest.fixture
def link():
    link = Link("udp:127.0.0.1:0")
    list(link.poll(0.01))
    yield link
    link.close()


@pytest.fixture
def vehicle(link):
    vehicle = Vehicle(link.transport.port)
    connect(link, vehicle)
    yield vehicle
    vehicle.close()


def received(link, count=1, limit_s=10.0):
    """Messages of the autopilot until there are enough, or no more come."""
    messages, end_s = [], time.monotonic() + limit_s
    while len(messages) < count and time.monotonic() < end_s:
        messages += [message for message, _ in link.poll(0.05) if message.get_type() != "HEARTBEAT"]
    return messages


def drain(link, seconds=0.4):
    return received(link, count=10_000, limit_s=seconds)


def connect(link, vehicle):
    vehicle.beat()
    end_s = time.monotonic() + 10.0
    while not (link.is_connected and link.clock.is_synchronised) and time.monotonic() < end_s:
        list(link.poll(0.05))
        vehicle.heard()
    assert link.is_connected and link.clock.is_synchronised


def test_an_autopilot_is_found_by_its_heartbeat_and_its_clock_tied_to_ours(link, vehicle):
    vehicle.send(vehicle.attitude())
    ((message, arrived_ns),) = list(link.poll(1.0))
    assert message.get_type() == "ATTITUDE_QUATERNION"
    assert abs(link.clock.ours(message.time_boot_ms * 1_000_000) - arrived_ns) < 500_000_000
    assert link.autopilot == mavlink.MAV_AUTOPILOT_ARDUPILOTMEGA


def test_armed_is_known(link, vehicle):
    vehicle.beat(armed=True)
    drain(link)
    assert link.armed


def test_a_ground_station_is_not_taken_for_the_autopilot(link):
    vehicle = Vehicle(link.transport.port, system=255)
    vehicle.send(mavlink.MAVLink_heartbeat_message(mavlink.MAV_TYPE_GCS, mavlink.MAV_AUTOPILOT_INVALID, 0, 0, 4, 3))
    vehicle.send(vehicle.attitude())
    assert drain(link) == []
    assert not link.is_connected
    vehicle.close()


def test_another_vehicle_on_the_wire_is_not_believed(link, vehicle):
    other = Vehicle(link.transport.port, system=9)
    other.beat()
    other.send(other.attitude())
    assert drain(link) == []
    assert link.vehicle_system == 1
    other.close()


def test_garbage_between_messages_costs_nothing_but_itself(link, vehicle):
    for k in range(50):
        vehicle.socket.sendto(bytes((k * j) % 256 for j in range(200)), vehicle.to)
    vehicle.socket.sendto(b"\xfd\xff" * 100, vehicle.to)
    for _ in range(5):  # a broken head may swallow what directly follows
        vehicle.send(vehicle.attitude())
    assert [message.get_type() for message in received(link)][:1] == ["ATTITUDE_QUATERNION"]
    assert link.counts["bad data"] > 0


def test_a_message_with_a_flipped_bit_is_dropped(link, vehicle):
    data = bytearray(vehicle.pack(vehicle.attitude()))
    data[15] ^= 0x10
    vehicle.socket.sendto(bytes(data), vehicle.to)
    assert drain(link) == []
    vehicle.send(vehicle.attitude())
    assert len(received(link)) == 1


def test_lost_messages_do_not_matter(link, vehicle):
    for k in range(20):
        data = vehicle.pack(vehicle.attitude())
        if k % 3 == 0:
            vehicle.socket.sendto(data, vehicle.to)
    assert len(drain(link)) == 7


def test_packets_recorded_earlier_and_sent_again_are_dropped(link, vehicle):
    vehicle.send(vehicle.attitude(boot_ms=vehicle.boot_ms - 60_000))
    assert drain(link) == []
    assert link.counts["old"] == 1


def test_an_autopilot_that_was_killed_is_found_again_at_another_port(link, vehicle):
    vehicle.close()
    again = Vehicle(link.transport.port)
    again.boot_s = time.monotonic() - 1.0  # it has just booted
    end_s, found = time.monotonic() + 15.0, []
    while not found and time.monotonic() < end_s:
        again.beat()
        again.send(again.attitude())
        found = drain(link, 0.3)
        again.heard()
    assert found
    assert link.clock.resets >= 1
    again.close()


def test_a_port_that_is_taken_is_tried_again(link):
    taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    taken.bind(("127.0.0.1", 0))
    other = Link(f"udp:127.0.0.1:{taken.getsockname()[1]}")
    list(other.poll(0.01))
    assert other.transport is None
    taken.close()
    end_s = time.monotonic() + 10.0
    while other.transport is None and time.monotonic() < end_s:
        list(other.poll(0.05))
    assert other.transport is not None
    other.close()


# Signing


def signed_pair(vehicle_passphrase):
    link = Link("udp:127.0.0.1:0", signing_passphrase=PASSPHRASE)
    list(link.poll(0.01))
    return link, Vehicle(link.transport.port, passphrase=vehicle_passphrase)


def test_signed_messages_are_accepted_in_both_directions():
    link, vehicle = signed_pair(PASSPHRASE)
    connect(link, vehicle)
    link.send(status_text("hello", is_warning=False))
    assert "STATUSTEXT" in [message.get_type() for message in vehicle.heard()]
    link.close()
    vehicle.close()


@pytest.mark.parametrize("passphrase", ["", "wrong horse"])
def test_unsigned_and_wrongly_signed_messages_are_refused(passphrase):
    link, vehicle = signed_pair(passphrase)
    for _ in range(5):
        vehicle.beat()
    drain(link)
    assert not link.is_connected
    assert link.counts["unsigned"] + link.counts["bad data"] > 0
    link.close()
    vehicle.close()


def test_a_signed_packet_counts_once():
    link, vehicle = signed_pair(PASSPHRASE)
    connect(link, vehicle)
    data = vehicle.pack(vehicle.attitude())
    for _ in range(3):
        vehicle.socket.sendto(data, vehicle.to)
    assert len(drain(link)) == 1
    link.close()
    vehicle.close()


# What may be sent


def test_only_the_messages_of_the_list_can_leave():
    link = Link("udpout:127.0.0.1:9")
    tried = 0
    for kind in mavlink.mavlink_map.values():
        message = kind.__new__(kind)
        message._type, message.command = kind.msgname, mavlink.MAV_CMD_COMPONENT_ARM_DISARM
        if kind.msgname in MAY_SEND and MAY_SEND[kind.msgname] is None:
            continue
        with pytest.raises(NotAllowedError):
            link.send(message)
        tried += 1
    assert tried > 250
    assert set(MAY_SEND) == {
        *("HEARTBEAT", "TIMESYNC", "STATUSTEXT", "GLOBAL_POSITION_SENSOR", "ODOMETRY", "SET_GPS_GLOBAL_ORIGIN"),
        *("COMMAND_INT", "COMMAND_LONG"),
    }
    link.close()


def test_the_two_commands_are_the_only_ones(link, vehicle):
    link.send(message_interval(1, mavlink.MAVLINK_MSG_ID_ATTITUDE_QUATERNION, 20.0))
    arm = mavlink.MAVLink_command_long_message(1, 1, mavlink.MAV_CMD_COMPONENT_ARM_DISARM, 0, 1, 0, 0, 0, 0, 0, 0)
    with pytest.raises(NotAllowedError):
        link.send(arm)
    commands = [message.command for message in vehicle.heard() if message.get_type() == "COMMAND_LONG"]
    assert commands == [mavlink.MAV_CMD_SET_MESSAGE_INTERVAL]


@pytest.mark.parametrize(
    "address", ["", "udp", "udp:host", "tcp:127.0.0.1:5760", "udp:127.0.0.1:99999", "serial:/dev/x"]
)
def test_an_address_that_is_none_is_refused_with_examples(address):
    with pytest.raises(SettingsError, match=re.escape("udp:0.0.0.0:14550")):
        check_address(address)
