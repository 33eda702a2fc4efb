"""The live page over HTTP: read only, a few addresses, no files; only for this computer unless told otherwise."""

from __future__ import annotations

import ipaddress
import json
import logging
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.page.live_flight import KINDS, LiveFlight

log = logging.getLogger(__name__)

MOST_REQUESTS = 16
"""Requests that are answered side by side; more are turned away, so that nobody can fill the memory with them."""
SLOW_S = 10.0
"""A browser that takes longer to say what it wants is not waited for."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class LiveServer:
    """Serves a page and the flight it asks for, from threads of its own, until it is closed."""

    def __init__(self, page: bytes, flight: LiveFlight, host: str = "127.0.0.1", port: int = 0) -> None:
        """Port 0: any that is free."""
        try:
            self._server = _Server(page, flight, host, port)
        except (OSError, OverflowError) as error:
            raise SettingsError(
                f"cannot listen on {host}, port {port}: {error}; give another --host or --port"
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """What to open in a browser."""
        host, port = self._server.server_address[:2]
        name = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{name}:{port}/"

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def is_own_name(host: str, given: str) -> bool:
    """Whether a request's Host is an address, localhost, or the name that was given to listen on.

    Any other name may have been made to point here by whoever owns it (DNS rebinding), whose page could then read ours.
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name in ("localhost", given.lower())
    return True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, page: bytes, flight: LiveFlight, host: str, port: int) -> None:
        self.page, self.flight, self.host = page, flight, host
        self._room = threading.BoundedSemaphore(MOST_REQUESTS)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread, while there is room."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The thread of one request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is no error of ours."""
        log.debug("a request of %s broke off", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = SLOW_S
    server_version = "aerial-vpr"
    sys_version = ""

    def do_GET(self) -> None:
        """The page, what is new, or a picture."""
        if not self._is_welcome():
            return
        try:
            address = urlsplit(self.path)
            numbers = parse_qs(address.query)
            flight = int(numbers.get("flight", ["-1"])[0])
            number = int(numbers.get("number", ["0"])[0])
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        if address.path == "/":
            self._send(self.server.page, "text/html; charset=utf-8")
        elif address.path == "/moments":
            found = self.server.flight.since(flight, number)
            self._send(json.dumps(found, allow_nan=False).encode(), "application/json")
        elif (kind := address.path[1:].removesuffix(".jpg")) in KINDS:
            picture = self.server.flight.picture(flight, number, kind)
            self._send(picture, "image/jpeg") if picture else self._refuse(HTTPStatus.NOT_FOUND)
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def _is_welcome(self) -> bool:
        welcome = is_own_name(self.headers.get("Host", ""), self.server.host)
        if not welcome:
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST)
        return welcome

    def _refuse(self, status: HTTPStatus) -> None:
        self._send(f"{status.value} {status.phrase}\n".encode(), "text/plain", status)

    def _send(self, data: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Not on the terminal: a page asks every second."""
        log.debug(format, *args)
