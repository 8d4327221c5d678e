"""Transport through an adb server: USB, wireless debugging (TLS after pairing), any TCP phone.

The server holds one connection to each phone and opens streams on it, so operations of several transports run beside
each other. A command counts only if shell protocol 2's exit packet arrived.
"""

from __future__ import annotations

import struct
from contextlib import suppress

from orchestrator.farm.adb.byte_stream import ByteStream, RunningCommand
from orchestrator.farm.adb.deadline import Deadline
from orchestrator.farm.adb.faults import DeadlinePassed, KeyNotAllowed, LinkDown, NotAdb
from orchestrator.farm.adb.server_client import ServerClient
from orchestrator.farm.adb.server_phones import list_phones
from orchestrator.farm.adb.stream_transport import StreamTransport, checked_length

_SHELL_PACKET = struct.Struct("<BI")  # id, length
_STDIN, _STDOUT, _STDERR, _EXIT = 0, 1, 2, 3
_CONNECTED = "connected to ", "already connected to "
_READY = "device"
_WAITING = "offline", "connecting", "authorizing", "unauthorized"
_NAMING_S = 1.0
_TRIES = 3


class AdbServerTransport(StreamTransport):
    """To the phone that the server calls `serial`; `endpoint` (HOST:PORT) is what it is told to connect to first."""

    def __init__(self, address: str, server: ServerClient, serial: str, endpoint: str | None = None) -> None:
        super().__init__(address)
        self._server, self._serial, self._endpoint = server, serial, endpoint
        self._connected = False

    def connect(self, timeout_s: float) -> None:
        with self.operation("connecting", timeout_s):
            try:
                self._make_ready()
            except DeadlinePassed:
                self._name_the_wait()
                raise
        self._connected = True

    def banner(self) -> dict[str, str]:
        with self.operation("asking for the banner", _NAMING_S * 5):
            features = self._server.ask(f"host-serial:{self._serial}:features", self._deadline)
            phone = next(phone for phone in list_phones(self._server, self._deadline) if phone.serial == self._serial)
        return {
            "ro.product.name": phone.product,
            "ro.product.model": phone.model,
            "ro.product.device": phone.device,
            "features": features,
        }

    def close(self) -> None:
        """The server keeps its connection: others may use it."""
        self._connected = False

    def _open(self, service: bytes) -> ByteStream:
        if not self._connected:
            raise LinkDown("not connected")
        return self._server.open(self._serial, service.decode(), self._deadline)

    def _start(self, command: str) -> RunningCommand:
        return _PacketCommand(self._open(f"shell,v2,raw:{command}".encode()))

    def _make_ready(self) -> None:
        """A connection that is just being lost counts as one for a moment, and is gone in the next: once more, then."""
        for _ in range(_TRIES if self._endpoint else 1):
            if self._endpoint:
                self._attach(self._endpoint)
            if self._becomes_ready():
                return
        raise LinkDown("the phone is not listed by the adb server")

    def _attach(self, endpoint: str) -> None:
        """A phone that the server has lost is let go first, or it is found again only after seconds."""
        if next(self._server.states(self._deadline)).get(self._serial) == "offline":
            self._server.ask(f"host:disconnect:{endpoint}", self._deadline)
        answer = self._server.ask(f"host:connect:{endpoint}", self._deadline)
        # "failed to authenticate" is not the end: somebody may allow the key yet
        if not answer.startswith((*_CONNECTED, "failed to authenticate")):
            raise LinkDown(answer.strip())

    def _becomes_ready(self) -> bool:
        """False once the server does not list the phone."""
        for states in self._server.states(self._deadline):
            state = states.get(self._serial)
            if state in (_READY, None):
                return state == _READY
            if state not in _WAITING:
                raise LinkDown(f"the phone is {state}")
        return False

    def _name_the_wait(self) -> None:
        """Raises what the server's state says better than a passed deadline."""
        soon = Deadline()
        soon.allow(_NAMING_S)
        with suppress(LinkDown, DeadlinePassed):
            state = next(iter(self._server.states(soon))).get(self._serial, "")
            if state in ("unauthorized", "authorizing"):
                raise KeyNotAllowed(self._server.key)


class _PacketCommand:
    """RunningCommand (byte_stream.py) that ends with an exit packet."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream, self._packets = stream, _Packets(stream)
        self.close = stream.close

    def write(self, data: bytes) -> None:
        self._packets.heard(self._stream.send(_SHELL_PACKET.pack(_STDIN, len(data)) + data))

    def end(self) -> tuple[int, bytes]:
        output = bytearray()
        while (packet := self._packets.next())[0] != _EXIT:
            if packet[0] not in (_STDOUT, _STDERR):
                raise NotAdb(f"shell packet {packet[0]}")
            output += packet[1]
            checked_length(output)
        return packet[1][0], bytes(output)


class _Packets:
    """Shell protocol 2's packets, however the stream cuts them."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream, self._rest = stream, bytearray()

    def heard(self, data: bytes) -> None:
        self._rest += data

    def next(self) -> tuple[int, bytes]:
        kind, length = _SHELL_PACKET.unpack(self._take(_SHELL_PACKET.size))
        return kind, self._take(length)

    def _take(self, size: int) -> bytes:
        while len(self._rest) < size:
            self._rest += self._stream.receive()
        taken = bytes(self._rest[:size])
        del self._rest[:size]
        return taken
