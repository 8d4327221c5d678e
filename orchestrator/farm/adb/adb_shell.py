"""Transport over adb-shell: TCP phones and virtual phones, no adb binary needed.

Exit codes come from an end line with a nonce, because adb-shell speaks no shell protocol 2: a command whose end line
did not arrive did not end, whatever else arrived. `exec:` is used rather than `shell:`: it never touches the bytes.
"""

from __future__ import annotations

import re
import secrets
import struct
from pathlib import Path

from adb_shell.constants import MESSAGE_FORMAT, MESSAGE_SIZE

from orchestrator.farm.adb.byte_stream import ByteStream, RunningCommand
from orchestrator.farm.adb.faults import DeadlinePassed, KeyNotAllowed, NotAdb
from orchestrator.farm.adb.keys import load_signer
from orchestrator.farm.adb.mended_device import MendedDevice
from orchestrator.farm.adb.stream_transport import StreamTransport, checked_length
from orchestrator.farm.adb.tcp_link import TcpLink


class AdbShellTransport(StreamTransport):
    """To HOST:PORT."""

    def __init__(self, address: str, host: str, port: int, key_path: Path) -> None:
        super().__init__(address)
        self._key_path = key_path
        self._link = TcpLink(host, port, self._deadline)
        self._device = MendedDevice(self._link)
        self._key_offered = False

    def connect(self, timeout_s: float) -> None:
        signer = load_signer(self._key_path)
        self._key_offered = False
        with self.operation("connecting", timeout_s):
            try:
                self._device.greet(signer, self._on_key_offered)
            except DeadlinePassed as error:
                if self._key_offered:
                    raise KeyNotAllowed(f"{self._key_path}.pub") from error
                if said := bytes(self._link.handshake):  # less than a packet's header
                    raise NotAdb(f"it said {said!r}") from error
                raise

    def banner(self) -> dict[str, str]:
        identity = _connect_payload(bytes(self._link.handshake)).decode("utf-8", "replace").partition("::")[2]
        pairs = (part.partition("=") for part in identity.rstrip("\0").split(";") if "=" in part)
        return {key: value for key, _, value in pairs}

    def close(self) -> None:
        self._device.close()

    def _open(self, service: bytes) -> ByteStream:
        return self._device.open_stream(service)

    def _start(self, command: str) -> RunningCommand:
        nonce = secrets.token_hex(8)
        return _MarkedCommand(self._open(f"exec:{command}; echo {nonce}:$?".encode()), nonce)

    def _on_key_offered(self, _: object) -> None:
        self._key_offered = True


class _MarkedCommand:
    """RunningCommand (byte_stream.py) whose end line carries `nonce`."""

    def __init__(self, stream: ByteStream, nonce: str) -> None:
        self._stream, self._end = stream, re.compile(rb"%s:(\d+)\r?\n" % nonce.encode())
        self._output, self._searched = bytearray(), 0
        self.close = stream.close

    def write(self, data: bytes) -> None:
        self._output += self._stream.send(data)

    def end(self) -> tuple[int, bytes]:
        while not (found := self._end.search(self._output, max(0, self._searched - 64))):
            self._searched = len(self._output)
            checked_length(self._output)
            self._output += self._stream.receive()
        return int(found[1]), bytes(self._output[: found.start()])


def _connect_payload(received: bytes) -> bytes:
    """Payload of the CNXN among the first packets of a connection; empty when there is none."""
    while len(received) >= MESSAGE_SIZE:
        command, _, _, length, _, _ = struct.unpack(MESSAGE_FORMAT, received[:MESSAGE_SIZE])
        payload, received = received[MESSAGE_SIZE : MESSAGE_SIZE + length], received[MESSAGE_SIZE + length :]
        if command == int.from_bytes(b"CNXN", "little"):
            return payload
    return b""
