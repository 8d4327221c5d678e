"""One ADB stream: bytes both ways, one unacknowledged WRTE each way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

_UNREAD_LIMIT = 2  # payloads held before we stop acknowledging: the next one travels while this one is worked on


class StreamClosed(Exception):
    """The host closed the stream while we still wanted to write."""


class Stream:
    """`send_write(payload)` and `send_okay()` put packets of this stream on the connection; `cut()` ends that."""

    def __init__(
        self,
        max_payload: int,
        send_write: Callable[[bytes], Awaitable[None]],
        send_okay: Callable[[], None],
        cut: Callable[[], None],
    ) -> None:
        self._max_payload, self._send_write, self._send_okay, self.cut = max_payload, send_write, send_okay, cut
        self._unread: deque[bytes] = deque()
        self._owed_okays = 0
        self._arrived = asyncio.Event()
        self._acknowledged = asyncio.Event()
        self._writing = asyncio.Lock()
        self._closed = False

    async def read(self) -> bytes:
        """Next payload, b"" once the host has closed the stream."""
        while not self._unread:
            if self._closed:
                return b""
            self._arrived.clear()
            await self._arrived.wait()
        payload = self._unread.popleft()
        if self._owed_okays:
            self._owed_okays -= 1
            self._send_okay()
        return payload

    def take_unread(self) -> bytes:
        """What had arrived before the host closed the stream."""
        rest = b"".join(self._unread)
        self._unread.clear()
        return rest

    async def write(self, data: bytes) -> None:
        """Send all of it, in pieces that the host takes; returns when the last one is acknowledged."""
        async with self._writing:
            for start in range(0, len(data), self._max_payload):
                if self._closed:
                    raise StreamClosed
                self._acknowledged.clear()
                await self._send_write(data[start : start + self._max_payload])
                await self._acknowledged.wait()

    def on_write(self, payload: bytes) -> None:
        if payload:
            self._unread.append(payload)
            self._arrived.set()
        if len(self._unread) < _UNREAD_LIMIT:
            self._send_okay()
        else:
            self._owed_okays += 1

    def on_okay(self) -> None:
        self._acknowledged.set()

    def on_close(self) -> None:
        self._closed = True
        self._arrived.set()
        self._acknowledged.set()


Service = Callable[[Stream], Coroutine[Any, Any, None]]
"""Serves one stream to its end."""


class ByteReader:
    """A stream's bytes without regard to how the host cut them."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._rest = memoryview(b"")

    async def exactly(self, size: int) -> bytes:
        """Raises EOFError when the stream ends first."""
        if len(self._rest) >= size:
            head, self._rest = self._rest[:size], self._rest[size:]
            return bytes(head)
        return b"".join([bytes(piece) async for piece in self.pieces(size)])

    async def pieces(self, size: int) -> AsyncIterator[memoryview]:
        """`size` bytes as they lie in the payloads, uncopied."""
        while size:
            if not self._rest:
                self._rest = memoryview(await self._stream.read())
                if not self._rest:
                    raise EOFError
            piece, self._rest = self._rest[:size], self._rest[size:]
            size -= len(piece)
            yield piece
