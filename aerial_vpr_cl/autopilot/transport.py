"""Bytes to and from an autopilot: a UDP port or a serial line, opened again whenever it is lost."""

from __future__ import annotations

import re
import socket
from typing import Any, Protocol

from aerial_vpr_cl.errors import SettingsError

LARGEST_DATAGRAM = 65_535
_FORMS = (
    "udp:HOST:PORT (listen there), udpout:HOST:PORT (call there) or serial:/dev/ttyACM0:BAUD; "
    "for example udp:0.0.0.0:14550 or serial:/dev/ttyAMA0:921600"
)


class Transport(Protocol):
    """Non-blocking but for a short wait; OSError when the line is lost."""

    def read(self, wait_s: float) -> bytes:
        """What has come, within the time; empty if nothing has."""

    def write(self, data: bytes) -> None:
        """Send; silently nothing while nobody is known on the other end."""

    def close(self) -> None:
        """Let the line go."""


class UdpTransport:
    """A socket that answers whoever spoke last (listening), or that calls one address."""

    def __init__(self, host: str, port: int, *, listen: bool) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._peer: tuple[str, int] | None = None if listen else (host, port)
        self._listens = listen
        try:
            self._socket.bind((host, port) if listen else ("", 0))
        except OSError:
            self._socket.close()
            raise

    @property
    def port(self) -> int:
        """The port that was bound."""
        return int(self._socket.getsockname()[1])

    def read(self, wait_s: float) -> bytes:
        self._socket.settimeout(max(wait_s, 0.001))
        try:
            data, sender = self._socket.recvfrom(LARGEST_DATAGRAM)
        except (TimeoutError, ConnectionRefusedError):  # refused: nobody listens there yet
            return b""
        if self._listens:
            self._peer = sender
        return data

    def write(self, data: bytes) -> None:
        if self._peer is not None:
            try:
                self._socket.sendto(data, self._peer)
            except ConnectionRefusedError:
                return

    def close(self) -> None:
        self._socket.close()


class SerialTransport:
    """A serial line, by pyserial."""

    def __init__(self, device: str, baud: int) -> None:
        try:
            import serial
        except ImportError:
            raise SettingsError("a serial line needs the Python package pyserial; install python3-serial") from None
        self._line: Any = serial.Serial(device, baud, timeout=0.0, write_timeout=0.2)

    def read(self, wait_s: float) -> bytes:
        self._line.timeout = wait_s
        data = self._line.read(1)
        return bytes(data + self._line.read(self._line.in_waiting)) if data else b""

    def write(self, data: bytes) -> None:
        self._line.write(data)

    def close(self) -> None:
        self._line.close()


def check_address(address: str) -> None:
    """SettingsError if an address cannot be one."""
    _parse(address)


def open_transport(address: str) -> Transport:
    """The line an address names; OSError if it cannot be had now, SettingsError if it never can."""
    kind, place, number = _parse(address)
    if kind == "serial":
        return SerialTransport(place, number)
    return UdpTransport(place, number, listen=kind != "udpout")


def _parse(address: str) -> tuple[str, str, int]:
    found = re.fullmatch(r"(udp|udpin|udpout|serial):(.+):(\d+)", address)
    if not found or (found[1] != "serial" and not 0 <= int(found[3]) <= 65_535):
        raise SettingsError(f"autopilot address '{address}' is not understood; give {_FORMS}")
    return found[1], found[2], int(found[3])
