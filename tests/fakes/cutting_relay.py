"""A cable that breaks after so many bytes, as often as one likes."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class CuttingRelay:
    """Relays connections at `endpoint` to the phone at `target`; the first `cut_after` bytes from the host reach it."""

    def __init__(self, target: str) -> None:
        host, port = target.rsplit(":", 1)
        self._target = host, int(port)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.cut_after: int | None = None  # from now on; None: never
        self.relayed = 0  # bytes from the host to the phone, in all
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target) as phone:
            for each in (client, phone):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            others = {client: phone, phone: client}
            try:
                while self._pass_on(others, client):
                    pass
            except OSError:
                pass  # one end is gone: so is the other

    def _pass_on(self, others: dict[socket.socket, socket.socket], client: socket.socket) -> bool:
        for ready in select.select(list(others), [], [])[0]:
            data = ready.recv(1 << 16)
            if ready is client:
                data = data[: self.cut_after]
                self.relayed += len(data)
                if self.cut_after is not None:
                    self.cut_after -= len(data)
            others[ready].sendall(data)
            if not data or self.cut_after == 0:
                return False
        return True


@contextmanager
def cutting_relay(target: str) -> Iterator[CuttingRelay]:
    relay = CuttingRelay(target)
    try:
        yield relay
    finally:
        relay.close()
