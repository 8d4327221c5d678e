"""The socket under adb-shell: sends everything, without Nagle's delay, and no wait outlasts the operation's deadline.

adb-shell's own TCP class ignores how much send() took (pushes over a real network are cut), waits for acknowledgements
(45 ms a command), and spins when the phone hangs up.
"""

from __future__ import annotations

import socket
import time

from adb_shell.transport.base_transport import BaseTransport

_HANDSHAKE_BYTES = 1 << 14


class LinkDown(Exception):
    """The phone hung up, or never answered; str() says how."""


class DeadlinePassed(Exception):
    """The operation's time is up."""


class TcpLink(BaseTransport):  # type: ignore[misc]  # adb-shell has no types
    """Timeouts that adb-shell passes are ignored: `allow(seconds)` counts, for all waits of an operation together."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._socket: socket.socket | None = None
        self._deadline = 0.0
        self.handshake = bytearray()  # the first bytes that arrive: adb-shell forgets the banner

    def allow(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds

    def connect(self, _transport_timeout_s: float | None) -> None:
        self.handshake.clear()
        try:
            self._socket = socket.create_connection((self._host, self._port), timeout=self._remaining())
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except TimeoutError as error:
            raise DeadlinePassed from error
        except (OSError, UnicodeError) as error:  # UnicodeError: a host name that no name can be
            raise LinkDown(str(error)) from error

    def bulk_read(self, numbytes: int, _transport_timeout_s: float | None) -> bytes:
        try:
            data = self._timed().recv(numbytes)
        except TimeoutError as error:
            raise DeadlinePassed from error
        except OSError as error:
            raise LinkDown(str(error)) from error
        if not data:
            raise LinkDown("the phone closed the connection")
        if len(self.handshake) < _HANDSHAKE_BYTES:
            self.handshake += data
        return data

    def bulk_write(self, data: bytes, _transport_timeout_s: float | None) -> int:
        view = memoryview(data)
        try:
            while view:
                view = view[self._timed().send(view) :]
        except TimeoutError as error:
            raise DeadlinePassed from error
        except OSError as error:
            raise LinkDown(str(error)) from error
        return len(data)

    def close(self) -> None:
        if self._socket:
            self._socket.close()
            self._socket = None

    def _timed(self) -> socket.socket:
        if self._socket is None:
            raise LinkDown("not connected")
        self._socket.settimeout(self._remaining())
        return self._socket

    def _remaining(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise DeadlinePassed
        return left
