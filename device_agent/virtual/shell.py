"""The services `shell:`, `shell,v2…:` and `exec:`. No PTY: the raw modes need none, and `pty` is served as raw.

Closing the stream hangs the shell up (SIGHUP to its process group), as adbd's PTY does; a job that ignores SIGHUP in
a session of its own goes on.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from device_agent.virtual.link import Link
from device_agent.virtual.processes import Child, Processes
from device_agent.virtual.storage import Storage
from device_agent.virtual.stream import ByteReader, Stream, StreamClosed

_STDIN, _STDOUT, _STDERR, _EXIT, _CLOSE_STDIN = range(5)
_READ_BYTES = 1 << 17


@dataclass(frozen=True)
class Shell:
    processes: Processes
    path: str  # of the shell itself
    env: Mapping[str, str]
    link: Link
    storage: Storage
    before: Callable[[], None]  # called before each command: what it may look at is brought up to now

    async def plain(self, command: str, stream: Stream) -> None:
        """Version 1 and exec: stdout and stderr merged, no exit code."""
        async with _Running(self, command, merged=True) as run:
            await self._maybe_lose(run, stream)
            feeding = asyncio.create_task(_feed_plain(stream, run.stdin))
            try:
                await _copy(run.stdout, stream)
            finally:
                feeding.cancel()

    async def v2(self, command: str, stream: Stream) -> None:
        """Version 2: both outputs apart, then the exit code (AOSP's shell_protocol.h)."""
        async with _Running(self, command, merged=False) as run:
            await self._maybe_lose(run, stream)
            feeding = asyncio.create_task(_feed_v2(stream, run.stdin))
            try:
                await asyncio.gather(_copy(run.stdout, stream, _STDOUT), _copy(run.stderr, stream, _STDERR))
                code = await run.child.exit_code
                await stream.write(_v2_packet(_EXIT, bytes([code & 0xFF])))
            finally:
                feeding.cancel()

    def start(self, command: str, stdin: int, stdout: int, stderr: int) -> Child:
        """Raises OSError."""
        self.before()
        argv = [self.path, *(["-c", command] if command else [])]
        with self.storage.imposed():
            return self.processes.spawn(self.storage.wrapped(argv), self.env, stdin, stdout, stderr)

    async def _maybe_lose(self, run: _Running, stream: Stream) -> None:
        """The command is done, and the connection dies before anybody hears of it."""
        if self.link.loses_end():
            await asyncio.gather(*(output.read() for output in {run.stdout, run.stderr}))
            await run.child.exit_code
            stream.cut()
            raise StreamClosed


class _Running:
    """A shell process with its ends of stdin, stdout and stderr; hung up and closed on exit."""

    child: Child
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    def __init__(self, shell: Shell, command: str, merged: bool) -> None:
        self._shell, self._command, self._merged = shell, command, merged
        self._transports: list[asyncio.BaseTransport] = []

    async def __aenter__(self) -> _Running:
        stdin_ours, stdin_theirs = socket.socketpair()
        out_ours, out_theirs = os.pipe()
        err_ours, err_theirs = (out_ours, out_theirs) if self._merged else os.pipe()
        try:
            self.child = self._shell.start(self._command, stdin_theirs.fileno(), out_theirs, err_theirs)
        except OSError:
            for fd in {out_ours, err_ours}:
                os.close(fd)
            stdin_ours.close()
            raise
        finally:
            stdin_theirs.close()
            for fd in {out_theirs, err_theirs}:
                os.close(fd)
        _, self.stdin = await asyncio.open_unix_connection(sock=stdin_ours)
        self.stdout = await self._reader(out_ours)
        self.stderr = self.stdout if self._merged else await self._reader(err_ours)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._shell.processes.hang_up(self.child)
        self.stdin.close()
        for transport in self._transports:
            transport.close()

    async def _reader(self, fd: int) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=_READ_BYTES)
        pipe = os.fdopen(fd, "rb", buffering=0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._transports.append(transport)
        return reader


def _v2_packet(kind: int, data: bytes) -> bytes:
    return bytes([kind]) + len(data).to_bytes(4, "little") + data


async def _copy(output: asyncio.StreamReader, stream: Stream, kind: int | None = None) -> None:
    while data := await output.read(_READ_BYTES):
        await stream.write(data if kind is None else _v2_packet(kind, data))


async def _feed_plain(stream: Stream, stdin: asyncio.StreamWriter) -> None:
    while data := await stream.read():
        await _pass_on(stdin, data)


async def _feed_v2(stream: Stream, stdin: asyncio.StreamWriter) -> None:
    reader = ByteReader(stream)
    with suppress(EOFError):
        while True:
            kind, *length = await reader.exactly(5)
            data = await reader.exactly(int.from_bytes(length, "little"))
            if kind == _STDIN:
                await _pass_on(stdin, data)
            elif kind == _CLOSE_STDIN and not stdin.is_closing():
                stdin.write_eof()


async def _pass_on(stdin: asyncio.StreamWriter, data: bytes) -> None:
    # A command that reads no more must not stop the stream: what it would not read is dropped, as by a pipe.
    with suppress(ConnectionError):
        if not stdin.is_closing():
            stdin.write(data)
            await stdin.drain()
