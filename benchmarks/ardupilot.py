"""ArduPlane's simulator as a process, flown over MAVLink by a script: what a ground station and its pilot would do.

The bridge never does any of this; it has its own cable to the same simulator.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

os.environ.setdefault("MAVLINK20", "1")  # read by pymavlink when it is imported

from pymavlink import mavutil
from pymavlink.dialects.v20 import ardupilotmega as mavlink

DISABLE_GPS, SOURCE_SET = 65, 90
"""Auxiliary functions: the receiver off (2) and on (0); which set of sources the filter uses (0, 1 or 2)."""
FORCE_ARM = 2989
PARAMETERS = {
    "FS_LONG_ACTN": 0,  # nobody holds a transmitter
    "FS_SHORT_ACTN": 3,
    "THR_FAILSAFE": 0,
    "AHRS_OPTIONS": 3,  # the filter alone, never the simpler one beside it
    "EK3_SRC2_POSXY": 6,  # external navigation; all else but GNSS as in the first set
    "EK3_SRC2_VELXY": 0,
    "EK3_SRC2_VELZ": 0,
    "EK3_SRC2_POSZ": 1,
    "EK3_SRC2_YAW": 1,
    "VISO_TYPE": 1,
}
RATES_HZ = {
    mavlink.MAVLINK_MSG_ID_ATTITUDE_QUATERNION: 40.0,  # its time is the clock; more is refused
    mavlink.MAVLINK_MSG_ID_SIM_STATE: 10.0,
    mavlink.MAVLINK_MSG_ID_GLOBAL_POSITION_INT: 10.0,
    mavlink.MAVLINK_MSG_ID_LOCAL_POSITION_NED: 4.0,
    mavlink.MAVLINK_MSG_ID_GPS_RAW_INT: 2.0,
    mavlink.MAVLINK_MSG_ID_EXTENDED_SYS_STATE: 1.0,
    mavlink.MAVLINK_MSG_ID_GPS_GLOBAL_ORIGIN: 0.2,
}
Waypoint = tuple[float, float]
"""Latitude and longitude."""


def free_ports(count: int) -> list[int]:
    """UDP ports that nobody uses now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


class Simulator:
    """One vehicle; `step` takes what it sends. Its second and third cable call the ports that are given."""

    def __init__(self, program: Path, folder: Path, home: Sequence[float], ports: Sequence[int]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        own = folder / "closed_loop.parm"
        own.write_text("".join(f"{name} {value}\n" for name, value in PARAMETERS.items()))
        (port,) = free_ports(1)
        numbers = enumerate((port, *ports))
        cables = [word for k, number in numbers for word in (f"--serial{k}", f"udpclient:127.0.0.1:{number}")]
        place = ",".join(f"{value:.7f}" for value in home)
        command = [str(program), "--wipe", "--model", "plane", "--home", place, "--defaults", str(own), *cables]
        self._log = (folder / "simulator.log").open("wb")
        self._process = subprocess.Popen(command, cwd=folder, stdout=self._log, stderr=subprocess.STDOUT)
        self._line = mavutil.mavlink_connection(f"udpin:127.0.0.1:{port}", source_system=255)
        self.listeners: list[Callable[[Any, int], None]] = []
        self.boot_ms = 0
        self.texts: list[tuple[int, str]] = []

    def __enter__(self) -> Simulator:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._line.close()
        self._log.close()

    def step(self, wait_s: float = 0.02) -> Any:
        """The next message, after the listeners have had it with the vehicle's time; None if none came."""
        message = self._line.recv_match(blocking=True, timeout=wait_s)
        if message is None:
            if self._process.poll() is not None:
                raise RuntimeError(f"the simulator has ended; see {self._log.name}")
            return None
        self.boot_ms = max(self.boot_ms, getattr(message, "time_boot_ms", 0))
        if message.get_type() == "STATUSTEXT":
            self.texts.append((self.boot_ms, message.text))
        for listener in self.listeners:
            listener(message, self.boot_ms)
        return message

    def until(self, condition: Callable[[Any], Any], what: str, limit_s: float = 600.0) -> Any:
        """Messages are taken until one meets the condition, for so long by the computer's clock."""
        end_s = time.monotonic() + limit_s
        while time.monotonic() < end_s:
            message = self.step()
            if message is not None and condition(message):
                return message
        raise TimeoutError(f"waited {limit_s:.0f} s in vain for {what}; the vehicle said {self.texts[-5:]}")

    def wait(self, seconds: float) -> None:
        """Until so much time has passed for the vehicle."""
        end_ms = self.boot_ms + 1000.0 * seconds
        self.until(lambda _: self.boot_ms >= end_ms, f"{seconds:.0f} s of flight", limit_s=100.0 * seconds + 60.0)

    def command(self, number: int, *values: float) -> None:
        """A command, until it is acknowledged."""
        padded = [*values, *[0.0] * (7 - len(values))]
        for _ in range(20):
            self._line.mav.command_long_send(1, 1, number, 0, *padded)
            try:
                found = self.until(_acknowledges(number), "an acknowledgement", limit_s=3.0)
            except TimeoutError:
                continue
            if found.result == mavlink.MAV_RESULT_ACCEPTED:
                return
            self.wait(1.0)
        raise RuntimeError(f"command {number} is refused; the vehicle said {self.texts[-5:]}")

    def set(self, name: str, value: float) -> None:
        """A parameter, until it is confirmed."""
        for _ in range(20):
            self._line.mav.param_set_send(1, 1, name.encode(), value, mavlink.MAV_PARAM_TYPE_REAL32)
            try:
                self.until(lambda message: getattr(message, "param_id", "") == name, name, limit_s=3.0)
                return
            except TimeoutError:
                continue
        raise RuntimeError(f"the parameter {name} is not taken")

    def auxiliary(self, function: int, position: int) -> None:
        """A switch of the pilot's: 0 low, 1 middle, 2 high."""
        self.command(mavlink.MAV_CMD_DO_AUX_FUNCTION, function, position)

    def take_off(self, round_trip: Sequence[Waypoint], height_m: float, hurry: float) -> None:
        """Up to the height and round the waypoints for ever; until then time runs `hurry` times as fast as it can."""
        self.until(lambda message: message.get_type() == "HEARTBEAT", "a heartbeat")
        for message_id, rate_hz in RATES_HZ.items():
            self.command(mavlink.MAV_CMD_SET_MESSAGE_INTERVAL, message_id, 1e6 / rate_hz)
        self.set("SIM_SPEEDUP", hurry)
        self.until(lambda message: message.get_type() == "GLOBAL_POSITION_INT" and message.lat, "a position")
        self.wait(25.0)  # the filter settles
        self._upload(round_trip, height_m)
        self.command(mavlink.MAV_CMD_DO_SET_MODE, mavlink.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED, 10)  # AUTO
        self.command(mavlink.MAV_CMD_COMPONENT_ARM_DISARM, 1, FORCE_ARM)
        self.until(lambda message: getattr(message, "relative_alt", 0) > 970.0 * height_m, "the height")

    def _upload(self, round_trip: Sequence[Waypoint], height_m: float) -> None:
        commands = [mavlink.MAV_CMD_NAV_WAYPOINT, mavlink.MAV_CMD_NAV_TAKEOFF]  # the first is home's place
        places = [round_trip[0], round_trip[0], *round_trip, (0.0, 0.0)]
        commands += [mavlink.MAV_CMD_NAV_WAYPOINT] * len(round_trip) + [mavlink.MAV_CMD_DO_JUMP]
        first = {mavlink.MAV_CMD_NAV_TAKEOFF: 15.0, mavlink.MAV_CMD_DO_JUMP: 2.0}  # pitch; the item to go back to
        second = {mavlink.MAV_CMD_DO_JUMP: -1.0}  # for ever
        self._line.mav.mission_count_send(1, 1, len(commands))
        while True:
            asked = self.until(_is("MISSION_REQUEST", "MISSION_REQUEST_INT", "MISSION_ACK"), "the mission")
            if asked.get_type() == "MISSION_ACK":
                return
            command, (latitude, longitude) = commands[asked.seq], places[asked.seq]
            parameters = first.get(command, 0.0), second.get(command, 0.0), 0.0, 0.0
            frame, where = mavlink.MAV_FRAME_GLOBAL_RELATIVE_ALT, (round(latitude * 1e7), round(longitude * 1e7))
            self._line.mav.mission_item_int_send(1, 1, asked.seq, frame, command, 0, 1, *parameters, *where, height_m)


class ThinLog:
    """A .tlog of what the bridge reads, thinned to a few messages of each kind a second of the vehicle's."""

    def __init__(self, path: Path, rates_hz: Mapping[str, float]) -> None:
        self._file = path.open("wb")
        self._rates_hz = rates_hz
        self._next_ms: dict[str, float] = {}

    def take(self, message: Any, boot_ms: int) -> None:
        """A message and the vehicle's time; the log begins at 1970, as if the vehicle had been started then."""
        kind = message.get_type()
        if kind not in self._rates_hz or boot_ms < self._next_ms.get(kind, 0.0):
            return
        self._next_ms[kind] = boot_ms + 1000.0 / self._rates_hz[kind]
        self._file.write(struct.pack(">Q", 1000 * boot_ms) + message.get_msgbuf())

    def close(self) -> None:
        """Finish the file."""
        self._file.close()


def _is(*kinds: str) -> Callable[[Any], bool]:
    return lambda message: message.get_type() in kinds


def _acknowledges(number: int) -> Callable[[Any], bool]:
    return lambda message: message.get_type() == "COMMAND_ACK" and message.command == number
