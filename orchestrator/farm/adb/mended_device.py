"""adb-shell's device with its faults mended (0.4.4).

Mended: a refused OPEN was waited for until a timeout; the FAIL that a phone sends in the middle of a push was lost, so
that a full disk looked like a dead cable; checksums were computed in Python although phones of the last ten years need
none, and pulls copied quadratically (20 to 30 MB/s).
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import Any

from adb_shell import constants
from adb_shell.adb_device import AdbDevice, _AdbIOManager
from adb_shell.adb_message import AdbMessage, checksum, unpack
from adb_shell.exceptions import InvalidChecksumError, InvalidCommandError
from adb_shell.hidden_helpers import _AdbTransactionInfo

from orchestrator.farm.adb.tcp_link import TcpLink

_NO_TIMEOUT_S = 1e9  # TcpLink's deadline counts
_VERSION_WITHOUT_CHECKSUMS = 0x01000001
_LONGEST_PAYLOAD = 1 << 24


class ServiceRefused(Exception):
    """The phone closed the stream, which it should have opened or served."""


class MendedDevice(AdbDevice):  # type: ignore[misc]  # adb-shell has no types
    """Private parts of adb-shell are used: its version is pinned below 0.5."""

    def __init__(self, link: TcpLink) -> None:
        super().__init__(link)
        self._io_manager = _PacketIo(link)

    @property
    def max_payload(self) -> int:
        return int(self._maxdata)

    def run(self, service: bytes) -> Generator[bytes]:
        """Output of a service as it comes; close the generator to close the stream early."""
        info = self.open_stream(service)
        try:
            yield from self._read_until_close(info)
        except GeneratorExit:
            self._clse(info)

    def open_stream(self, destination: bytes) -> Any:
        """Handle of a new stream; raises ServiceRefused."""
        with self._local_id_lock:
            self._local_id += 1
            info = _AdbTransactionInfo(self._local_id, None, _NO_TIMEOUT_S, _NO_TIMEOUT_S)
        self._io_manager.send(AdbMessage(constants.OPEN, info.local_id, 0, destination + b"\0"), info)
        answer, info.remote_id, _, _ = self._io_manager.read([constants.OKAY, constants.CLSE], info)
        if answer == constants.CLSE:
            raise ServiceRefused(f"the phone refuses the service {destination.partition(b':')[0].decode()}")
        return info

    def write_stream(self, info: Any, payload: bytes | bytearray) -> bytes:
        """Send one payload and wait until the phone has it; returns what the phone said meanwhile."""
        self._io_manager.send(AdbMessage(constants.WRTE, info.local_id, info.remote_id, payload), info)
        said = b""
        while True:
            answer, data = self._read_until([constants.OKAY, constants.WRTE, constants.CLSE], info)
            if answer == constants.OKAY:
                return said
            if answer == constants.CLSE:
                raise ServiceRefused("the phone closed the stream")
            said += data

    def read_stream(self, info: Any) -> bytes:
        """Next payload of the phone; raises ServiceRefused when it closes the stream."""
        answer, data = self._read_until([constants.WRTE, constants.CLSE], info)
        if answer == constants.CLSE:
            raise ServiceRefused("the phone closed the stream")
        return bytes(data)

    def close_stream(self, info: Any) -> None:
        self._clse(info)


class _PacketIo(_AdbIOManager):  # type: ignore[misc]
    """Packets with checksums only for phones that want them: protocol version 0x01000000, Android 8 and older."""

    _checksums = False

    def _send(self, msg: Any, _adb_info: Any) -> None:
        version = _VERSION_WITHOUT_CHECKSUMS if msg.command == constants.ID_TO_WIRE[constants.CNXN] else msg.arg0
        # before the phone's version is known, a checksum does no harm: those packets are short
        total = checksum(msg.data) if self._checksums or len(msg.data) < constants.MAX_LEGACY_ADB_DATA else 0
        words = msg.command, version, msg.arg1, len(msg.data), total, msg.magic
        self._transport.bulk_write(struct.pack(constants.MESSAGE_FORMAT, *words), None)
        if msg.data:
            self._transport.bulk_write(msg.data, None)

    def _read_packet_from_device(self, adb_info: Any) -> tuple[bytes, int, int, bytes]:
        word, arg0, arg1, length, total = unpack(self._read_bytes_from_device(constants.MESSAGE_SIZE, adb_info))
        command = constants.WIRE_TO_ID.get(word)
        if not command or length > _LONGEST_PAYLOAD:
            raise InvalidCommandError(f"command {word:#x}, {length} bytes")
        if command == constants.CNXN:
            self._checksums = arg0 < _VERSION_WITHOUT_CHECKSUMS
        data = self._read_bytes_from_device(length, adb_info) if length else b""
        if self._checksums and checksum(data) != total:
            raise InvalidChecksumError(f"{command!r}: {total} for {length} bytes")
        return command, arg0, arg1, data
