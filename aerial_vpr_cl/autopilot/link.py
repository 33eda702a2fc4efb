"""MAVLink 2 over a transport: heartbeats, clock, signing, and a short list of what may be sent at all."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

os.environ.setdefault("MAVLINK20", "1")  # read by pymavlink when it is imported

from pymavlink.dialects.v20 import ardupilotmega as mavlink

from aerial_vpr_cl.autopilot.answers import message_interval
from aerial_vpr_cl.autopilot.clock import AutopilotClock
from aerial_vpr_cl.autopilot.transport import Transport, open_transport

log = logging.getLogger(__name__)

HEARTBEAT_S = 1.0
SILENT_S = 5.0
"""Without a heartbeat for so long the autopilot counts as gone."""
REOPEN_S = 1.0
ASK_EVERY_S = 10.0

MAY_SEND: dict[str, int | None] = {
    "HEARTBEAT": None,
    "TIMESYNC": None,
    "STATUSTEXT": None,
    "GLOBAL_POSITION_SENSOR": None,
    "ODOMETRY": None,
    "SET_GPS_GLOBAL_ORIGIN": None,
    "COMMAND_INT": mavlink.MAV_CMD_EXTERNAL_POSITION_ESTIMATE,
    "COMMAND_LONG": mavlink.MAV_CMD_SET_MESSAGE_INTERVAL,
}
"""Every message this package can send to an autopilot, and the one command of those that carry commands.

None of them arms, changes the mode, the mission, a parameter or a control."""


class NotAllowedError(Exception):
    """Something was to be sent that this package never sends: a mistake of the programmer."""


class Link:
    """One cable. `poll` is called by one thread for ever; `send` by any."""

    def __init__(
        self,
        address: str,
        *,
        system_id: int = 1,
        component_id: int = mavlink.MAV_COMP_ID_VISUAL_INERTIAL_ODOMETRY,
        signing_passphrase: str = "",
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.address = address
        self.clock = AutopilotClock()
        self.counts: Counter[str] = Counter()  # bad bytes, unsigned, foreign, old, lost lines
        self.autopilot: int | None = None  # MAV_AUTOPILOT of the vehicle, once it was heard
        self.vehicle_system = 0
        self.armed = False
        self._now_ns = now_ns
        self._sending = threading.Lock()
        self._transport: Transport | None = None
        self._opened_s = -REOPEN_S
        self._heard_s = self._beaten_s = -SILENT_S
        self._asked_s = -ASK_EVERY_S
        self._mav = mavlink.MAVLink(None, srcSystem=system_id, srcComponent=component_id)
        self._mav.robust_parsing = True
        if signing_passphrase:
            self._sign(signing_passphrase)

    @property
    def is_connected(self) -> bool:
        """Whether an autopilot's heartbeat was heard within the last seconds."""
        return self.autopilot is not None and time.monotonic() - self._heard_s < SILENT_S

    @property
    def transport(self) -> Transport | None:
        """The open line, or None while it is lost."""
        return self._transport

    def poll(self, wait_s: float = 0.05) -> Iterator[tuple[Any, int]]:
        """What the autopilot has sent, each with the time of its arrival; keeps the line, heartbeat and clock alive."""
        if not self._ready(wait_s):
            return
        assert self._transport is not None
        try:
            self._beat()
            data = self._transport.read(wait_s)
        except OSError as error:
            self._lose(error)
            return
        arrived_ns = self._now_ns()
        for message in self._parse(data):
            if self._accepts(message, arrived_ns):
                yield message, arrived_ns

    def send(self, message: Any) -> None:
        """Send a message of the list; a lost line is no error, it is opened again by `poll`."""
        kind = message.get_type()
        if kind not in MAY_SEND or MAY_SEND[kind] not in (None, getattr(message, "command", None)):
            raise NotAllowedError(f"{kind} {getattr(message, 'command', '')} is never sent to an autopilot")
        with self._sending:
            transport = self._transport
            if transport is None:
                return
            try:
                transport.write(message.pack(self._mav))
                self._mav.seq = (self._mav.seq + 1) % 256
            except OSError as error:
                self._lose(error)

    def ask_for(self, rates_hz: Mapping[int, float]) -> None:
        """Ask the autopilot for messages at these rates; again every few seconds, as it may have been restarted."""
        if not self.is_connected or time.monotonic() - self._asked_s < ASK_EVERY_S:
            return
        self._asked_s = time.monotonic()
        for message_id, rate_hz in rates_hz.items():
            self.send(message_interval(self.vehicle_system, message_id, rate_hz))

    def close(self) -> None:
        """Let the line go."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    # Keeping the line

    def _ready(self, wait_s: float) -> bool:
        if self._transport is not None:
            return True
        if time.monotonic() - self._opened_s < REOPEN_S:
            time.sleep(wait_s)
            return False
        self._opened_s = time.monotonic()
        try:
            self._transport = open_transport(self.address)
        except OSError as error:
            self.counts["cannot be opened"] += 1
            log.debug("%s: %s", self.address, error)
            return False
        return True

    def _lose(self, error: OSError) -> None:
        log.warning("%s: lost (%s); it is opened again", self.address, error)
        self.counts["lost"] += 1
        self.close()

    def _beat(self) -> None:
        if time.monotonic() - self._beaten_s < HEARTBEAT_S:
            return
        self._beaten_s = time.monotonic()
        signing = self._mav.signing
        signing.timestamp = max(signing.timestamp, _signing_time())
        onboard, none = mavlink.MAV_TYPE_ONBOARD_CONTROLLER, mavlink.MAV_AUTOPILOT_INVALID
        self.send(mavlink.MAVLink_heartbeat_message(onboard, none, 0, 0, mavlink.MAV_STATE_ACTIVE, 3))
        self.send(mavlink.MAVLink_timesync_message(0, self._now_ns()))

    # What comes in

    def _parse(self, data: bytes) -> list[Any]:
        if not data:
            return []
        try:
            return self._mav.parse_buffer(data) or []
        except Exception as error:  # the library lets whatever it trips over in garbage through
            self.counts["bad data"] += 1
            log.debug("%s: %r", self.address, error)
            self._mav.buf, self._mav.buf_index = bytearray(), 0
            return []

    def _accepts(self, message: Any, arrived_ns: int) -> bool:
        """Whether a message is the autopilot's own; heartbeats and clock are taken here."""
        kind = message.get_type()
        if kind == "BAD_DATA":
            self.counts["bad data"] += 1
            return False
        if kind == "HEARTBEAT":
            return self._hear_heartbeat(message)
        if self.autopilot is None or message.get_srcSystem() != self.vehicle_system:
            self.counts["foreign"] += 1
            return False
        if kind == "TIMESYNC":
            if message.tc1 > 0:
                self.clock.add_reply(message.ts1, message.tc1, arrived_ns)
            else:
                self.send(mavlink.MAVLink_timesync_message(self._now_ns(), message.ts1))
            return False
        boot_ms = getattr(message, "time_boot_ms", 0)
        if boot_ms and not self.clock.add_arrival(boot_ms * 1_000_000, arrived_ns):
            self.counts["old"] += 1
            return False
        return True

    def _hear_heartbeat(self, message: Any) -> bool:
        if message.autopilot == mavlink.MAV_AUTOPILOT_INVALID or message.type == mavlink.MAV_TYPE_GCS:
            return False
        if self.is_connected and message.get_srcSystem() != self.vehicle_system:
            self.counts["foreign"] += 1
            return False
        self.autopilot, self.vehicle_system = message.autopilot, message.get_srcSystem()
        self.armed = bool(message.base_mode & mavlink.MAV_MODE_FLAG_SAFETY_ARMED)
        self._heard_s = time.monotonic()
        return True

    def _sign(self, passphrase: str) -> None:
        """Sign what goes out and refuse what comes in unsigned, as ground stations derive the key from a passphrase."""

        def refuse_unsigned(mav: Any, message_id: int) -> bool:
            self.counts["unsigned"] += 1
            return False

        signing = self._mav.signing
        signing.secret_key = hashlib.sha256(passphrase.encode()).digest()
        signing.link_id = 1
        signing.timestamp = _signing_time()
        signing.sign_outgoing = True
        signing.allow_unsigned_callback = refuse_unsigned


def _signing_time() -> int:
    """Tens of microseconds since 2015, as the protocol has it: so an old packet cannot be sent again."""
    return int((time.time() - 1_420_070_400) * 100_000)
