"""The service `reverse:`: sockets on the phone that lead to the host (AOSP: handle_forward_request in adb.cpp).

Requests: forward:[norebind:]LOCAL;REMOTE, killforward:LOCAL, killforward-all, list-forward. Forwards end with the
connection.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from functools import partial

from device_agent.virtual.sockets import listening, pump
from device_agent.virtual.stream import Service, Stream

DialHost = Callable[[str, Service], Awaitable[None]]
"""Opens a stream to the destination on the host and lets the service serve it; raises ConnectionRefusedError."""


class Reverse:
    """Of one connection."""

    def __init__(self, dial_host: DialHost) -> None:
        self._dial_host = dial_host
        self._forwards: dict[str, tuple[str, socket.socket]] = {}  # local → remote, who listens
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def serve(self, request: str, stream: Stream) -> None:
        try:
            answer = self._answer(request)
        except (OSError, ValueError) as error:
            answer = "FAIL" + _counted(str(error))
        await stream.write(answer.encode("utf-8", "surrogateescape"))

    def close(self) -> None:
        for local in list(self._forwards):
            self._remove(local)

    def _answer(self, request: str) -> str:
        """Raises OSError, ValueError."""
        verb, _, rest = request.partition(":")
        if verb == "list-forward":
            return _counted("".join(f"host {local} {remote}\n" for local, (remote, _) in self._forwards.items()))
        if verb == "killforward-all":
            self.close()
            return "OKAY"
        if verb == "killforward":
            if rest not in self._forwards:
                raise ValueError(f"listener '{rest}' not found")
            self._remove(rest)
            return "OKAY"
        if verb == "forward":
            return self._forward(rest)
        raise ValueError(f"unknown request {request!r}")

    def _forward(self, specification: str) -> str:
        local, separator, remote = specification.removeprefix("norebind:").partition(";")
        if not separator or ":" not in remote:
            raise ValueError(f"bad forward: {specification}")
        if local in self._forwards:
            if specification.startswith("norebind:"):
                raise ValueError("cannot rebind existing socket")
            self._remove(local)
        kind, _, address = local.partition(":")
        server = listening(kind, address)
        any_port = local == "tcp:0"
        port = str(server.getsockname()[1]) if any_port else ""
        local = f"tcp:{port}" if any_port else local
        server.setblocking(False)
        self._forwards[local] = remote, server
        self._tasks[local] = asyncio.create_task(self._accept(server, remote))
        return "OKAY" + (_counted(port) if any_port else "")

    async def _accept(self, server: socket.socket, remote: str) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(server)
            try:
                await self._dial_host(remote, partial(pump, client))
            except ConnectionRefusedError:
                client.close()  # the host does not want it

    def _remove(self, local: str) -> None:
        _, server = self._forwards.pop(local)
        self._tasks.pop(local).cancel()
        server.close()


def _counted(text: str) -> str:
    """A protocol string: four hexadecimal digits of its length, then itself."""
    return f"{len(text.encode('utf-8', 'surrogateescape')):04x}{text}"
