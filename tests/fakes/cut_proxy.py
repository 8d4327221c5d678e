"""A way to PostgreSQL that is cut on purpose: just before, or just after, the server is told to commit."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit


class CutProxy:
    """Forwards connections from `url` to the real server's. `cut` = "before": the next COMMIT does not reach the
    server; "after": it does, and nobody hears of it. Either way that connection is gone, others are not."""

    def __init__(self, url: str) -> None:
        there = urlsplit(url)
        assert there.port
        self._there = ("127.0.0.1", there.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = url.replace(f":{there.port}/", f":{self._listener.getsockname()[1]}/")
        self.cut = ""
        self.cuts = 0
        self._open: list[socket.socket] = [self._listener]
        self._threads: list[threading.Thread] = []
        self._run(self._accept)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(30)
        for one in self._open:
            one.close()

    def _run(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._there)
                self._open += [client, server]
                for source, target, asks in ((client, server, True), (server, client, False)):
                    self._run(self._forward, source, target, asks)

    def _forward(self, source: socket.socket, target: socket.socket, asks: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if asks and self.cut and b"COMMIT" in data:
                    self._cut(source, target, data)
                    return
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _cut(self, client: socket.socket, server: socket.socket, data: bytes) -> None:
        cut, self.cut = self.cut, ""  # known before the client can ask again
        self.cuts += 1
        client.shutdown(socket.SHUT_RDWR)  # before the server is told: the answer must not get through
        if cut == "after":
            server.sendall(data)
            server.shutdown(socket.SHUT_WR)  # it commits, then finds nobody there
        else:
            server.shutdown(socket.SHUT_RDWR)
