"""One file over `sync:` (AOSP's SYNC.TXT, version 1), in payloads as large as the phone takes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO, Any, Protocol

from orchestrator.farm.adb.mended_device import MendedDevice

_HEAD = struct.Struct("<4sI")  # id, length
_CHUNK = 64 * 1024  # the longest DATA that adbd takes


class FileRefused(Exception):
    """The phone said FAIL; str() is its reason."""


class SyncGarbage(Exception):
    """The phone's answer is not the sync protocol."""


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def send_file(device: MendedDevice, file: Readable, remote: str, mode: int, mtime: int) -> None:
    """Whole file to `remote`, parents made by the phone. Raises FileRefused as soon as the phone says so."""
    stream = device.open_stream(b"sync:")
    try:
        answers = b""
        for payload in _payloads(file, f"{remote},{mode}".encode(), mtime, device.max_payload):
            answers += device.write_stream(stream, payload)
            if answers:
                break  # whatever it is, it ends the transfer
        answer = _Answers(device, stream, answers)
        kind, _ = answer.head()
        if kind != b"OKAY":
            raise SyncGarbage(f"{kind!r} after a push")
    finally:
        device.close_stream(stream)


def receive_file(device: MendedDevice, remote: str, file: IO[bytes]) -> None:
    """Whole file from `remote`. Raises FileRefused when the phone does not give it."""
    stream = device.open_stream(b"sync:")
    try:
        path = remote.encode()
        answer = _Answers(device, stream, device.write_stream(stream, _HEAD.pack(b"RECV", len(path)) + path))
        while (head := answer.head())[0] == b"DATA":
            answer.copy_to(file, head[1])
        if head[0] != b"DONE":
            raise SyncGarbage(f"{head[0]!r} in a pull")
    finally:
        device.close_stream(stream)


def _payloads(file: Readable, target: bytes, mtime: int, limit: int) -> Iterator[bytes]:
    """SEND, DATA…, DONE, as many as fit into each payload."""
    chunk = min(_CHUNK, limit // 2)
    parts = [_HEAD.pack(b"SEND", len(target)), target]
    size = _HEAD.size + len(target)
    while data := file.read(chunk):
        if size + _HEAD.size + len(data) > limit - _HEAD.size:
            yield b"".join(parts)
            parts, size = [], 0
        parts += _HEAD.pack(b"DATA", len(data)), data
        size += _HEAD.size + len(data)
    yield b"".join([*parts, _HEAD.pack(b"DONE", mtime)])


class _Answers:
    """The phone's messages, however it cut them into payloads."""

    def __init__(self, device: MendedDevice, stream: Any, received: bytes) -> None:
        self._device, self._stream, self._rest = device, stream, memoryview(received)

    def head(self) -> tuple[bytes, int]:
        """Next message's id and length. Raises FileRefused for FAIL."""
        kind, length = _HEAD.unpack(b"".join(self._pieces(_HEAD.size)))
        if kind == b"FAIL":
            raise FileRefused(b"".join(self._pieces(min(length, _CHUNK))).decode("utf-8", "replace"))
        if length > _CHUNK:
            raise SyncGarbage(f"{kind!r} of {length} bytes")
        return kind, length

    def copy_to(self, file: IO[bytes], length: int) -> None:
        for piece in self._pieces(length):
            file.write(piece)

    def _pieces(self, size: int) -> Iterator[memoryview]:
        while size:
            if not self._rest:
                self._rest = memoryview(self._device.read_stream(self._stream))
            piece, self._rest = self._rest[:size], self._rest[size:]
            size -= len(piece)
            yield piece
