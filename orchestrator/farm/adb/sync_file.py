"""One file over `sync:` (AOSP's SYNC.TXT, version 1), in payloads as large as the stream takes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import IO, Protocol

from orchestrator.farm.adb.byte_stream import ByteStream
from orchestrator.farm.adb.faults import NotAdb, Refused

_HEAD = struct.Struct("<4sI")  # id, length
_CHUNK = 64 * 1024  # the longest DATA that adbd takes


class Readable(Protocol):
    def readinto(self, buffer: memoryview, /) -> int | None: ...


def send_file(
    stream: ByteStream, file: Readable, remote: str, mode: int, mtime: int, progress: Callable[[int], None]
) -> None:
    """Whole file to `remote`, parents made by the phone; `progress` gets the bytes sent so far.

    Raises Refused as soon as the phone says so."""
    said = b""
    for payload, total in _payloads(file, f"{remote},{mode}".encode(), mtime, stream.max_payload):
        said += stream.send(payload)
        progress(total)
        if said:
            break  # whatever it is, it ends the transfer
    kind, _ = _Answers(stream, said).head()
    if kind != b"OKAY":
        raise NotAdb(f"{kind!r} after a push")


def receive_file(stream: ByteStream, remote: str, file: IO[bytes]) -> None:
    """Whole file from `remote`. Raises Refused when the phone does not give it."""
    path = remote.encode()
    answer = _Answers(stream, stream.send(_HEAD.pack(b"RECV", len(path)) + path))
    while (head := answer.head())[0] == b"DATA":
        answer.copy_to(file, head[1])
    if head[0] != b"DONE":
        raise NotAdb(f"{head[0]!r} in a pull")


def _payloads(file: Readable, target: bytes, mtime: int, limit: int) -> Iterator[tuple[memoryview, int]]:
    """SEND, DATA…, DONE, as many as fit into each payload, and the file's bytes in them so far.

    The file is read straight into its place: a copy less. A payload is good until the next one is asked for."""
    chunk = min(_CHUNK, limit // 2)
    view = memoryview(bytearray(limit))
    head = _HEAD.pack(b"SEND", len(target)) + target
    view[: len(head)] = head
    size, total = len(head), 0
    while length := file.readinto(view[size + _HEAD.size : size + _HEAD.size + chunk]):
        _HEAD.pack_into(view, size, b"DATA", length)
        size, total = size + _HEAD.size + length, total + length
        if size + _HEAD.size + chunk + _HEAD.size > limit:
            yield view[:size], total
            size = 0
    _HEAD.pack_into(view, size, b"DONE", mtime)
    yield view[: size + _HEAD.size], total


class _Answers:
    """The phone's messages, however it cut them into payloads."""

    def __init__(self, stream: ByteStream, received: bytes) -> None:
        self._stream, self._rest = stream, memoryview(received)

    def head(self) -> tuple[bytes, int]:
        """Next message's id and length. Raises Refused for FAIL."""
        kind, length = _HEAD.unpack(b"".join(self._pieces(_HEAD.size)))
        if kind == b"FAIL":
            raise Refused(b"".join(self._pieces(min(length, _CHUNK))).decode("utf-8", "replace"))
        if kind == b"DATA" and length > _CHUNK:
            raise NotAdb(f"{kind!r} of {length} bytes")
        return kind, length

    def copy_to(self, file: IO[bytes], length: int) -> None:
        for piece in self._pieces(length):
            file.write(piece)

    def _pieces(self, size: int) -> Iterator[memoryview]:
        while size:
            if not self._rest:
                self._rest = memoryview(self._stream.receive())
            piece, self._rest = self._rest[:size], self._rest[size:]
            size -= len(piece)
            yield piece
