"""The services `tcp:PORT` and `localabstract:NAME`: a stream to a socket on the phone, which is one on its host.

They connect while the stream is opened, as adbd does: a refused connection is a refused stream.
"""

from __future__ import annotations

import asyncio
import socket
from functools import partial

from device_agent.virtual.stream import Service, Stream, StreamClosed

_CONNECT_S = 0.5  # on loopback: only a full backlog waits
_READ_BYTES = 1 << 16


def dial(kind: str, address: str) -> Service | None:
    """The connected socket's service; None for a bad address or when nobody listens there."""
    try:
        return partial(pump, connected(kind, address))
    except (OSError, ValueError):
        return None


def connected(kind: str, address: str) -> socket.socket:
    """Raises OSError, and ValueError for what is no address."""
    family, where = parse(kind, address)
    client = socket.socket(family)
    try:
        client.settimeout(_CONNECT_S)
        client.connect(where)
    except BaseException:
        client.close()
        raise
    return client


def listening(kind: str, address: str) -> socket.socket:
    """Raises OSError, and ValueError for what is no address."""
    family, where = parse(kind, address)
    server = socket.socket(family)
    try:
        if family == socket.AF_INET:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(where)
        server.listen()
    except BaseException:
        server.close()
        raise
    return server


def parse(kind: str, address: str) -> tuple[socket.AddressFamily, tuple[str, int] | bytes]:
    """Raises ValueError."""
    if kind == "tcp" and address.isascii() and address.isdecimal() and int(address) < 1 << 16:
        return socket.AF_INET, ("127.0.0.1", int(address))
    if kind == "localabstract" and address:
        return socket.AF_UNIX, b"\0" + address.encode("utf-8", "surrogateescape")
    raise ValueError(f"{kind}:{address} is no socket that this phone has")


async def pump(client: socket.socket, stream: Stream) -> None:
    """Both ways until one side ends."""
    reader, writer = await open_streams(client)
    outgoing = asyncio.create_task(_send(stream, writer))
    try:
        while data := await reader.read(_READ_BYTES):
            await stream.write(data)
    except (ConnectionError, StreamClosed):
        pass
    finally:
        outgoing.cancel()
        writer.write(stream.take_unread())
        writer.close()


async def open_streams(client: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    client.setblocking(False)
    if client.family == socket.AF_INET:
        return await asyncio.open_connection(sock=client)
    return await asyncio.open_unix_connection(sock=client)


async def _send(stream: Stream, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await stream.read():
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except ConnectionError:
        pass  # the other end reads no more; what it still says is passed on
