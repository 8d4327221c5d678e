"""adb-shell's device with its faults mended (0.4.4): a refused OPEN is waited for until a timeout, and the FAIL that a
phone sends in the middle of a push is lost, so that a full disk looks like a dead cable."""

from __future__ import annotations

from collections.abc import Generator
from typing import IO, Any, Protocol

from adb_shell import constants
from adb_shell.adb_device import AdbDevice
from adb_shell.adb_message import AdbMessage
from adb_shell.hidden_helpers import _AdbTransactionInfo, _FileSyncTransactionInfo

_NO_TIMEOUT_S = 1e9  # TcpLink's deadline counts
_TIMEOUTS = (_NO_TIMEOUT_S, _NO_TIMEOUT_S, None)


class ServiceRefused(Exception):
    """The phone closed the stream, which it should have opened or served."""


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class MendedDevice(AdbDevice):  # type: ignore[misc]  # adb-shell has no types
    """Private parts of adb-shell are used: its version is pinned below 0.5."""

    def run(self, service: bytes) -> Generator[bytes]:
        """Output of a service as it comes; close the iterator to close the stream early."""
        info = self._open(service, *_TIMEOUTS)
        try:
            yield from self._read_until_close(info)
        except GeneratorExit:
            self._clse(info)

    def send_file(self, stream: Readable, remote: str, mode: int, mtime: int) -> None:
        info = self._open(b"sync:", *_TIMEOUTS)
        sync = _FileSyncTransactionInfo(constants.FILESYNC_PUSH_FORMAT, maxdata=self._maxdata)
        try:
            self._push(stream, remote, mode, mtime, None, info, sync)
        finally:
            self._clse(info)

    def receive_file(self, remote: str, stream: IO[bytes]) -> None:
        info = self._open(b"sync:", *_TIMEOUTS)
        sync = _FileSyncTransactionInfo(constants.FILESYNC_PULL_FORMAT, maxdata=self._maxdata)
        try:
            self._pull(remote, stream, None, info, sync)
        finally:
            self._clse(info)

    def _open(self, destination: bytes, *timeouts: float | None) -> Any:
        with self._local_id_lock:
            self._local_id += 1
            info = _AdbTransactionInfo(self._local_id, None, *timeouts)
        self._io_manager.send(AdbMessage(constants.OPEN, info.local_id, 0, destination + b"\0"), info)
        answer, info.remote_id, _, _ = self._io_manager.read([constants.OKAY, constants.CLSE], info)
        if answer == constants.CLSE:
            raise ServiceRefused(destination.partition(b":")[0].decode())
        return info

    def _filesync_flush(self, adb_info: Any, filesync_info: Any) -> None:
        payload = filesync_info.send_buffer[: filesync_info.send_idx]
        self._io_manager.send(AdbMessage(constants.WRTE, adb_info.local_id, adb_info.remote_id, payload), adb_info)
        while True:
            answer, data = self._read_until([constants.OKAY, constants.WRTE, constants.CLSE], adb_info)
            if answer == constants.OKAY:
                break
            if answer == constants.CLSE:
                raise ServiceRefused("sync")
            filesync_info.recv_buffer += data
        filesync_info.send_idx = 0
        if filesync_info.recv_buffer.startswith(b"FAIL"):
            self._filesync_read((), adb_info, filesync_info)  # raises with the phone's reason
