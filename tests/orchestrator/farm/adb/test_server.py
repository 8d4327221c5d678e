"""The adb servers: the farm's private one, the user's, what they list, and the phones behind them."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from orchestrator.errors import PhoneUnauthorized, PhoneUnreachable, UsageError
from orchestrator.farm.adb.connect import open_transport
from orchestrator.farm.adb.server_client import ServerClient
from orchestrator.farm.adb.server_phones import ListedPhone, discover, pair, parsed_line
from orchestrator.farm.adb.server_process import adb_binary, private_server, stop_private_server, user_server
from orchestrator.run_files import read_json
from tests.fakes.phones import PhoneFactory


@pytest.fixture
def key(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "a home" / "adb" / "key"
    yield path
    stop_private_server(path)


def connect(address: str, key: Path, timeout_s: float = 10) -> None:
    with open_transport(address, key) as transport:
        transport.connect(timeout_s)
        assert transport.shell("echo there", 5).stdout == "there\n"


def process_of(key: Path) -> psutil.Process:
    saved = read_json(key.parent / "server" / "server.json")
    assert saved
    return psutil.Process(saved["pid"])


def test_private_server_is_one_and_is_ended_exactly(key: Path) -> None:
    assert not stop_private_server(key)
    server = private_server(key)
    assert private_server(key) == server
    process = process_of(key)
    listening = [entry.laddr for entry in process.net_connections() if entry.status == psutil.CONN_LISTEN]
    assert listening == [("127.0.0.1", server.port)], "loopback alone, and neither mDNS nor a search for emulators"
    assert (key.parent / "server" / "home" / ".android" / "adbkey").samefile(key)
    assert stop_private_server(key)
    assert not process.is_running()


def test_private_server_that_died_is_started_again(key: Path) -> None:
    private_server(key)
    process = process_of(key)
    process.kill()
    process.wait(10)
    assert discover(private_server(key)) == []
    assert process_of(key) != process


def test_a_pid_that_is_somebody_elses_now_is_let_live(key: Path) -> None:
    private_server(key)
    saved = key.parent / "server" / "server.json"
    ours = process_of(key)
    saved.write_text(saved.read_text().replace('"started": ', '"started": 1'))
    assert not stop_private_server(key)
    assert ours.is_running()
    ours.kill()


def test_both_backends_show_the_phone_one_key(virtual_phone: PhoneFactory, key: Path) -> None:
    phone = virtual_phone("phone", "pixel8", "--require-auth")
    with pytest.raises(PhoneUnauthorized, match="does not trust our key") as caught:
        connect(f"wireless:{phone.endpoint}", key, 1.5)
    assert f"{key}.pub" in caught.value.remedy
    phone.authorize()
    connect(f"wireless:{phone.endpoint}", key)
    connect(phone.address, key, 2)
    phone.unauthorized()
    with pytest.raises(PhoneUnauthorized):
        connect(f"wireless:{phone.endpoint}", key, 1.5)


def test_lost_phone_is_found_again_at_once(virtual_phone: PhoneFactory, key: Path) -> None:
    phone = virtual_phone()
    for _ in range(3):
        connect(f"wireless:{phone.endpoint}", key, 2.5)  # adb would wait 3 s before it looks again
        phone.cut()


def test_usb_phones_are_those_of_the_users_server(
    virtual_phone: PhoneFactory, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = virtual_phone()
    connect(f"wireless:{phone.endpoint}", key)
    server = private_server(key)
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(server.port))  # plays the user's: nothing else listens there
    listed = ListedPhone(phone.endpoint, "device", product="CPH2581", model="CPH2581", device="OP595DL1")
    assert [found.serial for found in discover(user_server())] == [listed.serial]
    connect(f"usb:{phone.endpoint}", key)
    with pytest.raises(PhoneUnreachable, match="usb:R5CT: connecting failed: the phone is not listed"):
        connect("usb:R5CT", key)


def test_users_server_is_started_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    quiet = {"ADB_USB": "0", "ADB_MDNS": "0", "ADB_EMU": "0", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    for name, value in {"ANDROID_ADB_SERVER_PORT": str(port), **quiet}.items():
        monkeypatch.setenv(name, value)
    server = user_server()
    assert discover(server) == []
    assert user_server() == server
    subprocess.run([adb_binary(), "kill-server"], check=True)  # the test's own: its port is the test's


def test_nobody_answers_at_the_servers_port() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(PhoneUnreachable, match=f"adb server at port {port} does not answer"):
            discover(ServerClient(port, ""))


@pytest.mark.parametrize("code", ["", "12345", "1234567", "12345x", "١٢٣٤٥٦", "123;45"])
def test_pairing_code_has_six_digits(code: str) -> None:
    with pytest.raises(UsageError, match="six digits"):
        pair(ServerClient(1, ""), "phone:37099", code)


def test_pairing_with_nobody_fails_with_the_reason(key: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(PhoneUnreachable, match=f"pairing with {endpoint} failed: .") as caught:
            pair(private_server(key), endpoint, "123456")
    assert "pairing dialog" in caught.value.remedy


def test_nothing_listens(key: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(PhoneUnreachable, match=rf"wireless:{endpoint}: connecting failed: .*refused"):
            connect(f"wireless:{endpoint}", key, 5)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(64)])
def test_port_of_something_else(key: Path, answer: bytes) -> None:
    """An adb server cannot tell what is wrong, only that."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client:
                client.sendall(answer)
                client.recv(1 << 16)

        thread = threading.Thread(target=serve)
        thread.start()
        endpoint = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(PhoneUnreachable, match=f"wireless:{endpoint}: connecting"):
            connect(f"wireless:{endpoint}", key, 1)
        stop_private_server(key)  # it may hold the connection
        thread.join()


@pytest.mark.parametrize(
    ("line", "phone"),
    [
        ("R5CT1 device usb:1-4 product:a model:Galaxy_S24 device:e1q transport_id:3",
         ListedPhone("R5CT1", "device", "a", "Galaxy_S24", "e1q", "1-4")),
        ("R5CT1                  unauthorized usb:1-4 transport_id:3", ListedPhone("R5CT1", "unauthorized", usb="1-4")),
        ("R5CT1 no permissions (missing udev rules? user is in the plugdev group); see [http://x/usb.html] usb:1-4",
         ListedPhone("R5CT1", "no permissions", usb="1-4")),
        ("10.0.0.2:5555 offline transport_id:7", ListedPhone("10.0.0.2:5555", "offline")),
    ],
)  # fmt: skip
def test_lines_of_the_list(line: str, phone: ListedPhone) -> None:
    assert parsed_line(line) == phone
