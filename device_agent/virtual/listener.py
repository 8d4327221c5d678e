"""The phone's TCP side: accepts hosts on loopback, and can lose them all at once or be away for a while."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

from device_agent.virtual.connection import Connection

MakeConnection = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Connection]
_BUFFER = 1 << 20


class Listener:
    def __init__(self, make_connection: MakeConnection) -> None:
        self._make_connection = make_connection
        self._connections: set[Connection] = set()
        self._held: socket.socket | None = None  # never listens: the port stays ours while nobody does
        self._server: asyncio.Server | None = None
        self._coming_back: asyncio.Task[None] | None = None
        self._away = asyncio.Event()  # set: come back now
        self.port = 0

    async def start(self, port: int) -> None:
        """Raises OSError when the port is taken; 0 takes any."""
        self._held = _bound_socket(port)
        self.port = self._held.getsockname()[1]
        await self._listen()

    def stop(self) -> None:
        self._stay_away()
        self._shut(self._server)
        if self._held:
            self._held.close()

    def cut(self) -> None:
        """Every connection ends at once; the phone's processes go on."""
        for connection in self._connections:
            connection.cut()

    def babble(self) -> None:
        for connection in self._connections:
            connection.babble()

    def allow_offered_keys(self) -> None:
        for connection in self._connections:
            connection.allow_offered_key()

    def go_offline(self, seconds: float) -> None:
        """Cut, then refuse connections for so long; the port stays ours."""
        loop, server = asyncio.get_running_loop(), self._server
        for listening in server.sockets if server else ():
            loop.remove_reader(listening.fileno())
        # What was just accepted gets its transport first: asyncio 3.11 loses a connection whose server closes before
        # that, and its host would wait for a phone that never answers.
        loop.call_soon(self._shut, server)
        self._away.clear()
        self._stay_away()
        self._coming_back = asyncio.create_task(self._come_back(seconds))

    def come_back(self) -> None:
        """At once, when it is away."""
        self._away.set()

    def _stay_away(self) -> None:
        if self._coming_back:
            self._coming_back.cancel()

    def _shut(self, server: asyncio.Server | None) -> None:
        if server:
            server.close()
        self.cut()

    async def _come_back(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):  # wait_for() would swallow a cancellation that meets the event
                await self._away.wait()
        await self._listen()

    async def _listen(self) -> None:
        """Nothing is waited for before the server is known: who leaves meanwhile has to find and close it."""
        bound = _bound_socket(self.port)
        self._server = await asyncio.start_server(self._serve, sock=bound, limit=_BUFFER, start_serving=False)
        await self._server.start_serving()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not (self._server and self._server.is_serving()):  # accepted, and then it was away
            writer.transport.abort()
            return
        connection = self._make_connection(reader, writer)
        self._connections.add(connection)
        try:
            await connection.serve()
        except asyncio.CancelledError:
            pass  # the phone stops; asyncio 3.11 would print a traceback for a cancelled handler
        finally:
            self._connections.discard(connection)


def _bound_socket(port: int) -> socket.socket:
    """Bound but not listening: connections are refused until asyncio listens on it."""
    # asyncio switches Nagle's delay off only for sockets that name their protocol
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(("127.0.0.1", port))
    except OSError:
        bound.close()
        raise
    return bound
