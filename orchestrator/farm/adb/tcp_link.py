"""The socket under adb-shell: sends everything, without Nagle's delay, and no wait outlasts the operation's deadline.

adb-shell's own TCP class ignores how much send() took (pushes over a real network are cut), waits for acknowledgements
(45 ms a command), and spins when the phone hangs up.
"""

from __future__ import annotations

import socket

from adb_shell.transport.base_transport import BaseTransport

from orchestrator.farm.adb.deadline import Deadline
from orchestrator.farm.adb.faults import DeadlinePassed, LinkDown

_HANDSHAKE_BYTES = 1 << 14


class TcpLink(BaseTransport):  # type: ignore[misc]  # adb-shell has no types
    """Timeouts that adb-shell passes are ignored: the deadline counts."""

    def __init__(self, host: str, port: int, deadline: Deadline) -> None:
        self._host, self._port, self._deadline = host, port, deadline
        self._socket: socket.socket | None = None
        self.handshake = bytearray()  # the first bytes that arrive: adb-shell forgets the banner

    def connect(self, _transport_timeout_s: float | None) -> None:
        self.handshake.clear()
        try:
            self._socket = socket.create_connection((self._host, self._port), timeout=self._deadline.left())
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except TimeoutError as error:
            raise DeadlinePassed from error
        except OSError as error:
            raise _down(error) from error
        except UnicodeError as error:
            raise LinkDown("no host can have that name") from error

    def bulk_read(self, numbytes: int, _transport_timeout_s: float | None) -> bytes:
        try:
            data = self._timed().recv(numbytes)
        except TimeoutError as error:
            raise DeadlinePassed from error
        except OSError as error:
            raise _down(error) from error
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
            raise _down(error) from error
        return len(data)

    def close(self) -> None:
        if self._socket:
            self._socket.close()
            self._socket = None

    def _timed(self) -> socket.socket:
        if self._socket is None:
            raise LinkDown("not connected")
        self._socket.settimeout(self._deadline.left())
        return self._socket


def _down(error: OSError) -> LinkDown:
    return LinkDown(error.strerror or str(error))
