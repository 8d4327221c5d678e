"""`tcp:`, `localabstract:` and `reverse:`, driven by the real adb client."""

from __future__ import annotations

import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.device_agent.virtual.test_adb_protocol import dial
from tests.fakes.adb import Adb, connect
from tests.fakes.phones import PhoneFactory


@contextmanager
def echo_server(family: socket.AddressFamily, where: tuple[str, int] | str) -> Iterator[socket.socket]:
    """Answers one line in capitals to whoever connects."""
    with socket.socket(family) as server:
        server.bind(where)
        server.listen()

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client, client.makefile("rwb") as file:
                    file.write(file.readline().upper())

        threading.Thread(target=serve, daemon=True).start()
        yield server
        server.shutdown(socket.SHUT_RDWR)


def ask_at(port: int, text: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(text)
        try:
            with client.makefile("rb") as file:
                return file.read()
        except ConnectionResetError:
            return b""


def test_forward_to_a_tcp_port_and_an_abstract_socket(adb: Adb, virtual_phone: PhoneFactory) -> None:
    on = connect(adb, virtual_phone())
    name = f"lever-test-{uuid.uuid4()}"
    with (
        echo_server(socket.AF_INET, ("127.0.0.1", 0)) as tcp,
        echo_server(socket.AF_UNIX, f"\0{name}"),
    ):
        for remote in (f"tcp:{tcp.getsockname()[1]}", f"localabstract:{name}"):
            port = int(on("forward", "tcp:0", remote).stdout)
            assert ask_at(port, b"hello\n") == b"HELLO\n"
    assert ask_at(port, b"hello\n") == b"", "nobody listens there any more"


def test_reverse_reaches_the_host(adb: Adb, virtual_phone: PhoneFactory) -> None:
    on = connect(adb, virtual_phone())
    with echo_server(socket.AF_INET, ("127.0.0.1", 0)) as host:
        remote = f"tcp:{host.getsockname()[1]}"
        port = int(on("reverse", "tcp:0", remote).stdout)
        assert f"tcp:{port} {remote}" in on("reverse", "--list").stdout.decode()
        assert ask_at(port, b"hello\n") == b"HELLO\n"
        assert ask_at(port, b"again\n") == b"AGAIN\n"
        assert b"cannot rebind" in on("reverse", "--no-rebind", f"tcp:{port}", "tcp:1").stderr
        assert on("reverse", f"tcp:{port}", "tcp:1").returncode == 0
        assert ask_at(port, b"hello\n") == b"", "refused by the host"
        assert on("reverse", "--remove", f"tcp:{port}").returncode == 0
        assert on("reverse", "--remove", f"tcp:{port}").returncode == 1
        with pytest.raises(ConnectionRefusedError):
            ask_at(port, b"")
        port = int(on("reverse", "tcp:0", remote).stdout)
        assert on("reverse", "--remove-all").returncode == 0
        assert on("reverse", "--list").stdout.strip() == b""
        assert on("reverse", "tcp:80x", remote).returncode == 1


def test_reverse_ends_with_its_connection(virtual_phone: PhoneFactory) -> None:
    phone = virtual_phone()
    host = dial(phone)
    with host.socket:
        host.greet()
        answer = host.read_all(1, host.open(b"reverse:forward:tcp:0;tcp:9", 1))
        assert answer[:8] == b"OKAY0005"
        port = int(answer[8:])
        socket.create_connection(("127.0.0.1", port)).close()
        assert host.receive()[3] == b"tcp:9\0", "the phone asks for a stream"
    phone.until(lambda: _refused(port))


def _refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return True
    return False
