"""What may answer at an address other than a sound phone: servers of other protocols, and phones that are broken."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from device_agent.virtual import packet as adb

Answer = Callable[[socket.socket], None]
BANNER = b"device::ro.product.name=odd;ro.product.model=odd;ro.product.device=odd;features=shell_v2"


@contextmanager
def listening(answer: Answer) -> Iterator[str]:
    """HOST:PORT of a server that treats every connection with `answer` and then keeps it open until the end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connections: list[socket.socket] = []

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connections.append(server.accept()[0])
                    threading.Thread(target=_treated, args=(answer, connections[-1]), daemon=True).start()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            for connection in connections:
                connection.close()
            thread.join(10)


def _treated(answer: Answer, connection: socket.socket) -> None:
    with suppress(OSError):
        answer(connection)


def ssh(connection: socket.socket) -> None:
    connection.sendall(b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n")


def short_ssh(connection: socket.socket) -> None:
    """Less than the header of an ADB packet."""
    connection.sendall(b"SSH-2.0-dropbear\r\n")


def web(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    connection.shutdown(socket.SHUT_RDWR)


def hangs_up(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.shutdown(socket.SHUT_RDWR)


def silent(connection: socket.socket) -> None:
    connection.recv(1)


def garbage_after_the_handshake(connection: socket.socket) -> None:
    """Like a phone until a service is opened."""
    connection.recv(4096)
    connection.sendall(adb.encode_header(adb.CNXN, adb.VERSION, adb.MAX_PAYLOAD, len(BANNER), 0) + BANNER)
    connection.recv(4096)
    connection.sendall(b"\xff" * 4096)


def silent_after_the_handshake(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(adb.encode_header(adb.CNXN, adb.VERSION, adb.MAX_PAYLOAD, len(BANNER), 0) + BANNER)
