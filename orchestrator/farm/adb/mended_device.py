"""adb-shell's device with its faults mended (0.4.4).

Mended: a refused OPEN was waited for until a timeout; the FAIL that a phone sends in the middle of a push was lost, so
that a full disk looked like a dead cable; the end of a stream that arrived while another was read was lost, and waited
for; checksums were computed in Python although phones of the last ten years need
none, and pulls copied quadratically (20 to 30 MB/s).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Queue
from typing import Any

from adb_shell import constants, exceptions
from adb_shell.adb_device import AdbDevice, _AdbIOManager
from adb_shell.adb_message import AdbMessage, checksum, unpack
from adb_shell.exceptions import InvalidChecksumError, InvalidCommandError
from adb_shell.hidden_helpers import _AdbPacketStore, _AdbTransactionInfo

from orchestrator.farm.adb.faults import DeadlinePassed, LinkDown, NotAdb, Refused, TlsWanted
from orchestrator.farm.adb.tcp_link import TcpLink

_NO_TIMEOUT_S = 1e9  # TcpLink's deadline counts
_VERSION_WITHOUT_CHECKSUMS = 0x01000001
_LONGEST_PAYLOAD = 1 << 24
_START_TLS = int.from_bytes(b"STLS", "little")
_NOT_ADB = InvalidCommandError, InvalidChecksumError, exceptions.InvalidResponseError, struct.error


@contextmanager
def _in_our_terms() -> Iterator[None]:
    try:
        yield
    except exceptions.AdbTimeoutError as error:
        raise DeadlinePassed from error
    except exceptions.AdbConnectionError as error:
        raise LinkDown(str(error)) from error
    except _NOT_ADB as error:
        raise NotAdb(str(error)) from error


class MendedDevice(AdbDevice):  # type: ignore[misc]  # adb-shell has no types
    """Private parts of adb-shell are used: its version is pinned below 0.5."""

    def __init__(self, link: TcpLink) -> None:
        super().__init__(link)
        self._io_manager = _PacketIo(link)

    def greet(self, signer: Any, on_key_offered: Callable[[object], None]) -> None:
        """Connect and authenticate; raises LinkDown, DeadlinePassed, NotAdb."""
        with _in_our_terms():
            self.connect([signer], _NO_TIMEOUT_S, _NO_TIMEOUT_S, _NO_TIMEOUT_S, auth_callback=on_key_offered)

    def open_stream(self, service: bytes) -> DeviceStream:
        """Raises Refused, LinkDown, DeadlinePassed, NotAdb."""
        if not self.available:
            raise LinkDown("not connected")
        with _in_our_terms():
            with self._local_id_lock:
                self._local_id += 1
                info = _AdbTransactionInfo(self._local_id, None, _NO_TIMEOUT_S, _NO_TIMEOUT_S)
            self._io_manager.send(AdbMessage(constants.OPEN, info.local_id, 0, service + b"\0"), info)
            answer, info.remote_id, _, _ = self._io_manager.read([constants.OKAY, constants.CLSE], info)
        if answer == constants.CLSE:
            raise Refused(f"the phone refuses the service {service.partition(b':')[0].decode()}")
        return DeviceStream(self, info)

    def send_packet(self, command: bytes, info: Any, payload: bytes | memoryview = b"") -> None:
        with _in_our_terms():
            self._io_manager.send(AdbMessage(command, info.local_id, info.remote_id, payload), info)

    def await_packet(self, commands: list[bytes], info: Any) -> tuple[bytes, bytes]:
        """Next of these for the stream, and its payload, which is acknowledged."""
        with _in_our_terms():
            command, data = self._read_until(commands, info)
            return command, bytes(data)

    def end_stream(self, info: Any) -> None:
        with _in_our_terms():
            self._clse(info)


class DeviceStream:
    """ByteStream (byte_stream.py) with one unacknowledged payload each way."""

    def __init__(self, device: MendedDevice, info: Any) -> None:
        self._device, self._info = device, info
        self._open = True

    @property
    def max_payload(self) -> int:
        return int(self._device._maxdata)

    def send(self, data: bytes | memoryview) -> bytes:
        self._device.send_packet(constants.WRTE, self._info, data)
        said = b""
        while True:
            answer, heard = self._device.await_packet([constants.OKAY, constants.WRTE, constants.CLSE], self._info)
            if answer == constants.OKAY:
                return said
            if answer == constants.CLSE:
                raise self._ended()
            said += heard

    def receive(self) -> bytes:
        while True:
            answer, heard = self._device.await_packet([constants.WRTE, constants.CLSE], self._info)
            if answer == constants.CLSE:
                raise self._ended()
            if heard:
                return heard

    def close(self) -> None:
        if self._open and self._device.available:
            self._open = False
            self._device.end_stream(self._info)

    def _ended(self) -> LinkDown:
        self._open = False
        return LinkDown("the phone closed the stream in the middle")


class _PacketStore(_AdbPacketStore):  # type: ignore[misc]
    """What arrived for other streams than the one that is read, a CLSE also when it is the first that does."""

    def put(self, arg0: int, arg1: int, cmd: bytes, data: bytes) -> None:
        self._dict.setdefault(arg1, {}).setdefault(arg0, Queue())
        super().put(arg0, arg1, cmd, data)


class _PacketIo(_AdbIOManager):  # type: ignore[misc]
    """Packets with checksums only for phones that want them: protocol version 0x01000000, Android 8 and older."""

    _checksums = False

    def __init__(self, link: TcpLink) -> None:
        super().__init__(link)
        self._packet_store = _PacketStore()

    def _send(self, msg: Any, _adb_info: Any) -> None:
        version = _VERSION_WITHOUT_CHECKSUMS if msg.command == constants.ID_TO_WIRE[constants.CNXN] else msg.arg0
        # before the phone's version is known, a checksum does no harm: those packets are short
        total = checksum(bytes(msg.data)) if self._checksums or len(msg.data) < constants.MAX_LEGACY_ADB_DATA else 0
        words = msg.command, version, msg.arg1, len(msg.data), total, msg.magic
        self._transport.bulk_write(struct.pack(constants.MESSAGE_FORMAT, *words), None)
        if msg.data:
            self._transport.bulk_write(msg.data, None)

    def _read_packet_from_device(self, adb_info: Any) -> tuple[bytes, int, int, bytes]:
        word, arg0, arg1, length, total = unpack(self._read_bytes_from_device(constants.MESSAGE_SIZE, adb_info))
        if word == _START_TLS:
            raise TlsWanted
        command = constants.WIRE_TO_ID.get(word)
        if not command or length > _LONGEST_PAYLOAD:
            raise InvalidCommandError(f"command {word:#x}, {length} bytes")
        if command == constants.CNXN:
            self._checksums = arg0 < _VERSION_WITHOUT_CHECKSUMS
        data = self._read_bytes_from_device(length, adb_info) if length else b""
        if self._checksums and checksum(data) != total:
            raise InvalidChecksumError(f"{command!r}: {total} for {length} bytes")
        return command, arg0, arg1, data
