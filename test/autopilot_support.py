"""An autopilot on the other end of a UDP cable, as far as the cable can tell."""

import hashlib
import socket
import time

from pymavlink.dialects.v20 import ardupilotmega as mavlink

ARMED = mavlink.MAV_MODE_FLAG_SAFETY_ARMED


def free_port():
    """A UDP port that nobody uses now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Vehicle:
    """An autopilot as far as the cable can tell: pymavlink on a UDP socket."""

    def __init__(self, port, system=1, passphrase=""):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(0.05)
        self.to = ("127.0.0.1", port)
        self.mav = mavlink.MAVLink(None, srcSystem=system, srcComponent=mavlink.MAV_COMP_ID_AUTOPILOT1)
        self.mav.robust_parsing = True
        self.boot_s = time.monotonic() - 100.0
        if passphrase:
            self.mav.signing.secret_key = hashlib.sha256(passphrase.encode()).digest()
            self.mav.signing.sign_outgoing = True
            self.mav.signing.timestamp = int((time.time() - 1_420_070_400) * 100_000)
            self.mav.signing.allow_unsigned_callback = lambda mav, message_id: False

    @property
    def boot_ms(self):
        return round((time.monotonic() - self.boot_s) * 1000)

    def pack(self, message):
        data = message.pack(self.mav)
        self.mav.seq = (self.mav.seq + 1) % 256
        return data

    def send(self, message):
        self.socket.sendto(self.pack(message), self.to)

    def beat(self, armed=False):
        kind, autopilot = mavlink.MAV_TYPE_FIXED_WING, mavlink.MAV_AUTOPILOT_ARDUPILOTMEGA
        self.send(mavlink.MAVLink_heartbeat_message(kind, autopilot, ARMED if armed else 0, 0, 4, 3))

    def attitude(self, boot_ms=None):
        stamp = self.boot_ms if boot_ms is None else boot_ms
        return mavlink.MAVLink_attitude_quaternion_message(stamp, 1, 0, 0, 0, 0, 0, 0)

    def heard(self):
        """What has come in; TIMESYNC is answered as autopilots do."""
        messages = []
        while True:
            try:
                data = self.socket.recv(65535)
            except TimeoutError:
                return messages
            for message in self.mav.parse_buffer(data) or []:
                messages.append(message)
                if message.get_type() == "TIMESYNC" and message.tc1 == 0:
                    self.send(mavlink.MAVLink_timesync_message(self.boot_ms * 1_000_000, message.ts1))

    def close(self):
        self.socket.close()
