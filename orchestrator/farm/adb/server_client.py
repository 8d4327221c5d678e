"""One adb server, spoken to with adbutils.

Kept from adbutils: its wire format. Not used: its start of a server whenever a connection fails (that would be a
server of the user's), its sync (4 KiB pieces, no deadlines) and its shell (silent when the phone dies)."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from adbutils import AdbConnection, AdbError
from adbutils.errors import AdbTimeout

from orchestrator.farm.adb.deadline import Deadline
from orchestrator.farm.adb.faults import DeadlinePassed, KeyNotAllowed, LinkDown, Refused

HOST = "127.0.0.1"
_PAYLOAD = 1 << 20
_LONGEST_REQUEST = 0xFFFF  # its length is four hex digits
_NOT_ALLOWED = "unauthorized", "authorizing"


class _Connection(AdbConnection):  # type: ignore[misc]  # adbutils is not followed
    def __init__(self, port: int, deadline: Deadline) -> None:
        self._port, self._deadline = port, deadline
        super().__init__(HOST, port)

    def _safe_connect(self) -> socket.socket:
        """Without adbutils' second try, which starts a server."""
        return socket.create_connection((HOST, self._port), self._deadline.left())


@dataclass(frozen=True)
class ServerClient:
    """Raises LinkDown, DeadlinePassed, Refused, KeyNotAllowed; never starts a server."""

    port: int
    key: str  # file of the public key that this server offers to phones

    def ask(self, request: str, deadline: Deadline) -> str:
        """The server's answer to a `host:` request. Of pairing it may say OKAY and then FAIL, with the reason."""
        with self._asked(request, deadline) as connection, _in_our_terms(self.key):
            length = connection.read_string(4)
            if length == "FAIL":
                raise Refused(connection.read_string_block())
            return str(connection.read_string(int(length, 16)))

    def states(self, deadline: Deadline) -> Iterator[dict[str, str]]:
        """State by serial, now and after every change."""
        with self._asked("host:track-devices", deadline) as connection:
            while True:
                with _in_our_terms(self.key):
                    connection.conn.settimeout(deadline.left())
                    lines = str(connection.read_string_block()).splitlines()
                yield dict(line.split("\t", 1) for line in lines if "\t" in line)

    def open(self, serial: str, service: str, deadline: Deadline) -> ServerStream:
        """A service of the phone that the server calls `serial`."""
        with self._asked(f"host:tport:serial:{serial}", deadline, keep=True) as connection, _in_our_terms(self.key):
            connection.read_exact(8)  # the transport's number
            _send_request(connection, service, deadline)
        connection.conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return ServerStream(connection.conn, deadline)

    @contextmanager
    def _asked(self, request: str, deadline: Deadline, keep: bool = False) -> Iterator[AdbConnection]:
        """A connection on which the server said OKAY to the request; closed at the end unless kept."""
        with _in_our_terms(self.key):
            connection = _Connection(self.port, deadline)
        try:
            with _in_our_terms(self.key):
                _send_request(connection, request, deadline)
            yield connection
        except BaseException:
            connection.conn.close()
            raise
        if not keep:
            connection.conn.close()


class ServerStream:
    """ByteStream (byte_stream.py) over a socket to the server."""

    max_payload = _PAYLOAD

    def __init__(self, connection: socket.socket, deadline: Deadline) -> None:
        self._socket, self._deadline = connection, deadline

    def send(self, data: bytes | memoryview) -> bytes:
        view = memoryview(data)
        with _in_our_terms(""):
            while view:
                self._socket.settimeout(self._deadline.left())
                view = view[self._socket.send(view) :]
            self._socket.settimeout(0)
            try:
                return self._socket.recv(_PAYLOAD)
            except BlockingIOError:
                return b""

    def receive(self) -> bytes:
        with _in_our_terms(""):
            self._socket.settimeout(self._deadline.left())
            data = self._socket.recv(_PAYLOAD)
        if not data:
            raise LinkDown("the phone closed the stream in the middle, or the adb server lost it")
        return data

    def close(self) -> None:
        self._socket.close()


def _send_request(connection: AdbConnection, request: str, deadline: Deadline) -> None:
    if len(request.encode()) > _LONGEST_REQUEST:
        raise Refused(f"{len(request.encode())} bytes are too long for an adb server's request")
    connection.conn.settimeout(deadline.left())
    connection.send_command(request)
    connection.conn.settimeout(deadline.left())
    connection.check_okay()


@contextmanager
def _in_our_terms(key: str) -> Iterator[None]:
    """Raises in place of adbutils' and the socket's errors."""
    try:
        yield
    except (AdbTimeout, TimeoutError) as error:
        raise DeadlinePassed from error
    except AdbError as error:  # the server's FAIL
        text = str(error).partition("\n")[0]
        if any(word in text for word in _NOT_ALLOWED):
            raise KeyNotAllowed(key) from error
        raise LinkDown(f"the adb server says: {text}") from error
    except (OSError, EOFError, ValueError) as error:
        raise LinkDown(f"no word from the adb server: {error}") from error
