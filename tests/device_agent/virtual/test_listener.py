"""A phone that leaves, comes back and leaves again, at any moment."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing, suppress

import pytest

from device_agent.virtual.connection import Connection
from device_agent.virtual.listener import Listener

LONG_S = 600.0


def nobody(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> Connection:
    raise AssertionError("nobody connects")


def refuses(port: int) -> bool:
    with closing(socket.socket()) as client:
        return client.connect_ex(("127.0.0.1", port)) != 0


async def steps(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("count", range(12))
def test_leaves_again_while_it_comes_back(count: int) -> None:
    """Whichever step of coming back it has come to."""

    async def scenario() -> None:
        listener = Listener(nobody)
        await listener.start(0)
        listener.go_offline(LONG_S)
        await steps(3)
        listener.come_back()
        await steps(count)
        listener.go_offline(LONG_S)
        await steps(12)
        assert refuses(listener.port)
        listener.stop()
        await steps(3)

    asyncio.run(scenario())


def test_the_port_is_ours_while_nobody_listens() -> None:
    async def scenario() -> None:
        listener = Listener(nobody)
        await listener.start(0)
        listener.go_offline(LONG_S)
        with closing(socket.socket()) as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", listener.port))
        listener.stop()
        await steps(3)

    asyncio.run(scenario())


def test_comes_back_by_itself_and_leaves_no_port_taken() -> None:
    async def scenario() -> int:
        listener = Listener(nobody)
        await listener.start(0)
        listener.go_offline(0)
        while refuses(listener.port):
            await asyncio.sleep(0)
        listener.stop()
        await steps(3)
        return listener.port

    port = asyncio.run(scenario())
    with closing(socket.socket()) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()


@pytest.mark.parametrize("count", range(8))
def test_who_connects_as_it_leaves_is_not_kept_waiting(count: int) -> None:
    """Whichever step of being accepted its connection has come to."""

    async def scenario() -> None:
        listener = Listener(hanging)
        await listener.start(0)
        with closing(socket.create_connection(("127.0.0.1", listener.port))) as host:
            host.setblocking(False)
            await steps(count)
            listener.go_offline(LONG_S)
            async with asyncio.timeout(10):
                with suppress(ConnectionError):
                    assert await asyncio.get_running_loop().sock_recv(host, 1) == b""
        listener.stop()
        await steps(3)

    asyncio.run(scenario())


class Hanging(Connection):
    """A phone that says nothing until it is cut."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def serve(self) -> None:
        with suppress(ConnectionError):
            await self._reader.read()
        self._writer.close()


def hanging(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Connection:
    return Hanging(reader, writer)
